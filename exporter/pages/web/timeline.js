/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time over time, stacked by service, span, thread, container, process or host. Drag over it to
 * look closer. */
import { FILTERS, change, href, pick } from "./address.js";
import { bar, choice, h, name, s, td, th, what } from "./dom.js";
import { downloads, empty, forms, isAskable, json, partly, unnamed } from "./links.js";
import { clock, column, count, digits, percent, plural, range, visible } from "./text.js";

const GROUPS = [
    ["service", "Service"],
    ["span", "Span"],
    ["thread", "Thread"],
    ["container", "Container"],
    ["process", "Process"],
    ["host", "Host"],
];
const MEASURES = [
    ["cores", "Cores"],
    ["share", "Share"],
];
const STACKED_MAX = 9;
const WIDTH = 1000; /* units of the picture, which is scaled */
const HEIGHT = 260;

/* The heaviest series, and the sum of the others as one. */
function layersOf(series) {
    const first = series.slice(0, STACKED_MAX).map((each, i) => ({ ...each, tone: i }));
    const rest = series.slice(STACKED_MAX);
    if (rest.length)
        first.push({
            name: `${plural(rest.length, "other")}`,
            tone: "rest",
            cpu_ns: rest.reduce((sum, each) => sum + each.cpu_ns, 0),
            buckets_ns: rest.reduce(
                (sum, each) => sum.map((v, i) => v + each.buckets_ns[i]),
                rest[0].buckets_ns.map(() => 0),
            ),
        });
    return first;
}

function ceiling(value) {
    const power = 10 ** Math.floor(Math.log10(value || 1));
    return power * [1, 1.5, 2, 3, 4, 5, 7.5, 10].find((each) => each * power >= value);
}

class Chart {
    constructor(answer, measure, select) {
        Object.assign(this, { answer, measure, select });
        this.layers = layersOf(answer.series);
        this.n = answer.series[0].buckets_ns.length;
        this.sums = Array.from({ length: this.n }, (_, i) =>
            answer.series.reduce((sum, each) => sum + each.buckets_ns[i], 0),
        );
        const most = Math.max(...this.sums) / 1e6 / answer.bucket_ms;
        this.top = measure === "share" ? 1 : ceiling(most);
        this.band = s("rect", { class: "band", y: 0, height: HEIGHT, width: 0 });
        this.svg = s(
            "svg",
            {
                viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
                class: "chart",
                role: "img",
                preserveAspectRatio: "none",
                "aria-label": "CPU time over time, stacked; the table below says the same",
            },
            this.bars(),
            this.band,
        );
        this.tip = h("div", { class: "tip", hidden: true });
        this.node = h(
            "div",
            { class: "chartwrap" },
            h("div", { class: "plot" }, this.axis(), this.svg),
            this.times(),
            this.tip,
        );
        this.listen();
    }

    value(ns, i) {
        return this.measure === "share"
            ? this.sums[i]
                ? ns / this.sums[i]
                : 0
            : ns / 1e6 / this.answer.bucket_ms;
    }

    bars() {
        const wide = WIDTH / this.n;
        const tall = HEIGHT;
        const below = new Float64Array(this.n);
        return this.layers.map((layer) => {
            let path = "";
            layer.buckets_ns.forEach((ns, i) => {
                const height = (this.value(ns, i) / this.top) * tall;
                if (height <= 0) return;
                const y = tall - below[i] - height;
                path += `M${(i * wide).toFixed(2)} ${y.toFixed(2)}h${(wide * 0.94).toFixed(2)}v${height.toFixed(2)}h${(-wide * 0.94).toFixed(2)}z`;
                below[i] += height;
            });
            return s("path", { d: path, class: `tone${layer.tone}` });
        });
    }

    axis() {
        const text = (part) =>
            this.measure === "share" ? `${100 * part} %` : digits(this.top * part);
        return h(
            "div",
            { class: "yaxis", "aria-hidden": "true" },
            [1, 0.5, 0].map((part) =>
                h(
                    "span",
                    { style: { bottom: `${part * 100}%` } },
                    text(part) + (part === 1 && this.measure !== "share" ? " cores" : ""),
                ),
            ),
        );
    }

    times() {
        const { from_ms: from, bucket_ms: wide } = this.answer;
        return h(
            "div",
            { class: "xaxis", "aria-hidden": "true" },
            [0, 0.25, 0.5, 0.75, 1].map((part) =>
                h(
                    "span",
                    { style: { left: `${part * 100}%`, transform: `translateX(${-100 * part}%)` } },
                    clock(from + part * wide * this.n),
                ),
            ),
        );
    }

    bucketAt(event) {
        const place = this.svg.getBoundingClientRect();
        return Math.max(
            0,
            Math.min(this.n - 1, Math.floor(((event.clientX - place.left) / place.width) * this.n)),
        );
    }

    mark(a, b) {
        this.band.setAttribute("x", (Math.min(a, b) * WIDTH) / this.n);
        this.band.setAttribute("width", ((Math.abs(a - b) + 1) * WIDTH) / this.n);
    }

    listen() {
        let start = null;
        this.svg.addEventListener("pointerdown", (event) => {
            start = this.bucketAt(event);
            this.svg.setPointerCapture(event.pointerId);
        });
        this.svg.addEventListener("pointermove", (event) => {
            this.mark(start ?? this.bucketAt(event), this.bucketAt(event));
            this.hover(event);
        });
        this.svg.addEventListener("pointerup", (event) => {
            const end = this.bucketAt(event);
            if (start !== null && start !== end)
                this.select(Math.min(start, end), Math.max(start, end) + 1);
            start = null;
        });
        this.svg.addEventListener("pointerleave", () => {
            this.tip.hidden = true;
            this.band.setAttribute("width", 0);
        });
    }

    hover(event) {
        const i = this.bucketAt(event);
        const { from_ms: from, bucket_ms: wide } = this.answer;
        const rows = this.layers
            .filter((layer) => layer.buckets_ns[i] > 0)
            .map((layer) =>
                h(
                    "tr",
                    {},
                    h(
                        "th",
                        {},
                        h("i", { class: `dot tone${layer.tone}` }),
                        name(layer.name || unnamed(this.answer.by, layer)),
                    ),
                    h("td", {}, `${digits(layer.buckets_ns[i] / 1e6 / wide)}`),
                    h("td", {}, percent(layer.buckets_ns[i], this.sums[i])),
                ),
            );
        this.tip.replaceChildren(
            h("strong", {}, range(from + i * wide, from + (i + 1) * wide)),
            h("table", {}, rows.length ? rows : h("tr", {}, h("td", {}, "nothing"))),
        );
        this.tip.hidden = false;
        const wrap = this.node.getBoundingClientRect();
        const left = event.clientX - wrap.left;
        this.tip.style.setProperty(
            "left",
            `${left + this.tip.offsetWidth + 20 > wrap.width ? left - this.tip.offsetWidth - 12 : left + 14}px`,
        );
        this.tip.style.setProperty("top", "8px");
    }
}

function spark(buckets, tone) {
    const most = Math.max(...buckets, 1);
    const points = buckets.map(
        (ns, i) =>
            `${((i / Math.max(buckets.length - 1, 1)) * 120).toFixed(1)},${(22 - (ns / most) * 20).toFixed(1)}`,
    );
    return s(
        "svg",
        {
            class: `spark tone${tone}`,
            viewBox: "0 0 120 24",
            preserveAspectRatio: "none",
            "aria-hidden": "true",
        },
        s("polyline", { points: points.join(" ") }),
    );
}

/* The filter that selects one group. */
function filterOf(by, each) {
    if (by === "process") return { pid: String(each.pid ?? "") };
    return by === "span" ? { service: each.service ?? null, span: each.name } : { [by]: each.name };
}

function table(answer, by, params) {
    const all = answer.series.reduce((sum, each) => sum + each.cpu_ns, 0);
    const filters = pick(params, FILTERS);
    const cpu = column(answer.series.map((each) => each.cpu_ns));
    const lasting = answer.bucket_ms * answer.series[0].buckets_ns.length;
    return h(
        "table",
        { class: "list" },
        h(
            "thead",
            {},
            h(
                "tr",
                {},
                th(GROUPS.find(([key]) => key === by)[1]),
                th("Over time", "graph"),
                th("CPU", "num"),
                th("Cores", "num"),
                th("Share", "num"),
                th("", "graph"),
                th("Samples", "num"),
                th("", "act"),
            ),
        ),
        h(
            "tbody",
            {},
            answer.series.map((each, i) => {
                const tone = i < STACKED_MAX ? i : "rest";
                const of = change(filters, filterOf(by, each));
                const label = each.name
                    ? name(each.name)
                    : h("i", { class: "muted" }, unnamed(by, each));
                return h(
                    "tr",
                    {},
                    what(
                        h("i", { class: `dot tone${tone}` }),
                        isAskable(by, each)
                            ? h("a", { href: href("/timeline", change(of, { by })) }, label)
                            : label,
                        by === "span" && each.service ? h("small", {}, name(each.service)) : null,
                        each.pid ? h("small", {}, `process ${each.pid}`) : null,
                    ),
                    td("graph", spark(each.buckets_ns, tone)),
                    td("num", cpu(each.cpu_ns)),
                    td("num muted", (each.cpu_ns / 1e6 / lasting).toFixed(3)),
                    td("num", percent(each.cpu_ns, all)),
                    td("graph", bar(each.cpu_ns, all)),
                    td("num muted", count(each.samples)),
                    td(
                        "act",
                        isAskable(by, each) ? h("a", { href: href("/flame", of) }, "flame") : "",
                    ),
                );
            }),
        ),
    );
}

export function show({ path, params, rest, questions, answers: [answer] }) {
    const by = params.get("by") ?? "service";
    const measure = rest.get("as") === "share" ? "share" : "cores";
    const heading = h(
        "div",
        { class: "heading" },
        h("h1", {}, "Timeline"),
        h("p", { class: "sum" }, "CPU time in use, by"),
        choice("By", GROUPS, by, (value) =>
            href(path, change(params, { by: value === "service" ? null : value }), rest),
        ),
        choice("As", MEASURES, measure, (value) =>
            href(path, params, change(rest, { as: value === "cores" ? null : value })),
        ),
    );
    if (!answer.series.length)
        return {
            title: "Timeline",
            node: h("div", {}, heading, empty(path, params, "No samples")),
        };
    const chart = new Chart(answer, measure, (a, b) => {
        const at = (i) => String(Math.round(answer.from_ms + i * answer.bucket_ms));
        dispatchEvent(
            new CustomEvent("navigate-to", {
                detail: href(path, change(params, { from: at(a), to: at(b) })),
            }),
        );
    });
    const said = answer.series
        .slice(0, 3)
        .map((each) => visible(each.name))
        .join(", ");
    return {
        title: "Timeline",
        said: `Most: ${said}`,
        node: h(
            "div",
            {},
            heading,
            partly(answer.complete),
            chart.node,
            h("p", { class: "quietnote" }, "Drag over the picture to look closer."),
            h("div", { class: "scroll" }, table(answer, by, params)),
            downloads("Take away", json(...questions[0]), "stacks:", forms(params)),
        ),
    };
}
