/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and names for people. Pure. */
const FULL_MAX = 2000;

/* Characters that are invisible, or that change the direction or place of later text, are spelled
 * out. So different names look different, and a name cannot disturb its neighbours. */
const UNSEEN =
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc]|\p{Cs}|\p{Co}|[\u{e0000}-\u{e0fff}]/gu;

export function visible(text) {
    return String(text).replace(
        UNSEEN,
        (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`,
    );
}

/* For tooltips. */
export function full(text) {
    const shown = visible(text);
    return shown.length > FULL_MAX
        ? `${shown.slice(0, FULL_MAX)}… (${shown.length} characters)`
        : shown;
}

const group = new Intl.NumberFormat("en-US");
export const count = (n) => group.format(n);

/* Three significant digits: 1.23, 12.3, 123; no trailing zeros. */
export function digits(value) {
    const size = Math.abs(value);
    if (size >= 1000) return group.format(Math.round(value));
    const places = size >= 100 ? 0 : size >= 10 ? 1 : 2;
    return String(Number(value.toFixed(places)));
}

const STEPS = [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
    [1, "ns"],
];

export function duration(ns) {
    if (!ns) return "0";
    const size = Math.abs(ns);
    if (size >= 3.6e12) return `${digits(ns / 3.6e12)} h`;
    if (size >= 6e10) {
        const seconds = Math.round(ns / 1e9);
        return `${Math.trunc(seconds / 60)} min ${Math.abs(seconds % 60)} s`;
    }
    const step = STEPS.find(([unit]) => size >= unit * 0.9995) ?? STEPS[3];
    return `${digits(ns / step[0])} ${step[1]}`;
}

/* The unit and the decimal places of a column of durations, chosen by its largest value, so that
 * sizes compare at a glance. */
const COLUMNS = [
    [1e11, 1e9, 2, "s"],
    [1e9, 1e6, 0, "ms"],
    [1e7, 1e6, 1, "ms"],
    [1e6, 1e6, 2, "ms"],
    [1e3, 1e3, 1, "µs"],
    [0, 1, 0, "ns"],
];

export function column(values) {
    const most = values.reduce((max, each) => Math.max(max, each), 0);
    const [, unit, places, label] = COLUMNS.find(([from]) => most >= from);
    const numbers = new Intl.NumberFormat("en-US", {
        minimumFractionDigits: places,
        maximumFractionDigits: places,
    });
    return (ns) =>
        !ns
            ? "–"
            : ns / unit < 0.5 / 10 ** places
              ? duration(ns)
              : `${numbers.format(ns / unit)} ${label}`;
}

export function percent(part, whole) {
    if (!whole || !part) return "–";
    const value = (100 * part) / whole;
    if (value > 0 && value < 0.1) return "< 0.1 %";
    return `${value >= 99.95 ? value.toFixed(0) : value.toFixed(1)} %`;
}

export const cores = (ns, ms) => (ms > 0 ? `${digits(ns / 1e6 / ms)} cores` : "–");

export function signed(value, text) {
    return value > 0 ? `+${text}` : value < 0 ? `−${text.replace(/^-/, "")}` : "±0";
}

const pad = (n, width = 2) => String(n).padStart(width, "0");

export function clock(ms, millis) {
    const t = new Date(ms);
    const text = `${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}`;
    return millis ? `${text}.${pad(t.getMilliseconds(), 3)}` : text;
}

export function day(ms) {
    const t = new Date(ms);
    return `${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())}`;
}

export function ago(ms, now) {
    const s = Math.max(0, (now - ms) / 1000);
    if (s < 60) return `${Math.floor(s)} s ago`;
    return s < 3600 ? `${Math.floor(s / 60)} min ago` : `${digits(s / 3600)} h ago`;
}

export function range(from, to) {
    const other = day(from) !== day(Date.now()) ? `${day(from)} ` : "";
    return `${other}${clock(from)} – ${clock(to)}`;
}

/* The last part of a path. */
export const base = (path) => path.slice(path.lastIndexOf("/") + 1);
export const bytes = (n) =>
    n < 1024 ? `${n} B` : n < 1048576 ? `${digits(n / 1024)} KiB` : `${digits(n / 1048576)} MiB`;
/* Behind what an answer has, of a range that ends now. */
export const waiting = ({ waiting_samples: n }) =>
    n > 0 ? `; ${count(n)} on this node still wait for their span` : "";

export const plural = (n, word, many = `${word}s`) => `${count(n)} ${n === 1 ? word : many}`;
