/* SPDX-License-Identifier: Apache-2.0 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./module.mjs";

const { isAskable, unnamed } = await load("links.js");

test("the rest of many is not what is outside of spans", () => {
    assert.equal(unnamed("span", { name: "", service: "shop" }), "outside of spans");
    assert.equal(unnamed("span", { name: "", service: "" }), "outside of spans");
    assert.equal(unnamed("span", { name: "", service: "", others: true }), "all others");
    assert.equal(unnamed("container", { name: "" }), "in no container");
    assert.equal(unnamed("container", { name: "", others: true }), "all others");
    assert.equal(unnamed("thread", { name: "" }), "without a name");
});

test("a group is asked for where a filter says it whole", () => {
    assert.ok(isAskable("span", { name: "GET /", service: "shop" }));
    assert.ok(isAskable("thread", { name: "main" }));
    assert.ok(!isAskable("span", { name: "", service: "shop" }), "would be all of the shop");
    assert.ok(!isAskable("span", { name: "GET /", service: "" }), "would be that of others too");
    assert.ok(!isAskable("container", { name: "" }));
    assert.ok(!isAskable("thread", { name: "", others: true }));
});
