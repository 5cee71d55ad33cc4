/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time range and the filters, the same for all views. One input field takes all filters; it
 * suggests existing values.
 */
import { get } from "./api.js";
import {
    DEFAULT_RANGE,
    TEXTS,
    change,
    earlier,
    fragment,
    general,
    hasBaseline,
    href,
    isRelative,
    ofTrace,
    remember,
    time,
} from "./address.js";
import { h, name } from "./dom.js";
import { full, range, visible } from "./text.js";

const LABELS = {
    service: "Service",
    span: "Span",
    thread: "Thread",
    container: "Container",
    host: "Host",
    pid: "Process id",
    function: "Function",
    attribute: "Attribute",
    min_duration: "Longer than",
    max_duration: "Shorter than",
    trace_id: "Trace",
    span_id: "Span id",
};
const HINTS = {
    service: "its name",
    span: "its name",
    thread: "its name",
    container: "its id",
    host: "its name",
    pid: "as spanprof sees it",
    function: "anywhere in the stack",
    attribute: "of a span, as key=value",
    min_duration: "as 250ms",
    max_duration: "as 2s",
};
const LISTED = ["service", "span", "thread", "container", "host"];
const TYPED = ["span", "service", "function"]; /* filters that any text may be meant for */
const RANGES = [
    ["-5m", "Last 5 minutes"],
    ["-15m", "Last 15 minutes"],
    ["-30m", "Last 30 minutes"],
    ["-1h", "Last hour"],
    ["-30d", "Everything kept"],
];
const OFFERED_MAX = 12;
const KNOWN_MS = 15000;

const go = (to) => dispatchEvent(new CustomEvent("navigate-to", { detail: to }));

/* ---- one set of filters: the view's, or, with the prefix base_, the baseline's ---- */

function scopeOf(path, params, prefix) {
    const read = (key) => params.get(prefix + key);
    const with_ = (changes) =>
        href(
            path,
            change(
                params,
                Object.fromEntries(
                    Object.entries(changes).map(([key, value]) => [prefix + key, value]),
                ),
            ),
            fragment(),
        );
    const add = (key, value) => {
        if (key !== "attribute") return with_({ [key]: value });
        const more = new URLSearchParams(params);
        more.append(`${prefix}attribute`, value);
        return href(path, more, fragment());
    };
    const without = (key, value) => {
        const less = new URLSearchParams();
        params.forEach((v, k) => (k === prefix + key && v === value) || less.append(k, v));
        if (key === "trace_id")
            ["span_id", "children"].forEach((each) => less.delete(prefix + each));
        return href(path, less, fragment());
    };
    return { path, params, prefix, read, with: with_, add, without };
}

/* ---- time ---- */

function dialogOf(scope, now) {
    const local = (ms) =>
        new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 19);
    const field = (label, ms) => {
        const input = h("input", {
            type: "datetime-local",
            step: "1",
            required: true,
            value: local(ms),
        });
        return [input, h("label", {}, label, input)];
    };
    const [from, fromLabel] = field(
        "From",
        time(scope.read("from") ?? DEFAULT_RANGE, now) || now - 900000,
    );
    const [to, toLabel] = field("To", time(scope.read("to"), now) || now);
    const dialog = h(
        "dialog",
        { "aria-label": "Range of time" },
        h(
            "form",
            {
                onsubmit: (event) => {
                    event.preventDefault();
                    dialog.close();
                    go(
                        scope.with({
                            from: new Date(from.value).getTime(),
                            to: new Date(to.value).getTime(),
                        }),
                    );
                },
            },
            fromLabel,
            toLabel,
            h(
                "div",
                { class: "row" },
                h("button", { class: "main" }, "Show"),
                h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
            ),
        ),
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
}

function rangeSelect(scope) {
    const now = Date.now();
    const from = scope.read("from");
    const to = scope.read("to");
    const known = !to && RANGES.some(([value]) => value === (from ?? DEFAULT_RANGE));
    const options = RANGES.map(([value, label]) => h("option", { value }, label));
    if (!known)
        options.unshift(
            h(
                "option",
                { value: "here" },
                range(time(from ?? DEFAULT_RANGE, now) || now, time(to, now) || now),
            ),
        );
    options.push(h("option", { value: "other" }, "From … to …"));
    return h(
        "select",
        {
            "aria-label": "Range of time",
            id: `${scope.prefix}range`,
            value: null,
            onchange: (event) => {
                const { value } = event.currentTarget;
                if (value === "other") {
                    event.currentTarget.value = known ? (from ?? DEFAULT_RANGE) : "here";
                    dialogOf(scope, now);
                } else if (value !== "here") {
                    go(scope.with({ from: value === DEFAULT_RANGE ? null : value, to: null }));
                }
            },
        },
        options.map((option) => {
            option.selected = option.value === (known ? (from ?? DEFAULT_RANGE) : "here");
            return option;
        }),
    );
}

function baseRangeSelect(scope) {
    const to = time(scope.read("to"), Date.now());
    const presets = [
        ["same", "The same time", { base_from: null, base_to: null }],
        ["before", "Just before", earlier(scope.params, 0, Date.now())],
        ["hour", "An hour before", earlier(scope.params, 3600000, Date.now())],
    ];
    const chosen =
        presets.find(
            ([, , set]) =>
                (set.base_from ?? null) === scope.read("from") &&
                (set.base_to ?? null) === scope.read("to"),
        )?.[0] ?? "here";
    if (chosen === "here")
        presets.unshift(["here", range(time(scope.read("from"), Date.now()), to || Date.now())]);
    const select = h(
        "select",
        {
            "aria-label": "Range of time before",
            id: "base_range",
            onchange: (event) => {
                const set = presets.find(([value]) => value === event.currentTarget.value)?.[2];
                if (set) go(href(scope.path, change(scope.params, set), fragment()));
                else dialogOf(scope, Date.now());
            },
        },
        presets.map(([value, label]) => h("option", { value }, label)),
        h("option", { value: "other" }, "From … to …"),
    );
    select.value = chosen;
    return select;
}

/* ---- suggestions ---- */

const known = new Map();

function valuesOf(key, params) {
    const query = general(params);
    TEXTS.forEach((each) => query.delete(each));
    query.set("of", key);
    const id = query.toString();
    const there = known.get(id);
    if (there && performance.now() - there.at < KNOWN_MS) return there.values;
    const values = get("/api/values", query).then(
        (answer) => answer.values,
        () => [],
    );
    known.set(id, { at: performance.now(), values });
    return values;
}

const option = (key, value) => ({ key, value });
const DURATION = /^(?:([<>])\s*)?(\d+(?:\.\d+)?\s*(?:ns|us|µs|ms|s|m|h))$/;

/* Suggestions from the text alone, without a request. */
function meant(text) {
    const keyed = /^([a-z_ ]+?)\s*[=:]\s*(.*)$/i.exec(text);
    const key =
        keyed &&
        TEXTS.find((each) => [each, LABELS[each].toLowerCase()].includes(keyed[1].toLowerCase()));
    if (key) return { key, rest: keyed[2] };
    if (/^[0-9a-f]{32}$/i.test(text)) return { exact: [option("trace_id", text.toLowerCase())] };
    const lasting = DURATION.exec(text);
    if (lasting) {
        const value = lasting[2].replace(/\s/g, "").replace("µ", "u");
        return { exact: [option(lasting[1] === "<" ? "max_duration" : "min_duration", value)] };
    }
    if (/^[^=\s]+=.+$/.test(text)) return { exact: [option("attribute", text)] };
    return { rest: text };
}

async function offers(text, params) {
    const { key, rest, exact } = meant(text.trim());
    if (exact) return exact;
    const keys = key ? LISTED.filter((each) => each === key) : LISTED;
    const lists = await Promise.all(keys.map((each) => valuesOf(each, params)));
    const low = rest.toLowerCase();
    const fits = keys.flatMap((each, i) =>
        lists[i]
            .filter((value) => value && value.toLowerCase().includes(low))
            .slice(0, key || rest ? OFFERED_MAX : 4)
            .map((value) => option(each, value)),
    );
    if (key)
        return [
            ...(rest && !fits.some((each) => each.value === rest) ? [option(key, rest)] : []),
            ...fits,
        ];
    const hints = TEXTS.filter((each) =>
        !rest ? !fits.some((fit) => fit.key === each) : LABELS[each].toLowerCase().startsWith(low),
    ).map((each) => option(each));
    return rest
        ? [...fits.slice(0, OFFERED_MAX), ...hints, ...TYPED.map((each) => option(each, rest))]
        : [...fits, ...hints];
}

/* ---- the field ---- */

class Field {
    constructor(scope) {
        this.scope = scope;
        this.list = h("ul", {
            role: "listbox",
            class: "offers",
            id: `${scope.prefix}offers`,
            hidden: true,
            "aria-label": "Filters",
        });
        this.input = h("input", {
            type: "text",
            id: `${scope.prefix}filter`,
            role: "combobox",
            "aria-expanded": "false",
            autocomplete: "off",
            "aria-autocomplete": "list",
            "aria-controls": this.list.id,
            "aria-label": "Add a filter",
            spellcheck: "false",
            placeholder: "Filter: service, span, function, key=value, >250ms …",
            oninput: () => this.offer(),
            onfocus: () => this.offer(),
            onblur: () => this.close(),
            onkeydown: (event) => this.key(event),
        });
        this.node = h("div", { class: "field" }, this.input, this.list);
    }

    async offer() {
        const asked = this.input.value;
        const found = await offers(asked, this.scope.params);
        if (asked !== this.input.value || document.activeElement !== this.input) return;
        this.offered = found;
        this.at = asked ? 0 : -1;
        this.list.replaceChildren(...found.map((each, i) => this.item(each, i)));
        this.open(found.length > 0);
        this.mark();
    }

    item({ key, value }, i) {
        return h(
            "li",
            {
                role: "option",
                id: `${this.scope.prefix}offer${i}`,
                onpointerdown: (event) => {
                    event.preventDefault();
                    this.take(i);
                },
            },
            h("span", { class: "key" }, LABELS[key]),
            value === undefined ? h("i", {}, HINTS[key]) : name(value),
        );
    }

    open(open) {
        this.list.hidden = !open;
        this.input.setAttribute("aria-expanded", String(open));
    }

    close() {
        this.open(false);
    }

    mark() {
        [...this.list.children].forEach((item, i) =>
            item.setAttribute("aria-selected", String(i === this.at)),
        );
        const active = this.list.children[this.at];
        this.input.setAttribute(
            "aria-activedescendant",
            active && !this.list.hidden ? active.id : "",
        );
        active?.scrollIntoView({ block: "nearest" });
    }

    take(i) {
        const { key, value } = this.offered[i];
        if (value === undefined) {
            this.input.value = `${key}=`;
            this.offer();
        } else if (key === "trace_id") {
            go(href("/trace", ofTrace(value)));
        } else {
            this.input.value = "";
            this.input.blur();
            go(this.scope.add(key, value));
        }
    }

    key(event) {
        const { length } = this.offered ?? [];
        if (event.key === "Escape") {
            this.close();
        } else if (event.key === "Enter" && !this.list.hidden && this.at >= 0) {
            this.take(this.at);
        } else if (event.key === "Backspace" && !this.input.value) {
            this.node.parentElement.querySelector(".chip:last-of-type a")?.click();
        } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && length) {
            this.at =
                (this.at + (event.key === "ArrowDown" ? 1 : length + (this.at < 0 ? 0 : -1))) %
                length;
            this.mark();
        } else {
            return;
        }
        event.preventDefault();
    }
}

function chip(scope, key, value) {
    const shown = key === "trace_id" || key === "span_id" ? value.slice(0, 8) : value;
    return h(
        "span",
        { class: "chip" },
        h("span", { class: "key" }, LABELS[key]),
        name(shown, { title: full(value) }),
        h(
            "a",
            {
                href: scope.without(key, value),
                "aria-label": `Remove filter: ${LABELS[key]} ${visible(value).slice(0, 80)}`,
                title: "Remove",
            },
            "×",
        ),
    );
}

function liveButton(params) {
    const on = fragment().has("live");
    return h(
        "button",
        {
            type: "button",
            class: "live",
            id: "live",
            "aria-pressed": String(on),
            disabled: !isRelative(params),
            title: isRelative(params)
                ? "Refresh every 5 seconds"
                : "Only for a range that ends now",
            onclick: (event) => {
                remember({ live: on ? null : "1" });
                event.currentTarget.setAttribute("aria-pressed", String(!on));
                dispatchEvent(new Event("live"));
            },
        },
        h("i", { "aria-hidden": "true" }),
        "Live",
    );
}

function row(scope, label, ...more) {
    const chips = [...TEXTS, "trace_id", "span_id"].flatMap((key) =>
        scope.params.getAll(scope.prefix + key).map((value) => chip(scope, key, value)),
    );
    return h(
        "div",
        { class: "filterrow" },
        label && h("span", { class: "which" }, label),
        scope.prefix
            ? baseRangeSelect(scope)
            : scope.params.has("trace_id") && !scope.read("from")
              ? null
              : rangeSelect(scope),
        h("div", { class: "tokens" }, chips, new Field(scope).node),
        more,
    );
}

/* In a comparison: "the same", then the filters that differ. */
export function filters(container, path, params) {
    container.hidden = path === "/trace" || path === "/status";
    if (container.hidden) {
        container.replaceChildren();
        return;
    }
    const rows = [row(scopeOf(path, params, ""), path === "/diff" && "Now", liveButton(params))];
    if (path === "/diff" && hasBaseline(params))
        rows.push(row(scopeOf(path, params, "base_"), "Before"));
    container.replaceChildren(...rows);
}
