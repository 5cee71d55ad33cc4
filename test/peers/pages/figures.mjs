/* SPDX-License-Identifier: Apache-2.0 */
/* When a view is there, and what it takes to get it. */
import { BASE, settled } from "./visitor.mjs";

const NEIGHBOUR = "/api/values?of=host";

/* Of each path, in ms since the address was opened: first paint; when the view asked, and was shown;
 * the slowest answer; bytes that came. The browser has nothing in its cache at first, then the files.
 * `from`: the page before it, or about:blank. */
export async function figures(opened, paths, from = BASE + NEIGHBOUR) {
    const context = await opened.newContext({ viewport: { width: 1360, height: 860 } });
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    await session.send("Network.enable");
    let bytes = 0;
    session.on("Network.loadingFinished", (each) => {
        bytes += each.encodedDataLength;
    });
    const found = [];
    for (const path of paths) {
        await page.goto(from);
        bytes = 0;
        await page.goto(BASE + path);
        await settled(page);
        const times = await page.evaluate(() => {
            const shown = performance.getEntriesByType("measure").at(-1);
            return {
                paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
                asked: shown?.startTime,
                shown: shown?.startTime + shown?.duration,
                answer: Math.max(
                    ...performance
                        .getEntriesByType("resource")
                        .filter((each) => each.name.includes("/api/"))
                        .map((each) => each.responseEnd - each.requestStart),
                ),
            };
        });
        found.push({ path, ...times, bytes });
    }
    await context.close();
    return found;
}

/* First paints of the frame of a page alone, without its scripts: what the browser itself takes. */
export async function bareFigures(opened, paths, from = BASE + NEIGHBOUR) {
    const context = await opened.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    const found = [];
    for (const path of paths) {
        await page.goto(from);
        await page.goto(BASE + path);
        await page.waitForTimeout(250);
        found.push({
            paint: await page.evaluate(
                () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
            ),
        });
    }
    await context.close();
    return found;
}
