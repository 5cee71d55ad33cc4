/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph of any filter. */
import { change, general, href, isRelative, ofTrace } from "./address.js";
import { choice, h } from "./dom.js";
import { FlameGraph } from "./flamegraph.js";
import { languages } from "./languages.js";
import { downloads, empty, forms, frameLinks, json, partly } from "./links.js";
import { duration, plural, range, waiting } from "./text.js";

const VIEWS = [
    ["callees", "From the root"],
    ["callers", "From the leaf"],
];

export function show(context) {
    const {
        path,
        params,
        rest,
        questions,
        answers: [flame],
    } = context;
    const view = params.get("view") ?? "callees";
    const trace = params.get("trace_id");
    const said = `${duration(flame.cpu_ns)} on CPU in ${plural(flame.samples, "sample")}`;
    const late = isRelative(params) && !trace ? waiting(flame) : "";
    const heading = h(
        "div",
        { class: "heading" },
        h("h1", {}, "Flame graph"),
        h("p", { class: "sum" }, `${said} · ${range(flame.from_ms, flame.to_ms)}${late}`),
        choice("View", VIEWS, view, (value) =>
            href(
                path,
                change(params, { view: value === "callees" ? null : value }),
                change(rest, { at: null }),
            ),
        ),
        languages(context, flame.types),
        trace
            ? h(
                  "a",
                  {
                      class: "button",
                      href: href("/trace", ofTrace(trace, { span_id: params.get("span_id") })),
                  },
                  "Its trace",
              )
            : h("a", { class: "button", href: href("/diff", general(params)) }, "Compare"),
    );
    if (!flame.nodes.parent.length)
        return {
            title: "Flame graph",
            node: h("div", {}, heading, empty(path, params, "No samples")),
        };
    const graph = new FlameGraph(flame, { links: frameLinks(params) });
    return {
        title: "Flame graph",
        said,
        shown: () => graph.shown(),
        onfragment: (now) => graph.onfragment(now),
        node: h(
            "div",
            {},
            heading,
            partly(flame.complete),
            graph.node,
            downloads("Take away", forms(params), json(...questions[0])),
        ),
    };
}
