/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the two sides of a difference comparable. Pure. */
import { signed } from "./text.js";

const YEAR_H = 8760;
const spanNs = (from, to) => Math.max(to - from, 1) * 1e6;
const over = (whole) => (ns) => (whole ? (ns ?? 0) / whole : 0);

function unitOf(most) {
    if (most >= 1) return { unit: "cores", text: (value) => value.toFixed(3) };
    const places = most < 0.1 ? 2 : 1;
    return { unit: "mcores", text: (value) => (value * 1000).toFixed(places) };
}

/* By rate: cores in use, independent of the lengths of the ranges. By share: part of all CPU time
 * of its side. Costs are computed by rate in both cases: a share has no cost. */
export function ratesOf(measure, flame, usdPerCoreHour = 0) {
    const nowNs = spanNs(flame.from_ms, flame.to_ms);
    const beforeNs = spanNs(flame.base_from_ms, flame.base_to_ms);
    const yearlyUsd = (ns, baseNs) =>
        usdPerCoreHour * YEAR_H * (over(nowNs)(ns) - over(beforeNs)(baseNs));
    if (measure === "share")
        return {
            label: "share",
            now: over(flame.cpu_ns),
            before: over(flame.base_cpu_ns),
            unit: "%",
            changeUnit: "points",
            text: (value) => (100 * value).toFixed(2),
            yearlyUsd,
        };
    const scale = unitOf(Math.max(flame.cpu_ns / nowNs, flame.base_cpu_ns / beforeNs));
    return {
        label: "in use",
        now: over(nowNs),
        before: over(beforeNs),
        changeUnit: scale.unit,
        ...scale,
        yearlyUsd,
    };
}

/* The change of some CPU time, as rows of figures. */
export function comparison(rates, ns, baseNs) {
    const { text } = rates;
    const now = rates.now(ns);
    const before = rates.before(baseNs);
    const by = `${text(Math.abs(now - before))} ${rates.changeUnit}`;
    return [
        [rates.label, `${text(before)} → ${text(now)} ${rates.unit}`, ""],
        ["change", signed(now - before, by), ""],
    ];
}

/* A function's standing: "new", "gone", or by how many ranks it rose. Rank 0: not ranked. */
export function standing({ rank, base_rank: before }) {
    if (!rank) return "gone";
    return before ? before - rank : "new";
}

export const changeOfSelf = (rates, each) =>
    rates.now(each.self_ns) - rates.before(each.base_self_ns);
const changeOfTotal = (rates, each) => rates.now(each.total_ns) - rates.before(each.base_total_ns);

/* Sorted by the change of self time, then of total time, in either direction. */
export function mostChanged(functions, rates) {
    const size = (change, each) => Math.abs(change(rates, each));
    return [...functions].sort(
        (a, b) =>
            size(changeOfSelf, b) - size(changeOfSelf, a) ||
            size(changeOfTotal, b) - size(changeOfTotal, a),
    );
}
