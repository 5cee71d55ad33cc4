/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the views, `name value unit`, the middle of several visits: started by
 * test/bench/bench_pages_browser.py. */
import { figures } from "./figures.mjs";
import { browser } from "./visitor.mjs";

const VISITS = 7;
const VIEWS = ["traces", "functions", "flame", "timeline"];
const RANGES = { "15m": "", "1h": "?from=-1h" };
const middle = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const opened = await browser();
await figures(opened, ["/status"]); /* the browser has started */
for (const [range, query] of Object.entries(RANGES))
    for (const view of VIEWS) {
        const found = await figures(opened, Array(VISITS).fill(`/${view}${query}`));
        const name = `browser_${view}_${range}`;
        const print = (what, each) => console.log(`${name}_${what} ${middle(found.map(each)).toFixed(1)} ms`);
        print("first_paint", ({ paint }) => paint);
        print("shown", ({ shown }) => shown);
        print("slowest_answer", ({ answer }) => answer);
    }
await opened.close();
