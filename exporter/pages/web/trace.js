/* SPDX-License-Identifier: Apache-2.0 */
/* One trace: its spans over time, when each was on a CPU, and the flame graph of the selected span.
 */
import { change, href, ofTrace } from "./address.js";
import { choice, h, name, say } from "./dom.js";
import { FlameGraph } from "./flamegraph.js";
import { downloads, forms, frameLinks, json, partly } from "./links.js";
import { ask, questionsOf } from "./questions.js";
import { clock, count, day, duration, full, percent, plural, visible } from "./text.js";

const ROWS_MAX = 400;
const TICKS = 5;
const PIXELS_MAX = 2000; /* width of a bar */
const WAITED = 0.25; /* on a CPU for less than this share of its time */
const HUES = [212, 152, 28, 276, 344, 186, 96, 48];

/* Round steps: 1, 2 or 5 of a power of ten. */
function ticksOf(length) {
    const raw = length / TICKS;
    const power = 10 ** Math.floor(Math.log10(raw || 1));
    const step = power * ([1, 2, 5, 10].find((each) => each * power >= raw) ?? 10);
    const ticks = [];
    for (let at = 0; at <= length * 0.97; at += step) ticks.push(at);
    return ticks;
}

/* Joins pieces with less than a pixel between them: a long span may have very many pieces. */
function joined(busy, gap) {
    const pieces = [];
    for (const [at, ns] of busy) {
        const last = pieces[pieces.length - 1];
        if (last && at <= last[0] + last[1] + gap) last[1] = Math.max(last[1], at + ns - last[0]);
        else pieces.push([at, ns]);
    }
    return pieces;
}

class Waterfall {
    constructor(trace, chosen, params, path) {
        Object.assign(this, { trace, params, path, chosen });
        this.length = trace.duration_ns || 1;
        this.hues = new Map();
        trace.spans.forEach(
            (span) =>
                this.hues.has(span.service) ||
                this.hues.set(span.service, HUES[this.hues.size % HUES.length]),
        );
        this.folded = new Set();
        this.limit = ROWS_MAX;
        this.body = h("div", { role: "rowgroup" });
        this.node = h(
            "div",
            {
                class: "waterfall",
                role: "treegrid",
                "aria-label": "Spans",
                "aria-rowcount": trace.spans.length + 1,
                onkeydown: (event) => this.key(event),
            },
            this.head(),
            this.body,
        );
        this.fill();
    }

    head() {
        const ticks = ticksOf(this.length).map((at) =>
            h(
                "span",
                { class: "tick", style: { left: `${(100 * at) / this.length}%` } },
                duration(at) || "0",
            ),
        );
        const cell = (text, classes) => h("span", { role: "columnheader", class: classes }, text);
        return h(
            "div",
            { role: "row", class: "wrow whead" },
            cell("Span", "wname"),
            h("span", { role: "columnheader", class: "wbar", "aria-label": "Time" }, ticks),
            cell("Wall", "num"),
            cell("CPU", "num"),
            cell("Top function", "wtop"),
        );
    }

    visibleSpans() {
        const shown = [];
        let under = Infinity;
        this.trace.spans.forEach((span, i) => {
            if (span.depth > under) return;
            under = this.folded.has(i) ? span.depth : Infinity;
            shown.push(i);
        });
        return shown;
    }

    fill() {
        const shown = this.visibleSpans();
        this.body.replaceChildren(...shown.slice(0, this.limit).map((i) => this.row(i)));
        if (shown.length > this.limit)
            this.body.append(
                h(
                    "button",
                    {
                        type: "button",
                        onclick: () => {
                            this.limit *= 4;
                            this.fill();
                        },
                    },
                    `Show more of ${plural(shown.length, "span")}`,
                ),
            );
    }

    hasAbove(i) {
        return this.trace.spans[i + 1]?.depth > this.trace.spans[i].depth;
    }

    foldButton(i) {
        return this.hasAbove(i)
            ? h(
                  "button",
                  {
                      type: "button",
                      class: "fold",
                      tabindex: "-1",
                      "aria-label": this.folded.has(i) ? "Show spans below" : "Hide spans below",
                      onclick: (event) => {
                          event.stopPropagation();
                          this.fold(i);
                      },
                  },
                  this.folded.has(i) ? "▸" : "▾",
              )
            : h("span", { class: "fold" });
    }

    nameCell(i) {
        const span = this.trace.spans[i];
        const title = span.known
            ? name(span.name)
            : h(
                  "i",
                  { title: "Its samples are here, but the span has not arrived" },
                  "span not received",
              );
        return h(
            "span",
            { role: "gridcell", class: "wname" },
            h("span", {
                class: "indent",
                style: { width: `${Math.min(span.depth, 30) * 14}px` },
            }),
            this.foldButton(i),
            h("i", {
                class: "dot",
                title: full(span.service),
                style: { background: this.colour(span, 52) },
            }),
            h("a", { href: this.address(i), tabindex: "-1" }, title),
            span.error && h("span", { class: "tag bad" }, "error"),
        );
    }

    row(i) {
        const span = this.trace.spans[i];
        const is = span.span_id === this.chosen;
        const label = `${span.known ? visible(span.name).slice(0, 100) : "span not received"}, ${visible(span.service)}, ${duration(
            span.duration_ns,
        )}, on CPU ${duration(span.cpu_ns)}`;
        return h(
            "div",
            {
                role: "row",
                class: `wrow${is ? " chosen" : ""}`,
                tabindex: is ? "0" : "-1",
                "data-key": `span-${span.span_id}`,
                "data-i": i,
                "aria-level": span.depth + 1,
                "aria-rowindex": i + 2,
                "aria-selected": String(is),
                "aria-label": label,
                "aria-expanded": this.hasAbove(i) ? String(!this.folded.has(i)) : null,
                onclick: () => this.choose(i),
            },
            this.nameCell(i),
            this.bar(span),
            h(
                "span",
                { role: "gridcell", class: "num" },
                span.known ? duration(span.duration_ns) : "–",
            ),
            h(
                "span",
                { role: "gridcell", class: `num${span.cpu_ns ? "" : " muted"}` },
                span.cpu_ns ? duration(span.cpu_ns) : "–",
            ),
            h(
                "span",
                { role: "gridcell", class: "wtop function" },
                span.top_function ? name(span.top_function) : "",
            ),
        );
    }

    colour(span, lightness) {
        return `hsl(${this.hues.get(span.service)} 55% ${lightness}%)`;
    }

    bar(span) {
        const part = (ns) => `${Math.max(0, (100 * ns) / this.length)}%`;
        const busyEnd = span.busy.reduce((end, [at, length]) => Math.max(end, at + length), 0);
        const length = span.known ? span.duration_ns : busyEnd;
        const pieces = joined(span.busy, this.length / PIXELS_MAX).map(([at, ns]) =>
            h("b", {
                style: {
                    left: part(span.start_ns + at),
                    width: part(Math.min(ns, this.length)),
                    background: this.colour(span, 46),
                },
            }),
        );
        return h(
            "span",
            {
                role: "gridcell",
                class: "wbar",
                title: `${duration(span.start_ns)} after the start, for ${duration(
                    length,
                )}; on a CPU for ${duration(span.cpu_ns)}`,
            },
            h("i", {
                class: span.known ? "" : "unknown",
                style: {
                    left: part(span.start_ns),
                    width: part(length),
                    "background-color": `hsl(${this.hues.get(span.service)} 55% 55% / 0.28)`,
                },
            }),
            pieces,
        );
    }

    address(i) {
        return href(this.path, change(this.params, { span_id: this.trace.spans[i].span_id }));
    }

    choose(i) {
        dispatchEvent(new CustomEvent("navigate-to", { detail: this.address(i) }));
    }

    fold(i, to = !this.folded.has(i)) {
        this.folded[to ? "add" : "delete"](i);
        this.fill();
        this.focus(i);
    }

    focus(i) {
        const row = this.body.querySelector(`[data-i="${i}"]`);
        this.body
            .querySelectorAll("[tabindex='0']")
            .forEach((each) => each.setAttribute("tabindex", "-1"));
        row?.setAttribute("tabindex", "0");
        row?.focus();
    }

    key(event) {
        const i = Number(event.target.closest("[data-i]")?.dataset.i ?? -1);
        const shown = this.visibleSpans();
        const at = shown.indexOf(i);
        if (i < 0) return;
        if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            const next = shown[at + (event.key === "ArrowDown" ? 1 : -1)];
            if (next !== undefined) this.focus(next);
        } else if (event.key === "ArrowLeft" && this.hasAbove(i) && !this.folded.has(i)) {
            this.fold(i, true);
        } else if (event.key === "ArrowRight" && this.folded.has(i)) {
            this.fold(i, false);
        } else if (event.key === "ArrowLeft") {
            const { depth } = this.trace.spans[i];
            const up = shown
                .slice(0, at)
                .reverse()
                .find((each) => this.trace.spans[each].depth < depth);
            if (up !== undefined) this.focus(up);
        } else if (event.key === "Enter" || event.key === " ") {
            this.choose(i);
        } else if (event.key === "Home" || event.key === "End") {
            this.focus(event.key === "Home" ? shown[0] : shown[shown.length - 1]);
        } else {
            return;
        }
        event.preventDefault();
    }
}

function facts(span) {
    const attributes = Object.entries(span.attributes ?? {});
    const row = (key, value) => h("div", {}, h("dt", {}, key), h("dd", {}, value));
    return h(
        "dl",
        { class: "facts" },
        row("service", name(span.service)),
        span.kind && row("kind", span.kind),
        row("wall", duration(span.duration_ns)),
        row("CPU", `${duration(span.cpu_ns)} · ${percent(span.cpu_ns, span.duration_ns)} of wall`),
        row("samples", count(span.samples)),
        row("span id", h("code", {}, span.span_id)),
        attributes.map(([key, value]) => row(name(key), name(value))),
    );
}

/* The picture in words: where the CPU time went, or that the span mostly waited for others or for a
 * CPU. */
function verdict(trace, params, path) {
    const busiest = trace.spans.reduce(
        (best, span) => (span.cpu_ns > (best?.cpu_ns ?? 0) ? span : best),
        null,
    );
    const waited = trace.cpu_ns < WAITED * trace.duration_ns;
    const on = `On a CPU for ${percent(trace.cpu_ns, trace.duration_ns)} of its time`;
    if (!busiest)
        return h(
            "p",
            { class: "verdict" },
            "No sample hit it: it waited, or was short, or its program publishes no context.",
        );
    const to = h(
        "a",
        {
            href: href(path, change(params, { span_id: busiest.span_id, children: "false" })),
            "data-key": "verdict",
        },
        busiest.known ? name(busiest.name) : "a span not received",
    );
    return h(
        "p",
        { class: "verdict" },
        waited ? `${on}: it mostly waited, for others or for a CPU. ` : "",
        `${percent(busiest.cpu_ns, trace.cpu_ns)} of its CPU time is in `,
        to,
        busiest.top_function && [", most of that in ", h("code", {}, name(busiest.top_function))],
        ".",
    );
}

/* The lower half: the selected span only. */
function stacks({ path, params, questions }, span, flame) {
    const [, query] = questions[1];
    const below = params.get("children") !== "false";
    const title = span ? visible(span.name || "span not received") : "the whole trace";
    const heading = h(
        "div",
        { class: "heading second" },
        h("h2", {}, span ? name(span.name || "span not received") : "The whole trace"),
        h(
            "p",
            { class: "sum" },
            `${duration(flame.cpu_ns)} on CPU in ${plural(flame.samples, "sample")}`,
        ),
        span &&
            choice(
                "Spans below it",
                [
                    ["true", "With spans below"],
                    ["false", "Only itself"],
                ],
                String(below),
                (value) =>
                    href(path, change(params, { children: value === "false" ? value : null })),
            ),
        span &&
            h(
                "a",
                {
                    class: "button",
                    href: href(path, change(params, { span_id: null, children: null })),
                },
                "Whole trace",
            ),
        h("a", { class: "button", href: href("/flame", query) }, "On a page of its own"),
    );
    if (!flame.nodes.parent.length) {
        const why =
            "No sample hit this. It may have waited for others rather than used a CPU, or been shorter than the time between two samples.";
        return {
            node: h(
                "section",
                {},
                heading,
                span && facts(span),
                h("p", { class: "quietnote" }, why),
            ),
        };
    }
    const graph = new FlameGraph(flame, { links: frameLinks(query), title });
    return {
        graph,
        node: h(
            "section",
            {},
            heading,
            span && facts(span),
            partly(flame.complete),
            graph.node,
            downloads("Take away", forms(query), json(...questions[1])),
        ),
    };
}

function headingOf(trace) {
    const [first] = trace.spans;
    const services = new Set(trace.spans.map((span) => span.service));
    const copy = h(
        "button",
        {
            type: "button",
            class: "plain",
            title: "Copy the trace id",
            onclick: () => navigator.clipboard?.writeText(trace.trace_id).then(() => say("Copied")),
        },
        h("code", {}, trace.trace_id),
    );
    const fact = (key, value) => h("div", {}, h("dt", {}, key), h("dd", {}, value));
    return h(
        "div",
        { class: "heading" },
        h(
            "h1",
            {},
            first?.known ? name(first.name) : "Trace",
            " ",
            h("small", {}, first && name(first.service)),
        ),
        h(
            "dl",
            { class: "figures" },
            fact("wall", duration(trace.duration_ns)),
            fact("on CPU", duration(trace.cpu_ns)),
            fact("samples", count(trace.samples)),
            fact("spans here", count(trace.spans.length)),
            services.size > 1 && fact("services here", count(services.size)),
            fact("started", `${day(trace.start_ms)} ${clock(trace.start_ms, true)}`),
            fact("trace", copy),
        ),
    );
}

/* Used when the trace does not contain the named span. */
async function whole(context) {
    const view = { ...context, params: ofTrace(context.params.get("trace_id")) };
    const questions = questionsOf(view);
    return show({ ...view, questions, answers: await ask(questions, view.signal) });
}

export function show(context) {
    const { path, params, questions, answers } = context;
    if (!params.get("trace_id")) throw new Error("No trace was named. Traces are at /traces.");
    const [trace, flame] = answers;
    const span = trace.spans.find((each) => each.span_id === params.get("span_id"));
    if (params.get("span_id") && !span) return whole(context);
    const below = stacks(context, span, flame);
    const waterfall = new Waterfall(trace, span?.span_id, params, path);
    if (!span) waterfall.body.firstChild?.setAttribute("tabindex", "0");
    return {
        title: trace.spans[0]?.known ? visible(trace.spans[0].name).slice(0, 80) : "Trace",
        said: `${plural(trace.spans.length, "span")}, ${duration(trace.duration_ns)}`,
        node: h(
            "div",
            {},
            headingOf(trace),
            verdict(trace, params, path),
            partly(trace.complete),
            h("div", { class: "scroll" }, waterfall.node),
            downloads("Its spans", json(...questions[0])),
            below.node,
        ),
        shown: () => below.graph?.shown(),
        onfragment: (rest) => below.graph?.onfragment(rest),
    };
}
