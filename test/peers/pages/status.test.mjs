/* SPDX-License-Identifier: Apache-2.0 */
/* A stock program without a publisher: its switch is shown, and copied by a click. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browser, visit } from "./visitor.mjs";

const { PAGES_PID: pid, PAGES_SWITCH: line } = process.env;
let opened;

before(async () => {
    opened = await browser();
});
after(() => opened.close());

test("the switch stands below its process, and Copy copies it", async () => {
    const { page, wrong, close } = await visit(opened, "/status", {
        permissions: ["clipboard-read", "clipboard-write"],
    });
    const row = page.locator("tr.wanting", { hasText: `process ${pid}` });
    assert.match(await row.innerText(), /python/);
    const advice = page.locator("tr.advice.wanting").first();
    assert.equal(await advice.locator(".copyable code").innerText(), line);
    assert.match(await advice.innerText(), /PYTHONPATH=/);
    await advice.getByRole("button", { name: "Copy" }).click();
    await advice.getByRole("button", { name: "Copied" }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), line);
    assert.match(await page.locator(".problems").innerText(), /Spans of stock have no CPU time/);
    assert.deepEqual(wrong, []);
    await close();
});

test("without a clipboard, as on a page that is not secure, the line is selected", async () => {
    const { page, close } = await visit(opened, "/status", { permissions: [] });
    await page.evaluate(() =>
        Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }),
    );
    await page.locator("tr.advice.wanting .copyable button").first().click();
    assert.equal(await page.evaluate(() => getSelection().toString()), line);
    await close();
});

test("on a narrow screen the switch is in sight", async () => {
    const { page, close } = await visit(opened, "/status", { viewport: { width: 420, height: 800 } });
    const box = await page.locator("tr.advice.wanting .copyable button").first().boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 420, JSON.stringify(box));
    await close();
});
