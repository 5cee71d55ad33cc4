/* SPDX-License-Identifier: Apache-2.0 */
/* Recent traces, slowest first. */
import { change, general, href, ofTrace } from "./address.js";
import { bar, choice, h, name, td, th, what } from "./dom.js";
import { downloads, empty, forms, json, partly } from "./links.js";
import { ago, clock, column, count, day, plural } from "./text.js";

const ORDERS = [
    ["slowest", "Slowest"],
    ["latest", "Latest"],
    ["cpu", "Most CPU"],
];
const LIMITS = [50, 200, 1000];

function started(ms, now) {
    const date = day(ms) === day(now) ? "" : `${day(ms)} `;
    return h("time", { title: `${day(ms)} ${clock(ms, true)}, ${ago(ms, now)}` }, date + clock(ms));
}

function row(trace, { longest, wall, cpu, now }) {
    const to = href("/trace", ofTrace(trace.trace_id));
    const top =
        trace.top_function &&
        h(
            "a",
            {
                class: "quiet",
                title: "Flame graph of this trace",
                href: href("/flame", ofTrace(trace.trace_id), { search: trace.top_function }),
            },
            name(trace.top_function),
        );
    return h(
        "tr",
        {},
        what(
            h("a", { href: to, "data-key": `trace-${trace.trace_id}` }, name(trace.name)),
            trace.error && h("span", { class: "tag bad" }, "error"),
            h("small", {}, name(trace.service)),
        ),
        td("num muted", started(trace.start_ms, now)),
        td("graph", bar(trace.duration_ns, longest, trace.cpu_ns)),
        td("num", wall(trace.duration_ns)),
        td("num", cpu(trace.cpu_ns)),
        td("num muted", count(trace.samples)),
        td("num muted", count(trace.spans)),
        td(
            "what function",
            h(
                "div",
                {},
                top || h("span", { class: "muted", title: "No sample hit this trace" }, "–"),
            ),
        ),
    );
}

function more(limit, n, path, params) {
    const next = LIMITS.find((each) => each > limit);
    return next && n >= limit
        ? h(
              "p",
              { class: "paging" },
              h(
                  "a",
                  {
                      class: "button",
                      href: href(path, change(params, { limit: next })),
                      "data-key": "more",
                  },
                  `Show up to ${count(next)}`,
              ),
          )
        : null;
}

function table(traces) {
    const now = Date.now();
    const walls = traces.map((trace) => trace.duration_ns);
    const scale = {
        now,
        longest: Math.max(...walls, 1),
        wall: column(walls),
        cpu: column(traces.map((trace) => trace.cpu_ns)),
    };
    return h(
        "table",
        { class: "list traces" },
        h(
            "thead",
            {},
            h(
                "tr",
                {},
                th("Trace"),
                th("Started", "num"),
                th("Wall and CPU time", "graph", {
                    title: "Light: wall time; dark: of it on a CPU",
                }),
                th("Wall", "num"),
                th("CPU", "num"),
                th("Samples", "num"),
                th("Spans", "num"),
                th("Top function"),
            ),
        ),
        h(
            "tbody",
            {},
            traces.map((trace) => row(trace, scale)),
        ),
    );
}

export function show({ path, params, questions, answers: [answer] }) {
    const order = params.get("order") ?? "slowest";
    const limit = Number(params.get("limit") ?? LIMITS[0]);
    const { traces } = answer;
    const said = `${plural(traces.length, "trace")}, ${ORDERS.find(([key]) => key === order)?.[1].toLowerCase() ?? ""} first`;
    const heading = h(
        "div",
        { class: "heading" },
        h("h1", {}, "Traces"),
        h("p", { class: "sum" }, said),
        choice("Order", ORDERS, order, (value) =>
            href(
                path,
                change(params, { order: value === "slowest" ? null : value }),
                location.hash.slice(1),
            ),
        ),
    );
    if (!traces.length)
        return {
            title: "Traces",
            node: h(
                "div",
                {},
                heading,
                partly(answer.complete),
                empty(path, general(params), "No traces"),
            ),
        };
    return {
        title: "Traces",
        said,
        node: h(
            "div",
            {},
            heading,
            partly(answer.complete),
            h("div", { class: "scroll" }, table(traces)),
            more(limit, traces.length, path, params),
            downloads("Take away", json(...questions[0]), "stacks of all:", forms(params)),
        ),
    };
}
