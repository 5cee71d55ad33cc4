/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph as numbers, from the columns of /api/flame: for each node its place, its depth and
 * the end of its subtree. Pure. Each lookup is one pass at most: there may be 20,000 nodes, and
 * each mouse movement is a lookup.
 */
const SEED = 2166136261;
const TESTED_MAX = 1000;

function hashText(text, seed) {
    let hash = seed;
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
    return hash >>> 0;
}

/* A short id for each path of names; the same path has the same id in the next answer. */
function pathIds({ n, parent, frame, label }) {
    const ids = new Uint32Array(n);
    const names = new Map();
    for (let i = 0; i < n; i++) {
        let own = names.get(frame[i]);
        if (own === undefined) names.set(frame[i], (own = hashText(label(i), SEED)));
        ids[i] = Math.imul((parent[i] < 0 ? SEED : ids[parent[i]]) ^ own, 16777619) >>> 0;
    }
    return ids;
}

/* width: the column that sets the nodes' widths: "total_ns", or "base_total_ns" for a difference.
 */
export function tree(answer, width = "total_ns") {
    const { nodes, frames, strings } = answer;
    const n = nodes.parent.length;
    const value = nodes[width];
    const x = new Float64Array(n);
    const next = new Float64Array(n);
    const depth = new Uint16Array(n);
    const end = new Uint32Array(n); /* index after the last node of the subtree */
    let all = 0;
    let deepest = 0;
    for (let i = 0; i < n; i++) {
        const up = nodes.parent[i];
        if (up >= i) throw new Error("The answer's nodes are out of order.");
        x[i] = next[i] = up < 0 ? all : next[up];
        if (up < 0) all += value[i];
        else next[up] += value[i];
        depth[i] = up < 0 ? 0 : depth[up] + 1;
        deepest = Math.max(deepest, depth[i]);
    }
    for (let i = n - 1; i >= 0; i--) {
        end[i] = Math.max(end[i], i + 1);
        if (nodes.parent[i] >= 0) end[nodes.parent[i]] = Math.max(end[nodes.parent[i]], end[i]);
    }
    const frameOf = (i) => {
        const { function: f, file, module, ...more } = frames[nodes.frame[i]];
        return { function: strings[f], file: strings[file], module: strings[module], ...more };
    };
    const label = (i) => strings[frames[nodes.frame[i]].function];
    const made = {
        n,
        x,
        depth,
        end,
        all,
        deepest,
        value,
        parent: nodes.parent,
        frame: nodes.frame,
        nodes,
        frames,
        strings,
        frameOf,
        label,
    };
    made.ids = pathIds(made);
    made.levels = levelsOf(made);
    return made;
}

/* Nodes by depth; within a depth they ascend, so binary search finds the visible ones. */
function levelsOf({ n, depth, deepest }) {
    const levels = Array.from({ length: n ? deepest + 1 : 0 }, () => []);
    for (let i = 0; i < n; i++) levels[depth[i]].push(i);
    return levels;
}

/* Index in its level of the first node that ends after `from`. */
export function firstIn({ x, value }, level, from) {
    let low = 0;
    let high = level.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (x[level[middle]] + value[level[middle]] <= from) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The node at a place, or -1. */
export function nodeAt(made, depth, at) {
    const level = made.levels[depth] ?? [];
    const i = level[firstIn(made, level, at)];
    return i !== undefined && made.x[i] <= at ? i : -1;
}

export function pathOf({ parent }, node) {
    const path = [];
    for (let i = node; i >= 0; i = parent[i]) path.unshift(i);
    return path;
}

/* Nodes whose name, file or module matches, and their share of the total; nested matches count
 * once. */
export function search(made, regex) {
    const fits = made.frames.map((frame) =>
        [frame.function, frame.file, frame.module].some(
            (text) => text && regex.test(made.strings[text].slice(0, TESTED_MAX)),
        ),
    );
    const hits = [];
    let share = 0;
    let behind = 0;
    for (let i = 0; i < made.n; i++) {
        if (!fits[made.frame[i]]) continue;
        hits.push(i);
        if (i >= behind) {
            share += made.value[i];
            behind = made.end[i];
        }
    }
    return { fits, hits, share };
}

/* The input as a regular expression; if it is not a valid one, as plain text. Case is ignored
 * unless the input has both upper and lower case. */
export function pattern(text) {
    const flags = text === text.toLowerCase() ? "i" : "";
    try {
        return new RegExp(text, flags);
    } catch {
        return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), flags);
    }
}
