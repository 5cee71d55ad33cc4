/* SPDX-License-Identifier: Apache-2.0 */
/* Names of services, spans, attributes and functions that want to do something: they do nothing,
 * and are shown. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { browser, settled, visit } from "./visitor.mjs";

const { services, functions, trace } = JSON.parse(process.env.PAGES_HOSTILE);
let opened;

before(async () => {
    opened = await browser();
});
after(() => opened.close());

const encoded = encodeURIComponent;
const paths = [
    "/traces?order=latest",
    `/trace?trace_id=${trace}`,
    "/functions",
    "/functions?order=total&limit=1000",
    "/functions#by=spans",
    "/flame",
    "/flame?view=callers",
    "/timeline",
    "/timeline?by=span",
    "/diff",
    "/status",
    ...services
        .filter((each) => each.length < 1000)
        .map((each) => `/traces?service=${encoded(each)}`),
    ...functions
        .filter((each) => each.length < 1000)
        .flatMap((each) => [
            `/flame?function=${encoded(each)}`,
            `/functions?function=${encoded(each)}#by=spans`,
        ]),
];

async function inspect(page, wrong) {
    const taken = await page.evaluate(() => ({
        elements: document.querySelectorAll(
            "main :is(script, img, iframe, object, embed, form, base), body > script:not([src^='/assets/'])",
        ).length,
        handlers: [...document.querySelectorAll("*")].filter((each) =>
            each
                .getAttributeNames()
                .some(
                    (name) =>
                        name.startsWith("on") ||
                        (name === "style" && /url|expression/.test(each.getAttribute("style"))),
                ),
        ).length,
        wide: document.documentElement.scrollWidth - innerWidth,
        taken: window.taken,
        title: document.title.length,
        overrides: /[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText),
    }));
    assert.deepEqual(
        { ...taken, wide: taken.wide > 0, title: taken.title > 400 },
        { elements: 0, handlers: 0, wide: false, taken: undefined, title: false, overrides: false },
    );
    assert.deepEqual(wrong, []);
}

for (const path of paths)
    test(`nothing happens at ${path.slice(0, 90)}`, async () => {
        const { page, wrong, close } = await visit(opened, path);
        await inspect(page, wrong);
        for (const summary of await page.locator("summary").all()) await summary.click();
        await inspect(page, wrong);
        await close();
    });

test("they are shown as they are", async () => {
    const { page, close } = await visit(opened, `/trace?trace_id=${trace}`);
    const text = await page.locator("main").innerText();
    assert.ok(text.includes("<script>"), text);
    assert.ok(text.includes("\\u202e"), "an override of direction is spelled out");
    await page.goto(`${new URL(page.url()).origin}/functions?service=shop&limit=1000`);
    await settled(page);
    const shown = await page.locator("main").innerText();
    functions
        .filter((each) => each.startsWith("<"))
        .forEach((each) => assert.ok(shown.includes(each), each));
    await close();
});
