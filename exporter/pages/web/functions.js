/* SPDX-License-Identifier: Apache-2.0 */
/* The functions with the most CPU time, their cost per year, and which groups cause it. */
import { FILTERS, baseline, change, general, href, isRelative, ofTrace, pick } from "./address.js";
import { bar, choice, h, name, td, th, what } from "./dom.js";
import { languages } from "./languages.js";
import { downloads, empty, forms, isAskable, json, partly, unnamed } from "./links.js";
import { changeOfSelf, mostChanged, standing } from "./rates.js";
import {
    base,
    column,
    count,
    digits,
    duration,
    full,
    percent,
    plural,
    range,
    signed,
    waiting,
} from "./text.js";

const FACES = [
    ["functions", "Functions"],
    ["spans", "Spans and routes"],
];
const LIMITS = [100, 1000, 10000];

/* ---- a function ---- */

function functionCell(each, filters) {
    const to = href("/functions", change(filters, { function: each.function }), { by: "spans" });
    const key = each.rank ? `fn-${each.rank}` : `fn-before-${each.base_rank}`;
    return what(
        h("a", { href: to, "data-key": key }, name(each.function)),
        h(
            "small",
            {},
            h("i", { class: `type ${each.type}` }),
            each.type,
            each.module && [" · ", name(base(each.module), { title: full(each.module) })],
            each.file && [" · ", name(base(each.file), { title: full(each.file) })],
        ),
    );
}

function annualCells(annual, order) {
    const of = (what) => annual[`${order}_${what}`];
    return [
        td("num", of("core_hours").toFixed(1)),
        td("num", of("co2_kg").toFixed(2)),
        td("num", of("usd").toFixed(2)),
    ];
}

function rows(answer, order, params) {
    const most = Math.max(...answer.functions.map((each) => each[`${order}_ns`]), 1);
    const filters = pick(params, FILTERS);
    const self = column(answer.functions.map((each) => each.self_ns));
    const total = column(answer.functions.map((each) => each.total_ns));
    return answer.functions.map((each) =>
        h(
            "tr",
            {},
            td("num muted", count(each.rank)),
            functionCell(each, filters),
            td(
                "graph",
                order === "self" ? bar(each.self_ns, most) : bar(each.total_ns, most, each.self_ns),
            ),
            td("num", self(each.self_ns)),
            td("num muted", percent(each.self_ns, answer.cpu_ns)),
            td("num", total(each.total_ns)),
            td("num muted", percent(each.total_ns, answer.cpu_ns)),
            td("num muted", count(each[`${order}_samples`])),
            annualCells(each.annual, order),
            td(
                "act",
                h(
                    "a",
                    {
                        href: href("/flame", change(filters, { function: each.function })),
                        title: "Flame graph of it",
                    },
                    "flame",
                ),
            ),
        ),
    );
}

function head(order, path, params) {
    const sorted = (key, label) => {
        const cell = th(null, "num", {
            colspan: 2,
            "aria-sort": order === key ? "descending" : null,
        });
        cell.append(
            h(
                "a",
                { href: href(path, change(params, { order: key === "self" ? null : key })) },
                `${label}${order === key ? " ↓" : ""}`,
            ),
        );
        return cell;
    };
    return h(
        "thead",
        {},
        h(
            "tr",
            {},
            th("#", "num"),
            th("Function"),
            th("", "graph", { title: order === "self" ? "Self" : "Total, and self" }),
            sorted("self", "Self CPU"),
            sorted("total", "Total CPU"),
            th("Samples", "num"),
            th("Core-h / year", "num", { title: `What a year at this rate would be, ${order}` }),
            th("CO₂ kg / year", "num"),
            th("USD / year", "num"),
            th("", "act"),
        ),
    );
}

/* ---- search within the list ---- */

function finder(table) {
    const found = h("output", { class: "found" });
    const input = h("input", {
        type: "search",
        placeholder: "Find in this list",
        "aria-label": "Find in this list",
        "data-key": "find",
        oninput: () => {
            const low = input.value.toLowerCase();
            let n = 0;
            table.querySelectorAll("tbody tr").forEach((row) => {
                row.hidden = low !== "" && !row.textContent.toLowerCase().includes(low);
                n += row.hidden ? 0 : 1;
            });
            found.textContent = low ? plural(n, "row") : "";
        },
    });
    return h("span", { class: "search" }, input, found);
}

/* ---- who pays ---- */

function payer(each, { all, most, cpu }, params) {
    const of = change(pick(params, FILTERS), { service: each.service, span: each.span });
    const alone = isAskable("span", { ...each, name: each.span });
    const fn = params.get("function");
    return h(
        "tr",
        {},
        what(
            each.span
                ? h(
                      "a",
                      {
                          href: href("/traces", change(general(of), { order: fn ? "cpu" : null })),
                          title: "Its traces",
                      },
                      name(each.span),
                  )
                : h("i", { class: "muted" }, unnamed("span", each)),
            h(
                "small",
                {},
                name(each.service),
                each.route && each.route !== each.span ? [" · ", name(each.route)] : "",
            ),
        ),
        td("graph", fn ? bar(each.cpu_ns, most, each.self_ns) : bar(each.cpu_ns, most)),
        td("num", cpu(each.cpu_ns)),
        td("num muted", percent(each.cpu_ns, all)),
        fn && td("num", cpu(each.self_ns)),
        td("num muted", count(each.samples)),
        td(
            "act",
            alone && h("a", { href: href("/flame", of), title: "Flame graph of it" }, "flame"),
            each.example_trace_id &&
                h(
                    "a",
                    {
                        href: href("/trace", ofTrace(each.example_trace_id)),
                        title: "The trace with most of its time",
                    },
                    "trace",
                ),
        ),
    );
}

function payers(answer, params) {
    const fn = params.get("function");
    const sums = answer.spans.map((each) => each.cpu_ns);
    const scale = { all: answer.cpu_ns, most: Math.max(...sums, 1), cpu: column(sums) };
    return h(
        "table",
        { class: "list payers" },
        h(
            "thead",
            {},
            h(
                "tr",
                {},
                th("Span"),
                th("CPU", "graph"),
                th(fn ? "CPU in it" : "CPU", "num"),
                th("Share", "num"),
                fn && th("Itself", "num"),
                th("Samples", "num"),
                th("", "act"),
            ),
        ),
        h(
            "tbody",
            {},
            answer.spans.map((each) => payer(each, scale, params)),
        ),
    );
}

function paying({ path, params, questions, answers: [answer] }, heading) {
    const [, query] = questions[0];
    const fn = params.get("function");
    const said = `${duration(answer.cpu_ns)} on CPU in ${plural(answer.samples, "sample")}`;
    const title = fn ? h("h1", {}, "Who pays for ", name(fn)) : h("h1", {}, "Spans and routes");
    if (!answer.spans.length)
        return {
            title: "Who pays",
            node: h("div", {}, heading(title, said), empty(path, params, "No samples")),
        };
    const table = payers(answer, params);
    return {
        title: "Who pays",
        said,
        node: h(
            "div",
            {},
            heading(
                title,
                said,
                finder(table),
                fn && h("a", { class: "button", href: href("/flame", query) }, "Flame graph of it"),
            ),
            partly(answer.complete),
            h("div", { class: "scroll" }, table),
            downloads("Take away", json(...questions[0]), "stacks:", forms(query)),
        ),
    };
}

/* ---- the view ---- */

function costs({ costs: c }) {
    return h(
        "p",
        { class: "quietnote" },
        `A year at the rate of this range. CO₂: ${c.watt_per_core} W a core × PUE ${c.pue} × ${digits(
            c.co2_t_per_kwh * 1e6,
        )} g/kWh; ${c.usd_per_core_hour} USD a core-hour (extension pages, keys of cost).`,
    );
}

function ranking(context, heading) {
    const {
        path,
        params,
        questions,
        answers: [answer],
    } = context;
    const order = params.get("order") ?? "self";
    const limit = Number(params.get("limit") ?? LIMITS[0]);
    const said = `${duration(answer.cpu_ns)} on CPU in ${plural(answer.samples, "sample")}`;
    const late = isRelative(params) ? waiting(answer) : "";
    const shown = `${said} · ${range(answer.from_ms, answer.to_ms)}${late}`;
    if (!answer.functions.length)
        return {
            title: "Functions",
            node: h(
                "div",
                {},
                heading(h("h1", {}, "Functions"), said, languages(context, answer.types)),
                empty(path, params, "No samples"),
            ),
        };
    const table = h(
        "table",
        { class: "list functions" },
        head(order, path, params),
        h("tbody", {}, rows(answer, order, params)),
    );
    const next = LIMITS.find((each) => each > limit);
    return {
        title: "Functions",
        said,
        node: h(
            "div",
            {},
            heading(
                h("h1", {}, "Functions"),
                shown,
                languages(context, answer.types),
                finder(table),
            ),
            partly(answer.complete),
            h("div", { class: "scroll" }, table),
            next &&
                answer.functions.length >= limit &&
                h(
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
                ),
            costs(answer),
            downloads("Take away", json(...questions[0]), "stacks:", forms(params)),
        ),
    };
}

export function show(context) {
    const { path, params, rest } = context;
    const face = rest.get("by") === "spans" ? "spans" : "functions";
    const live = rest.get("live") && { live: "1" };
    const heading = (title, said, ...more) =>
        h(
            "div",
            { class: "heading" },
            title,
            h("p", { class: "sum" }, said),
            choice("By", FACES, face, (value) =>
                href(path, params, { ...live, ...(value === "spans" && { by: value }) }),
            ),
            more,
        );
    return (face === "spans" ? paying : ranking)(context, heading);
}

/* ---- with a baseline: for the difference ---- */

function ranked(each) {
    const up = standing(each);
    if (typeof up === "string") return h("span", { class: `tag ${up}` }, up);
    return up === 0
        ? h("span", { class: "muted" }, "=")
        : h(
              "span",
              { class: up > 0 ? "more" : "less" },
              `${up > 0 ? "↑" : "↓"}${count(Math.abs(up))}`,
          );
}

function comparedRow(each, { rates, most, filters }) {
    const { now, before, text } = rates;
    const changed = changeOfSelf(rates, each);
    const usd = rates.yearlyUsd(each.self_ns, each.base_self_ns);
    const way = (value) => (value > 0 ? "more" : value < 0 ? "less" : "muted");
    const amount = (value, shown) => td(`num ${way(value)}`, signed(value, shown));
    return h(
        "tr",
        {},
        td("num muted", each.rank ? count(each.rank) : "–"),
        td("num", ranked(each)),
        functionCell(each, each.rank ? filters.now : filters.before),
        td("graph", bar(Math.abs(changed), most, undefined, way(changed))),
        td("num", text(before(each.base_self_ns))),
        td("num", text(now(each.self_ns))),
        amount(changed, text(Math.abs(changed))),
        td("num muted", text(before(each.base_total_ns))),
        td("num muted", text(now(each.total_ns))),
        amount(usd, digits(Math.abs(usd))),
    );
}

export function comparedFunctions(answer, rates, params) {
    const sorted = mostChanged(answer.functions, rates);
    const most = Math.max(...sorted.map((each) => Math.abs(changeOfSelf(rates, each))), 1e-12);
    const filters = { now: pick(params, FILTERS), before: baseline(params) };
    return h(
        "table",
        { class: "list functions" },
        h(
            "thead",
            {},
            h(
                "tr",
                {},
                th("#", "num"),
                th("Rank", "num", { title: "Against before" }),
                th("Function"),
                th("Change of self CPU", "graph"),
                ...["Before", "Now", "Change", "Total before", "Total now"].map((label) =>
                    th(`${label}, ${rates.unit}`, "num"),
                ),
                th("USD / year", "num", {
                    title: "Yearly cost of the change in self CPU, at the rates of both ranges",
                }),
            ),
        ),
        h(
            "tbody",
            {},
            sorted.map((each) => comparedRow(each, { rates, most, filters })),
        ),
    );
}
