/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph as a table: the heaviest frames in tree order, indented; for screen readers. */
import { h, name, td, th } from "./dom.js";
import { count, duration, percent } from "./text.js";

const ROWS_MAX = 300;

/* The heaviest nodes, in tree order. They include the callers of each node: a caller is at least as
 * heavy. */
function heaviest({ n, value }) {
    const nodes = Array.from({ length: n }, (_, i) => i);
    if (n <= ROWS_MAX) return nodes;
    return nodes
        .sort((a, b) => value[b] - value[a] || a - b)
        .slice(0, ROWS_MAX)
        .sort((a, b) => a - b);
}

export function flameTable(tree, answer, zoom) {
    const shown = heaviest(tree);
    const rows = shown.map((node) =>
        h(
            "tr",
            { "aria-level": tree.depth[node] + 1 },
            td("num", String(tree.depth[node] + 1)),
            td(
                "call",
                h("span", {
                    class: "indent",
                    style: { width: `${Math.min(tree.depth[node], 40) * 10}px` },
                }),
                h(
                    "button",
                    { type: "button", class: "link", onclick: () => zoom(node) },
                    name(tree.label(node)),
                ),
            ),
            td("num", duration(tree.nodes.total_ns[node])),
            td("num", percent(tree.nodes.total_ns[node], answer.cpu_ns)),
            td("num", duration(tree.nodes.self_ns[node])),
            td("num", count(tree.nodes.samples[node])),
        ),
    );
    return h(
        "div",
        { class: "scroll" },
        h(
            "table",
            { class: "list" },
            h(
                "caption",
                {},
                shown.length < tree.n
                    ? `The ${shown.length} heaviest of ${count(tree.n)} frames, in order of calls`
                    : "All frames, in order of calls",
            ),
            h(
                "thead",
                {},
                h(
                    "tr",
                    {},
                    th("Depth", "num"),
                    th("Function"),
                    th("CPU", "num"),
                    th("Share", "num"),
                    th("Itself", "num"),
                    th("Samples", "num"),
                ),
            ),
            h("tbody", {}, rows),
        ),
    );
}
