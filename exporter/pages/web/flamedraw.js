/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph on a canvas. Pixels bound the drawing time, not nodes: neighbouring thin nodes are
 * drawn as one line. */
import { firstIn } from "./flametree.js";
import { percent, visible } from "./text.js";

export const ROW = 20;
const FONT = "12px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const THIN = 0.6; /* px */
const LABEL_MAX = 400;
/* Hue and saturation; the lightness varies a little by name, so that neighbours differ. */
export const TYPES = {
    native: ["native code", 33, 78],
    go: ["Go", 186, 48],
    cpython: ["Python", 48, 74],
    jvm: ["Java", 268, 44],
    v8js: ["JavaScript", 110, 46],
    ruby: ["Ruby", 356, 58],
    php: ["PHP", 236, 46],
    dotnet: [".NET", 288, 50],
    beam: ["Erlang", 330, 44],
    luajit: ["Lua", 208, 58],
    jit: ["made at run time (JIT)", 84, 30],
    kernel: ["kernel", 222, 52],
    truncated: ["stack cut short", 0, 0],
    others: ["too small to list", 0, 0],
};

function spread(text) {
    let hash = 7;
    for (let i = 0; i < Math.min(text.length, 64); i++)
        hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
    return Math.abs(hash);
}

const isDark = () =>
    getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";

/* Red: more than before; blue: less. The root of the change, so that small ones can be seen. */
export function differences({ nodes, n }, { now, before }) {
    const change = new Float64Array(n);
    let most = 1e-9;
    for (let i = 0; i < n; i++) {
        change[i] = now(nodes.total_ns[i]) - before(nodes.base_total_ns[i]);
        most = Math.max(most, Math.abs(change[i]));
    }
    return change.map((each) => Math.sign(each) * Math.sqrt(Math.abs(each) / most));
}

export class Painter {
    constructor(canvas, tree, { colour, rates }) {
        this.canvas = canvas;
        this.context = canvas.getContext("2d", { alpha: false });
        this.tree = tree;
        this.labels = new Map();
        this.colour = colour;
        this.changes = colour === "change" && differences(tree, rates);
        this.theme();
    }

    theme() {
        const css = getComputedStyle(document.documentElement);
        const read = (variable) => css.getPropertyValue(variable).trim();
        this.dark = isDark();
        this.ink = this.dark ? "#f2efe9" : "#1d1a16";
        this.ground = read("--ground");
        this.accent = read("--accent");
        this.fills = new Map();
    }

    resize(width, height) {
        const ratio = Math.min(devicePixelRatio || 1, 3);
        this.width = width;
        this.height = height;
        this.canvas.width = Math.round(width * ratio);
        this.canvas.height = Math.round(height * ratio);
        this.canvas.style.setProperty("width", `${width}px`);
        this.canvas.style.setProperty("height", `${height}px`);
        this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
        this.context.font = FONT;
        this.letter = this.context.measureText("m").width;
    }

    label(node) {
        const frame = this.tree.frame[node];
        let label = this.labels.get(frame);
        if (label === undefined)
            this.labels.set(frame, (label = visible(this.tree.label(node).slice(0, LABEL_MAX))));
        return label;
    }

    fill(node) {
        if (this.changes) return this.changeFill(this.changes[node]);
        const frame = this.tree.frame[node];
        let fill = this.fills.get(frame);
        if (!fill) {
            const { type, module } = this.tree.frameOf(node);
            const by = this.colour === "module" ? module : this.label(node);
            const [, hue, saturation] = TYPES[type] ?? TYPES.others;
            const lightness = (this.dark ? 27 : 70) + (spread(by) % 7) * (this.dark ? 1.6 : 1.9);
            fill =
                this.colour === "module"
                    ? `hsl(${(spread(module) * 47) % 360} 42% ${this.dark ? 32 : 76}%)`
                    : `hsl(${hue + (saturation ? (spread(by) % 13) - 6 : 0)} ${saturation * (this.dark ? 0.72 : 1)}% ${lightness}%)`;
            this.fills.set(frame, fill);
        }
        return fill;
    }

    changeFill(change) {
        const strength = Math.abs(change);
        const lightness = this.dark ? 24 + 14 * strength : 90 - 26 * strength;
        return `hsl(${change > 0 ? 10 : 212} ${Math.round(72 * strength)}% ${lightness}%)`;
    }

    /* Pixels to nodes: view = { x0, x1, top }; marks = { fits, current, selected, zoomed } */
    paint(view, marks) {
        const { context } = this;
        context.globalAlpha = 1;
        context.fillStyle = this.ground;
        context.fillRect(0, 0, this.width, this.height);
        context.textBaseline = "middle";
        const first = Math.max(0, Math.floor(view.top / ROW));
        const last = Math.min(this.tree.levels.length, Math.ceil((view.top + this.height) / ROW));
        for (let row = first; row <= last; row++) {
            if (row === 0) this.box(-1, 0, this.width, -view.top, marks);
            else this.level(this.tree.levels[row - 1], row * ROW - view.top, view, marks);
        }
    }

    level(level, y, view, marks) {
        const { x, value } = this.tree;
        const scale = this.width / (view.x1 - view.x0);
        let at = firstIn(this.tree, level, view.x0);
        while (at < level.length && x[level[at]] < view.x1) {
            const node = level[at];
            const left = (x[node] - view.x0) * scale;
            const width = value[node] * scale;
            if (width >= THIN) {
                this.box(node, Math.max(0, left), Math.min(this.width, left + width), y, marks);
                at++;
                continue;
            }
            if (width > 0) {
                this.context.globalAlpha = 0.5;
                this.context.fillStyle = this.fill(node);
                this.context.fillRect(left, y, 1, ROW - 1);
            }
            at = Math.max(at + 1, firstIn(this.tree, level, view.x0 + (left + 1) / scale));
        }
    }

    box(node, left, right, y, marks) {
        const { context } = this;
        const fits = marks.fits && node >= 0 && marks.fits[this.tree.frame[node]];
        const width = Math.max(right - left - (right - left > 3 ? 1 : 0), 0.5);
        context.globalAlpha =
            marks.fits && !fits ? 0.35 : this.around(node, marks.zoomed) ? 0.6 : 1;
        context.fillStyle =
            node < 0
                ? this.dark
                    ? "#3a3631"
                    : "#dedad2"
                : fits
                  ? this.dark
                      ? "#8b3fa8"
                      : "#e3a4f5"
                  : this.fill(node);
        context.fillRect(left, y, width, ROW - 1);
        context.globalAlpha = marks.fits && !fits ? 0.6 : 1;
        if (width > 3 * this.letter) this.text(node, left, width, y);
        if (node >= 0 && (node === marks.current || node === marks.selected)) {
            context.globalAlpha = 1;
            context.strokeStyle = node === marks.current ? this.ink : this.accent;
            context.lineWidth = 2;
            context.strokeRect(left + 1, y + 1, Math.max(width - 2, 1), ROW - 3);
        }
    }

    around(node, zoomed) {
        return zoomed >= 0 && node < zoomed && (node < 0 || this.tree.end[node] > zoomed);
    }

    text(node, left, width, y) {
        const { context } = this;
        const room = Math.floor((width - 8) / this.letter);
        const label = node < 0 ? "all" : this.label(node);
        const shown = label.length > room ? `${label.slice(0, Math.max(room - 1, 1))}…` : label;
        context.fillStyle = this.ink;
        context.direction = "ltr";
        context.textAlign = "left";
        context.fillText(shown, left + 4, y + ROW / 2, width - 6);
        if (room > label.length + 9 && node >= 0) {
            context.globalAlpha *= 0.62;
            context.textAlign = "right";
            context.fillText(
                percent(this.tree.value[node], this.tree.all),
                left + width - 5,
                y + ROW / 2,
            );
        }
    }

    /* The whole graph, at most one pixel per row; the caller scales it. */
    small(width, height) {
        const { tree } = this;
        const picture = document.createElement("canvas");
        picture.width = width;
        picture.height = height;
        const context = picture.getContext("2d");
        const row = height / (tree.levels.length + 1);
        tree.levels.forEach((level, depth) => {
            let drawn = -1; /* px */
            for (const node of level) {
                const left = (tree.x[node] / tree.all) * width;
                const right = left + (tree.value[node] / tree.all) * width;
                if (right - drawn < 1) continue;
                context.fillStyle = this.fill(node);
                context.fillRect(
                    left,
                    (depth + 1) * row,
                    Math.max(right - left, 0.7),
                    Math.max(row, 1),
                );
                drawn = right;
            }
        });
        return picture;
    }
}
