/* SPDX-License-Identifier: Apache-2.0 */
/* A module of the pages, as the browser has it: its neighbours are put in as well. */
import { readFileSync } from "node:fs";

const FOLDER = new URL("../../exporter/pages/web/", import.meta.url);
const made = new Map();

function address(name) {
    if (!made.has(name)) {
        const text = readFileSync(new URL(name, FOLDER), "utf8").replace(
            /from "\.\/([a-z]+\.js)"/g,
            (_, each) => `from "${address(each)}"`,
        );
        made.set(name, `data:text/javascript;base64,${Buffer.from(text).toString("base64")}`);
    }
    return made.get(name);
}

export const load = (name) => import(address(name));
