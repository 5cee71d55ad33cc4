/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two time ranges or two filters: what grew and what shrank. */
import { baseline, change, href } from "./address.js";
import { choice, h, name } from "./dom.js";
import { FlameGraph } from "./flamegraph.js";
import { comparedFunctions } from "./functions.js";
import { languages } from "./languages.js";
import { downloads, empty, differences, forms, frameLinks, json, partly } from "./links.js";
import { ratesOf } from "./rates.js";
import { digits, duration, plural, range, signed } from "./text.js";

const MEASURES = [
    ["rate", "CPU in use"],
    ["share", "Share of CPU"],
];
const WIDTHS = [
    ["now", "Widths: now"],
    ["before", "Widths: before"],
];
function side(label, cpu, samples, from, to) {
    return h(
        "div",
        {},
        h("dt", {}, label),
        h(
            "dd",
            {},
            `${digits(cpu / 1e6 / Math.max(to - from, 1))} cores`,
            h("small", {}, `${duration(cpu)} in ${plural(samples, "sample")}, ${range(from, to)}`),
        ),
    );
}

function differing(params) {
    const set = [...params.keys()].filter(
        (key) => key.startsWith("base_") && !["base_from", "base_to"].includes(key),
    );
    return set.map((key) => h("span", {}, `${key.slice(5)} `, name(params.get(key)), " before; "));
}

function summary(flame, params) {
    const now = flame.cpu_ns / Math.max(flame.to_ms - flame.from_ms, 1);
    const before = flame.base_cpu_ns / Math.max(flame.base_to_ms - flame.base_from_ms, 1);
    const change_ = before ? (100 * (now - before)) / before : null;
    return h(
        "dl",
        { class: "figures" },
        side("before", flame.base_cpu_ns, flame.base_samples, flame.base_from_ms, flame.base_to_ms),
        side("now", flame.cpu_ns, flame.samples, flame.from_ms, flame.to_ms),
        h(
            "div",
            {},
            h("dt", {}, "change"),
            h(
                "dd",
                { class: now > before ? "more" : "less" },
                change_ === null ? "–" : signed(change_, `${digits(Math.abs(change_))} %`),
                h("small", {}, differing(params)),
            ),
        ),
    );
}

function away(params, [graph, functions]) {
    const before = change(baseline(params), { view: params.get("view"), frames: params.get("frames") });
    return [
        downloads(
            "Take away",
            json(...graph),
            json(...functions, "JSON of functions"),
            differences(graph[1]),
        ),
        downloads("Stacks now", forms(params)),
        downloads("Stacks before", forms(before)),
    ];
}

/* Links for functions that are gone lead to the baseline. */
function sidedLinks(flame, params) {
    const now = frameLinks(params);
    const before = frameLinks(baseline(params));
    return (frame, node) => (flame.nodes.total_ns[node] ? now : before)(frame);
}

export function show(context) {
    const {
        path,
        params,
        rest,
        questions,
        answers: [flame, functions],
    } = context;
    const measure = rest.get("by") === "share" ? "share" : "rate";
    const width = rest.get("width") === "before" ? "before" : "now";
    const keep = (changes) => Object.fromEntries(change(rest, changes));
    const rates = ratesOf(measure, flame, functions.costs?.usd_per_core_hour);
    const heading = h(
        "div",
        { class: "heading" },
        h("h1", {}, "Difference"),
        h("span", { class: "sum" }),
        choice("Measure", MEASURES, measure, (value) =>
            href(path, params, keep({ by: value === "rate" ? null : value, at: null })),
        ),
        choice("Widths", WIDTHS, width, (value) =>
            href(path, params, keep({ width: value === "now" ? null : value, at: null })),
        ),
    );
    heading.append(languages(context, flame.types) ?? "");
    if (!flame.nodes.parent.length)
        return {
            title: "Difference",
            node: h("div", {}, heading, empty(path, params, "No samples on either side")),
        };
    const graph = new FlameGraph(flame, {
        links: sidedLinks(flame, params),
        title: "the difference",
        width: width === "before" ? "base_total_ns" : "total_ns",
        rates,
    });
    return {
        title: "Difference",
        said: "Compared",
        shown: () => graph.shown(),
        node: h(
            "div",
            {},
            heading,
            summary(flame, params),
            partly(flame.complete && functions.complete),
            graph.node,
            h("div", { class: "heading second" }, h("h2", {}, "Functions, most changed first")),
            h("div", { class: "scroll" }, comparedFunctions(functions, rates, params)),
            away(params, questions),
        ),
    };
}
