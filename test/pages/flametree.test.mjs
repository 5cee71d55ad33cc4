/* SPDX-License-Identifier: Apache-2.0 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./module.mjs";

const { firstIn, nodeAt, pathOf, pattern, search, tree } = await load("flametree.js");

/* From ["name", self, [children]] as /api/flame answers. */
function answerOf(roots) {
    const strings = [""];
    const frames = [];
    const nodes = { parent: [], frame: [], self_ns: [], total_ns: [], samples: [] };
    const add = ([label, self, above = []], parent) => {
        if (!strings.includes(label)) {
            strings.push(label);
            frames.push({
                function: strings.length - 1,
                file: 0,
                line: 0,
                module: 0,
                type: "native",
                inlined: false,
                unnamed: false,
            });
        }
        const i = nodes.parent.push(parent) - 1;
        nodes.frame.push(strings.indexOf(label) - 1);
        nodes.self_ns.push(self);
        nodes.samples.push(self);
        nodes.total_ns.push(self);
        above.forEach((each) => {
            nodes.total_ns[i] += add(each, i);
        });
        return nodes.total_ns[i];
    };
    roots.forEach((each) => add(each, -1));
    return { strings, frames, nodes };
}

/* main 12: a 5 (b 3), c 6 (a 4); other 2 */
const SMALL = answerOf([
    [
        "main",
        1,
        [
            ["a", 2, [["b", 3]]],
            ["c", 2, [["a", 4]]],
        ],
    ],
    ["other", 2],
]);

test("children stand beside each other, above their caller", () => {
    const made = tree(SMALL);
    assert.equal(made.all, 14);
    assert.deepEqual([...made.x], [0, 0, 0, 5, 5, 12]);
    assert.deepEqual([...made.depth], [0, 1, 2, 1, 2, 0]);
    assert.deepEqual([...made.end], [5, 3, 3, 5, 5, 6]);
    assert.deepEqual(made.levels, [
        [0, 5],
        [1, 3],
        [2, 4],
    ]);
});

test("the node at a place; beside all: none", () => {
    const made = tree(SMALL);
    assert.equal(nodeAt(made, 0, 11.9), 0);
    assert.equal(nodeAt(made, 0, 12), 5);
    assert.equal(nodeAt(made, 1, 4.9), 1);
    assert.equal(nodeAt(made, 1, 5), 3);
    assert.equal(nodeAt(made, 1, 11.5), -1);
    assert.equal(nodeAt(made, 2, 4), -1);
    assert.equal(nodeAt(made, 7, 0), -1);
    assert.equal(firstIn(made, made.levels[1], 100), 2);
    assert.deepEqual(pathOf(made, 4), [0, 3, 4]);
});

test("a search counts what lies in another match once", () => {
    const made = tree(SMALL);
    assert.deepEqual(search(made, /^a$/).hits, [1, 4]);
    assert.equal(search(made, /^a$/).share, 9);
    assert.equal(search(made, /a/).share, 12, "main holds both a");
    assert.equal(search(made, /nothing/).share, 0);
});

test("a search that is no regular expression means its text", () => {
    assert.ok(pattern("operator()").test("operator()"));
    assert.ok(pattern("a[").test("xa[0]"));
    assert.ok(pattern("GLYPH").test("GLYPH") && !pattern("GLYPH").test("glyph"));
    assert.ok(pattern("glyph").test("GLYPH"));
});

test("ids of paths are the same in another answer", () => {
    const more = answerOf([
        ["new", 9],
        [
            "main",
            7,
            [
                ["x", 1],
                ["c", 2, [["a", 4]]],
            ],
        ],
    ]);
    const id = tree(SMALL).ids[4];
    assert.equal(tree(more).ids.indexOf(id), 4);
    assert.notEqual(tree(SMALL).ids[1], id, "a above main, and a above c");
});

test("widths of a difference may be those before", () => {
    const answer = structuredClone(SMALL);
    answer.nodes.base_total_ns = [7, 0, 0, 7, 7, 0];
    const made = tree(answer, "base_total_ns");
    assert.equal(made.all, 7);
    assert.equal(nodeAt(made, 1, 0), 3);
    assert.equal(nodeAt(made, 0, 6.9), 0);
});

test("nothing, and parents behind their children", () => {
    assert.equal(tree(answerOf([])).n, 0);
    assert.deepEqual(tree(answerOf([])).levels, []);
    assert.throws(() =>
        tree({
            strings: [""],
            frames: [{ function: 0 }],
            nodes: { parent: [0], frame: [0], total_ns: [1] },
        }),
    );
});

test("20,000 frames take one pass", () => {
    let deep = ["f0", 1];
    for (let i = 1; i < 500; i++) deep = [`f${i}`, 1, [deep]];
    const wide = Array.from({ length: 19500 }, (_, i) => [`g${i % 300}`, 1]);
    const answer = answerOf([deep, ...wide]);
    const start = performance.now();
    const made = tree(answer);
    search(made, /g1/);
    const took = performance.now() - start;
    console.log(`# 20,000 frames laid out and searched in ${took.toFixed(1)} ms`);
    assert.ok(took < 1000);
    assert.equal(made.n, 20000);
});
