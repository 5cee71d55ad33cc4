/* SPDX-License-Identifier: Apache-2.0 */
/* Links from one view to another, and download links. */
import { change, general, href, pick, FILTERS } from "./address.js";
import { download } from "./api.js";
import { h } from "./dom.js";

/* Links of a frame, with the same filters. In a trace's view the links stay within the trace. */
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

/* Download formats. Formats with whole stacks take no view parameter. */
const FORMS = [
    ["svg", "/flame.svg", "SVG", "A picture", ["view", "frames"]],
    ["folded", "/flame.folded", "Folded", "One line per stack, for flamegraph.pl", ["view", "frames"]],
    ["speedscope.json", "/flame.speedscope.json", "Speedscope", "For speedscope.app", ["frames"]],
    ["pb.gz", "/flame.pb.gz", "pprof", "For go tool pprof", ["frames"]],
];

function away(path, query, ending, label, title) {
    const properties = { title, download: `spanprof.${ending}`, onclick: download };
    return h("a", { href: href(path, query), ...properties }, label);
}

/* Downloads of the stacks of these filters, in each format. */
export const forms = (params) =>
    FORMS.map(([ending, path, label, what, more]) =>
        away(path, pick(params, [...FILTERS, ...more]), ending, label, what),
    );

/* Downloads of a difference: a coloured picture, and lines with two counts. */
export const differences = (query) => [
    away("/flame.svg", query, "svg", "SVG", "A picture: red is more than before, blue less"),
    away("/flame.folded", query, "folded", "Folded", "One line per stack: before and now"),
];

/* A link to the JSON that a view requested. */
export const json = (path, query, label = "JSON") =>
    away(path, query, "json", label, "This view as JSON");

export const downloads = (label, ...links) =>
    h("div", { class: "downloads" }, h("span", {}, `${label}:`), links);

const NAMELESS = {
    service: "without a service",
    span: "outside of spans",
    container: "in no container",
};

/* The label of a group without a name; others: small groups that the server merged. */
export const unnamed = (by, each) =>
    each.others ? "all others" : (NAMELESS[by] ?? "without a name");

/* Whether a filter can select exactly this group; a group without a name has no filter. */
export const isAskable = (by, each) =>
    Boolean(each.name && !each.others && (by !== "span" || each.service));

/* Advice for a view without data. */
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
