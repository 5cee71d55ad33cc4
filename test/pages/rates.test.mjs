/* SPDX-License-Identifier: Apache-2.0 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./module.mjs";

const { comparison, mostChanged, ratesOf, standing } = await load("rates.js");
const { differences } = await load("flamedraw.js");
const { baseline } = await load("address.js");

/* 30 s of CPU time in a minute, before that 120 s in four: the same in use. */
const FLAME = {
    from_ms: 240000,
    to_ms: 300000,
    cpu_ns: 30e9,
    base_from_ms: 0,
    base_to_ms: 240000,
    base_cpu_ns: 120e9,
};
/* The same length, but twice the work. */
const TWICE = { ...FLAME, base_from_ms: 180000, base_to_ms: 240000, base_cpu_ns: 15e9 };

test("what is gone is not a rank that rose", () => {
    assert.equal(standing({ rank: 0, base_rank: 5 }), "gone");
    assert.equal(standing({ rank: 5, base_rank: 0 }), "new");
    assert.equal(standing({ rank: 2, base_rank: 5 }), 3);
    assert.equal(standing({ rank: 5, base_rank: 2 }), -3);
});

test("by rate ranges of any length compare, by share sums of any size", () => {
    const rate = ratesOf("rate", FLAME);
    assert.equal(rate.now(6e9), 0.1);
    assert.equal(rate.before(24e9), 0.1);
    assert.equal(rate.before(undefined), 0);
    assert.deepEqual([rate.unit, rate.text(0.1)], ["mcores", "100.0"]);
    const share = ratesOf("share", TWICE);
    assert.equal(share.now(6e9), 0.2);
    assert.equal(share.before(3e9), 0.2);
    assert.equal(ratesOf("share", { ...TWICE, base_cpu_ns: 0 }).before(0), 0);
});

test("colours are of the measure that was chosen", () => {
    const nodes = { total_ns: [6e9, 6e9], base_total_ns: [3e9, 6e9] };
    const way = (measure) =>
        [...differences({ nodes, n: 2 }, ratesOf(measure, TWICE))].map(Math.sign);
    assert.deepEqual(way("rate"), [1, 0], "the second uses as much as before");
    assert.deepEqual(way("share"), [0, -1], "of twice the work it is a smaller share");
});

test("figures are of the measure that was chosen", () => {
    assert.deepEqual(comparison(ratesOf("rate", TWICE), 6e9, 3e9), [
        ["in use", "50.0 → 100.0 mcores", ""],
        ["change", "+50.0 mcores", ""],
    ]);
    assert.deepEqual(comparison(ratesOf("share", TWICE), 6e9, 6e9), [
        ["share", "40.00 → 20.00 %", ""],
        ["change", "−20.00 points", ""],
    ]);
});

test("what is gone saves money, in either measure", () => {
    for (const measure of ["rate", "share"]) {
        const { yearlyUsd } = ratesOf(measure, TWICE, 0.05);
        assert.ok(Math.abs(yearlyUsd(0, 6e9) + 0.1 * 8760 * 0.05) < 1e-9);
        assert.ok(Math.abs(yearlyUsd(6e9, 0) - 0.1 * 8760 * 0.05) < 1e-9);
        assert.equal(yearlyUsd(6e9, 6e9), 0);
    }
});

test("most changed first, gone and new among them", () => {
    const of = (name, self_ns, base_self_ns, total_ns = self_ns, base_total_ns = base_self_ns) => ({
        name,
        self_ns,
        base_self_ns,
        total_ns,
        base_total_ns,
    });
    const functions = [
        of("same", 5, 5),
        of("calls more", 5, 5, 90, 10),
        of("new", 20, 0),
        of("gone", 0, 50),
    ];
    assert.deepEqual(
        mostChanged(functions, ratesOf("rate", TWICE)).map((each) => each.name),
        ["gone", "new", "calls more", "same"],
    );
});

test("the other side has its own filters, and those that are the same", () => {
    const side = (text) => baseline(new URLSearchParams(text)).toString();
    assert.equal(
        side("from=-5m&service=shop&base_from=-10m&view=callers"),
        "from=-10m&service=shop",
    );
    assert.equal(side("service=shop&span=a&base_span=b"), "service=shop&span=b");
    assert.equal(side("service=shop&span=a&base_span="), "service=shop");
    assert.equal(
        side("attribute=a%3D1&base_attribute=a%3D2&base_attribute=b%3D3"),
        "attribute=a%3D2&attribute=b%3D3",
    );
});
