/* SPDX-License-Identifier: Apache-2.0 */
/* Ways from one view to another, and forms to take away. */
import { change, general, href, pick, FILTERS } from "./address.js";
import { download } from "./api.js";
import { h } from "./dom.js";

/* What a frame leads to: within the same filters. Those of one trace stay in it. */
export function frameLinks(params) {
    const filters = pick(params, FILTERS);
    return (frame) => {
        const of = { function: frame.function };
        return [
            ["Who pays for it", href("/functions", change(filters, of), { by: "spans" })],
            ["Traces with it", href("/traces", change(general(params), of))],
            ["Only stacks with it", href("/flame", change(filters, of))],
            ["Its callers", href("/flame", change(filters, { ...of, view: "callers" }))],
        ];
    };
}

/* Of whole stacks there is but one view. */
const FORMS = [
    ["svg", "/flame.svg", "SVG", "A picture", ["view"]],
    ["folded", "/flame.folded", "Folded", "One line per stack, for flamegraph.pl", ["view"]],
    ["speedscope.json", "/flame.speedscope.json", "Speedscope", "For speedscope.app", []],
    ["pb.gz", "/flame.pb.gz", "pprof", "For go tool pprof", []],
];

function away(path, query, ending, label, title) {
    const properties = { title, download: `spanprof.${ending}`, onclick: download };
    return h("a", { href: href(path, query), ...properties }, label);
}

/* The stacks of these filters, in each form. */
export const forms = (params) =>
    FORMS.map(([ending, path, label, what, more]) =>
        away(path, pick(params, [...FILTERS, ...more]), ending, label, what),
    );

/* Of two sides there are a coloured picture, and lines with two counts. */
export const differences = (query) => [
    away("/flame.svg", query, "svg", "SVG", "A picture: red is more than before, blue less"),
    away("/flame.folded", query, "folded", "Folded", "One line per stack: before and now"),
];

/* What a view asked for, as it asked. */
export const json = (path, query, label = "JSON") =>
    away(path, query, "json", label, "This view as JSON");

export const downloads = (label, ...links) =>
    h("div", { class: "downloads" }, h("span", {}, `${label}:`), links);

const NAMELESS = {
    service: "without a service",
    span: "outside of spans",
    container: "in no container",
};

/* What stands for a name where there is none; others: the many small ones, put together by the
 * server. */
export const unnamed = (by, each) =>
    each.others ? "all others" : (NAMELESS[by] ?? "without a name");

/* Whether a filter shows this group and nothing else: none asks for what has no name. */
export const isAskable = (by, each) =>
    Boolean(each.name && !each.others && (by !== "span" || each.service));

/* What to do when nothing is there. */
export function empty(path, params, what) {
    const filtered = FILTERS.filter((key) => !["from", "to"].includes(key) && params.has(key));
    const wide = change(params, { from: "-30d", to: null });
    return h(
        "section",
        { class: "note", role: "status" },
        h("h2", {}, what),
        h(
            "p",
            {},
            filtered.length
                ? "Nothing matches the filters in this time range."
                : "Nothing arrived in this time range. Samples appear up to ten seconds after the work, traces when their spans were sent to " +
                      "spanprof and something of them was sampled or slow.",
        ),
        h(
            "p",
            {},
            h("a", { class: "button", href: href(path, wide) }, "Everything kept"),
            filtered.length
                ? h(
                      "a",
                      { class: "button", href: href(path, pick(params, ["from", "to"])) },
                      "Without filters",
                  )
                : null,
            h("a", { class: "button", href: "/status" }, "What runs, and what is lost"),
        ),
    );
}

export const partly = (
    complete,
    more = "The query took too long; this is what was found in time. Use a narrower range or filter.",
) => (complete === false ? h("p", { class: "warn", role: "status" }, more) : null);
