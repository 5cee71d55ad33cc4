/* SPDX-License-Identifier: Apache-2.0 */
/* A spanprof that asks for a token, and one that has gone away. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browser, settled, visit } from "./visitor.mjs";

const { PAGES_TOKEN: token, PAGES_ADDRESS: address, PAGES_PID: pid } = process.env;
let opened;

before(async () => {
    opened = await browser();
});
after(() => opened.close());

test("the token is asked for, remembered, and goes with downloads", async () => {
    const { page, wrong, close } = await visit(opened, "/flame");
    assert.match(await page.locator(".note").innerText(), /token/);
    await page.getByLabel("Token").fill("a wrong one, quite long");
    await page.keyboard.press("Enter");
    await settled(page);
    assert.match(await page.locator(".note").innerText(), /token/);
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".flamebox canvas");
    await page.reload();
    await page.waitForSelector(".flamebox canvas");
    for (const link of await page.locator(".downloads a").all()) {
        const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
        assert.equal(await download.failure(), null);
    }
    assert.ok(!page.url().includes(token));
    assert.deepEqual(
        wrong.filter((each) => !/401/.test(each)),
        [],
    );
    await close();
});

test("the address that spanprof pages prints needs no form, and shows no token", async () => {
    const { page, wrong, close } = await visit(opened, new URL(address).pathname + new URL(address).hash);
    await settled(page);
    await page.waitForSelector("main h1");
    assert.ok(!page.url().includes(token));
    await page.reload();
    await page.waitForSelector("main h1");
    assert.deepEqual(wrong, []);
    await close();
});

test("who is gone is said, and asked again", async () => {
    const { page, close } = await visit(opened, "/status");
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.waitForSelector("main h1");
    process.kill(Number(pid));
    await page.waitForTimeout(3000);
    await page.getByRole("link", { name: "Timeline" }).click();
    await page.waitForSelector("[role=alert]");
    assert.match(await page.locator("[role=alert]").innerText(), /does not answer/);
    await page.getByRole("link", { name: "Status" }).click();
    await page.waitForFunction(() => location.pathname === "/status");
    await settled(page);
    await page.getByRole("button", { name: "Try again" }).click();
    await settled(page);
    assert.match(await page.locator("[role=alert]").innerText(), /does not answer/);
    await close();
});
