/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view's URL holds its whole state. The query is the request to the server (docs/api.md); the
 * fragment is for the page only: search, zoom, what is open.
 */
const RANGE = ["from", "to"];
export const TEXTS = [
    "service",
    "span",
    "thread",
    "container",
    "host",
    "pid",
    "function",
    "attribute",
    "min_duration",
    "max_duration",
];
export const SCOPE = ["trace_id", "span_id", "children"];
export const FILTERS = [...RANGE, ...TEXTS, ...SCOPE];

/* The entries of `params` with these keys, in this order. */
export function pick(params, keys) {
    const picked = new URLSearchParams();
    keys.forEach((key) => params.getAll(key).forEach((value) => picked.append(key, value)));
    return picked;
}

/* A copy of `params` with `changes` applied; null removes a key. */
export function change(params, changes) {
    const changed = new URLSearchParams(params);
    Object.entries(changes).forEach(([key, value]) => {
        if (value === null || value === undefined || value === "") changed.delete(key);
        else changed.set(key, value);
    });
    return changed;
}

export const hasBaseline = (params) => [...params.keys()].some((key) => key.startsWith("base_"));

/* The baseline's filters: base_X if given (empty matches any), else X. */
export function baseline(params) {
    const filters = pick(params, FILTERS);
    FILTERS.filter((key) => params.has(`base_${key}`)).forEach((key) => {
        const values = params.getAll(`base_${key}`).filter(Boolean);
        filters.delete(key);
        values.forEach((value) => filters.append(key, value));
    });
    return pick(filters, FILTERS);
}

export function href(path, params, fragment) {
    const query = params?.toString();
    const rest = fragment && new URLSearchParams(fragment).toString();
    return path + (query ? `?${query}` : "") + (rest ? `#${rest}` : "");
}

export const fragment = () => new URLSearchParams(location.hash.slice(1));

/* Changes the fragment in place; with `step`, the Back button returns to the one before. */
export function remember(changes, step) {
    const rest = change(fragment(), changes).toString();
    const next = location.pathname + location.search + (rest ? `#${rest}` : "");
    if (next !== location.pathname + location.search + location.hash)
        history[step ? "pushState" : "replaceState"](null, "", next);
}

/* Times as the server reads them: Unix ms, or "-15m". */
const UNITS = { ms: 1, s: 1000, m: 60000, h: 3600000, d: 86400000 };

export function time(text, now) {
    const before = /^-(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text ?? "");
    if (before) return now - Number(before[1]) * UNITS[before[2]];
    return text && /^\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
}

export const isRelative = (params) =>
    !params.get("to") && (params.get("from") ?? "-").startsWith("-");

export const DEFAULT_RANGE = "-15m";

/* The range of the same length that ends `shift` ms before this range ends; shift 0: that ends
 * where this range begins. */
export function earlier(params, shift, now) {
    const from = time(params.get("from") ?? DEFAULT_RANGE, now);
    const to = time(params.get("to"), now) || now;
    const back = shift || to - from;
    const text = (ms) =>
        isRelative(params) ? `-${Math.round((now - ms) / 1000)}s` : String(Math.round(ms));
    return { base_from: text(from - back), base_to: text(to - back) };
}

/* A link from a list to one trace in it, without a time range. */
export function ofTrace(traceId, more) {
    return change(new URLSearchParams(), { trace_id: traceId, ...more });
}

/* The filters without those of one trace. */
export const general = (params) => pick(params, [...RANGE, ...TEXTS]);
