/* SPDX-License-Identifier: Apache-2.0 */
/* What runs, what is lost, and what to do about it. */
import { href } from "./address.js";
import { bar, copyable, h, name, td, th, what } from "./dom.js";
import { downloads, json } from "./links.js";
import { bytes, count, duration, percent, plural } from "./text.js";

/* A process whose contexts have no source yet. */
const UNPUBLISHED = {
    none: "none",
    off: "switched off",
    started: "not loaded",
    no_library: "not loadable",
    unknown_version: "unknown version",
    taken: "another's",
    failed: "failed",
    loaded: "not published",
    process: "Resource only",
    unreadable: "unreadable",
    read: "read",
    active: "read",
};

function lasting(s) {
    const parts = [
        [86400, "d"],
        [3600, "h"],
        [60, "min"],
        [1, "s"],
    ];
    const first = parts.findIndex(([unit]) => s >= unit);
    if (first < 0 || first === 3) return `${Math.floor(s)} s`;
    const [unit, label] = parts[first];
    const [less, lessLabel] = parts[first + 1];
    return `${Math.floor(s / unit)} ${label} ${Math.floor((s % unit) / less)} ${lessLabel}`;
}

const section = (title, ...children) =>
    h("section", { class: "part" }, h("h2", {}, title), children);
const list = (heads, rows, caption) =>
    h(
        "div",
        { class: "scroll" },
        h(
            "table",
            { class: "list" },
            caption && h("caption", {}, caption),
            h(
                "thead",
                {},
                h(
                    "tr",
                    {},
                    heads.map(([text, classes]) => th(text, classes)),
                ),
            ),
            h("tbody", {}, rows),
        ),
    );

function problems(found) {
    if (!found.length) return h("p", { class: "good" }, "No known problems.");
    return h(
        "ul",
        { class: "problems" },
        found.map((each) =>
            h("li", {}, h("strong", {}, name(each.what)), h("p", {}, name(each.do))),
        ),
    );
}

function pipelines(found) {
    const step = (names, kind) =>
        h(
            "span",
            { class: `step ${kind}` },
            names.length ? names.map((each) => h("b", {}, name(each))) : h("i", {}, "none"),
        );
    return found.map((each) =>
        h(
            "div",
            { class: "pipeline" },
            h("strong", {}, name(each.name)),
            step(each.receivers, "in"),
            "→",
            each.processors.length ? [step(each.processors, "mid"), "→"] : null,
            step(each.exporters, "out"),
        ),
    );
}

function queues(found) {
    return list(
        [["Exporter"], ["Signal"], ["Waiting", "num"], ["Bytes", "num"], ["Oldest", "num"]],
        found.map((each) =>
            h(
                "tr",
                {},
                what(name(each.exporter)),
                td("", name(each.signal)),
                td("num", count(each.items)),
                td("num", bytes(each.bytes)),
                td("num", each.items ? lasting(each.oldest_s) : "–"),
            ),
        ),
    );
}

function losses(found) {
    const lost = found.filter((each) => each.count > 0).sort((a, b) => b.count - a.count);
    if (!lost.length)
        return h(
            "p",
            { class: "good" },
            `Nothing was lost, refused or dropped since the start (${plural(found.length, "counter")} of it are 0).`,
        );
    return list(
        [["What"], ["Count", "num"], ["Counter"]],
        lost.map((each) =>
            h(
                "tr",
                {},
                td("wrap", name(each.help)),
                td("num", count(each.count)),
                td("", h("code", {}, name(each.metric), each.labels && [" ", name(each.labels)])),
            ),
        ),
    );
}

/* Those of one service that are the same program in the same state share a row. */
function pids(each) {
    const others = each.count - each.pids.length;
    if (each.count < 2) return h("small", {}, `process ${each.pid}`);
    const all = each.pids.join(", ") + (others > 0 ? ` and ${count(others)} more` : "");
    return h("small", { title: all }, `${count(each.count)} processes: ${all}`);
}

const isWanting = (each) => each.switch || each.frames.switch;

/* Of most processes of a node no spans come: said once, above. */
const isSilent = (each) => each.pid > 0 && !each.sends_spans && each.publisher === "none";

const sentence = (why, line) =>
    h(
        "div",
        {},
        name(why),
        line && [
            copyable(line.line),
            line.where && h("small", {}, line.where),
            line.by_hand && h("small", {}, "or by hand ", h("code", {}, line.by_hand)),
        ],
    );

/* Why not all samples are in spans, why functions have no names, and the one switch for each: a row
 * below that of the numbers. */
function advice(each) {
    return h(
        "tr",
        { class: `advice ${isWanting(each) ? "wanting" : ""}` },
        h(
            "td",
            { colspan: COLUMNS.length },
            each.why && !isSilent(each) && sentence(each.why, each.switch),
            each.frames.why && sentence(each.frames.why, each.frames.switch),
        ),
    );
}

function service(each) {
    const named = each.service && !each.service.startsWith("unknown_service");
    return td("service", named ? name(each.service) : h("span", { class: "muted" }, "–"));
}

function source(each) {
    const shown = each.source || each.publisher;
    return td(
        "context",
        each.source ? h("code", {}, shown) : h("span", { class: "muted" }, UNPUBLISHED[shown]),
    );
}

function flames(each) {
    const of = each.count > 1 ? { service: each.service } : { pid: each.pid };
    return td(
        "act",
        each.pid > 0 && h("a", { href: href("/flame", new URLSearchParams(of)) }, "flame"),
    );
}

const COLUMNS = [
    ["Process"],
    ["Service"],
    ["Runtime"],
    ["Frames"],
    ["Context"],
    ["", "graph"],
    ["CPU", "num"],
    ["Samples", "num"],
    ["In spans", "num"],
    ["", "act"],
];

function processRows(each, most) {
    const said = (each.why && !isSilent(each)) || each.frames.why;
    const inSpans = (each.cpu_ns * each.in_span) / Math.max(each.samples, 1);
    const row = h(
        "tr",
        { class: `${said ? "said" : ""} ${isWanting(each) ? "wanting" : ""}` },
        what(name(each.executable), each.pid > 0 && pids(each)),
        service(each),
        td("", each.runtime || h("span", { class: "muted" }, "–")),
        td(
            "frames",
            each.frames.state === "read"
                ? name(each.frames.text)
                : h("span", { class: "muted" }, name(each.frames.text)),
        ),
        source(each),
        td("graph", bar(each.cpu_ns, most, inSpans)),
        td("num", duration(each.cpu_ns)),
        td("num muted", count(each.samples)),
        td("num", percent(each.in_span, each.samples)),
        flames(each),
    );
    return said ? [row, advice(each)] : [row];
}

function processes(found, more) {
    const most = Math.max(...found.map((each) => each.cpu_ns), 1);
    return list(
        COLUMNS,
        found.flatMap((each) => processRows(each, most)),
        more > 0 ? `${plural(more, "more process", "more processes")} with less CPU time not listed` : null,
    );
}

export function show({ answers: [status] }) {
    const readers = status.readers.filter((each) => each.count);
    return {
        title: "Status",
        said: plural(status.problems.length, "problem"),
        node: h(
            "div",
            { class: "status" },
            h(
                "div",
                { class: "heading" },
                h("h1", {}, "Status"),
                h(
                    "p",
                    { class: "sum" },
                    `spanprof ${status.version} · runs for ${lasting(status.uptime_s)}`,
                ),
            ),
            section("What to do", problems(status.problems)),
            section("What goes where", pipelines(status.pipelines)),
            section(
                "Waiting to be sent",
                status.queues.length
                    ? queues(status.queues)
                    : h("p", { class: "quietnote" }, "No exporter with a queue."),
            ),
            section("What was lost", losses(status.losses)),
            section(
                "Processes and their spans",
                h(
                    "p",
                    { class: "quietnote" },
                    readers.length
                        ? `Contexts are read from ${readers.map((each) => `${each.count} × ${each.source}`).join(", ")}.`
                        : "No process publishes a context that could be read: samples have no spans to join.",
                ),
                h(
                    "p",
                    { class: "quietnote" },
                    "No spans are known to come from processes of which nothing is said. If one is traced: point its OTLP exporter at this node, and set OTEL_SERVICE_NAME, by which its spans are recognised.",
                ),
                status.processes.length
                    ? processes(status.processes, status.more_processes)
                    : h("p", { class: "quietnote" }, "No process was sampled yet."),
            ),
            downloads("Take away", json("/api/status")),
        ),
    };
}
