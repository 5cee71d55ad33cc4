/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the views, `name value unit`, the middle of several visits: started by
 * test/bench/bench_pages_browser.py. A view is opened from another page of spanprof, and from an empty tab,
 * where the browser begins a process for it; what the browser takes for that alone is a figure too. */
import { bareFigures, figures } from "./figures.mjs";
import { browser } from "./visitor.mjs";

const VISITS = 7;
const VIEWS = ["traces", "functions", "flame", "timeline"];
const RANGES = { "15m": "", "1h": "?from=-1h" };
const FROM = { browser: undefined, browser_empty_tab: "about:blank" };
const middle = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const opened = await browser();

function print(name, found, figure) {
    console.log(`${name} ${middle(found.map(figure)).toFixed(1)} ms`);
}

await figures(opened, ["/status"]); /* the browser has started */
for (const [prefix, from] of Object.entries(FROM)) {
    const bare = await bareFigures(opened, Array(VISITS).fill("/traces"), from);
    print(`${prefix}_without_scripts_first_paint`, bare, ({ paint }) => paint);
    for (const [range, query] of Object.entries(RANGES))
        for (const view of VIEWS) {
            const found = await figures(opened, Array(VISITS).fill(`/${view}${query}`), from);
            const name = `${prefix}_${view}_${range}`;
            print(`${name}_first_paint`, found, ({ paint }) => paint);
            print(`${name}_shown`, found, ({ shown }) => shown);
            print(`${name}_slowest_answer`, found, ({ answer }) => answer);
        }
}
await opened.close();
