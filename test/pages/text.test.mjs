/* SPDX-License-Identifier: Apache-2.0 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./module.mjs";

const text = await load("text.js");
const address = await load("address.js");

test("durations have three digits that count", () => {
    const cases = [
        [0, "0"],
        [1, "1 ns"],
        [999, "999 ns"],
        [1500, "1.5 µs"],
        [12345, "12.3 µs"],
        [999600, "1 ms"],
        [412e6, "412 ms"],
        [1.25e9, "1.25 s"],
        [61e9, "1 min 1 s"],
        [2 * 3.6e12, "2 h"],
    ];
    cases.forEach(([ns, shown]) => assert.equal(text.duration(ns), shown));
});

test("a column has one unit", () => {
    const column = text.column([3.2e9, 680e6, 10e6, 0]);
    assert.deepEqual([3.2e9, 680e6, 10e6, 0, 1000].map(column), [
        "3,200 ms",
        "680 ms",
        "10 ms",
        "–",
        "1 µs",
    ]);
    assert.equal(text.column([])(0), "–");
});

test("shares", () => {
    assert.equal(text.percent(1, 3), "33.3 %");
    assert.equal(text.percent(1, 1), "100 %");
    assert.equal(text.percent(1, 1e6), "< 0.1 %");
    assert.equal(text.percent(0, 5), "–");
    assert.equal(text.percent(1, 0), "–");
});

test("what cannot be seen is spelled out", () => {
    const cases = [
        ["\u202egnp.exe", "\\u202egnp.exe"],
        ["a\u0000b\u0007", "a\\u0000b\\u0007"],
        ["x\u200by", "x\\u200by"],
        ["\ud800", "\\ud800"],
        ["\u2066a\u2069", "\\u2066a\\u2069"],
        ["\u{e0041}", "\\ue0041"],
        ["Größe 日本 😀", "Größe 日本 😀"],
    ];
    cases.forEach(([raw, shown]) => assert.equal(text.visible(raw), shown));
    assert.ok(text.full("A".repeat(10000)).endsWith("(10000 characters)"));
});

test("times of the address", () => {
    assert.equal(address.time("-15m", 1e12), 1e12 - 900000);
    assert.equal(address.time("1795284000000", 0), 1795284000000);
    assert.ok(Number.isNaN(address.time("yesterday", 0)));
    assert.ok(Number.isNaN(address.time(null, 0)));
});

test("filters survive an address", () => {
    const params = new URLSearchParams("attribute=a%3D1&attribute=b%3D2&service=%3Cb%3E%26&x=1");
    const picked = address.pick(params, address.FILTERS);
    assert.equal(picked.toString(), "service=%3Cb%3E%26&attribute=a%3D1&attribute=b%3D2");
    assert.equal(
        address.href("/flame", address.change(picked, { service: null, span: "s p" }), {
            at: "1f",
        }),
        "/flame?attribute=a%3D1&attribute=b%3D2&span=s+p#at=1f",
    );
    assert.equal(
        address.general(new URLSearchParams("trace_id=1&service=s")).toString(),
        "service=s",
    );
});
