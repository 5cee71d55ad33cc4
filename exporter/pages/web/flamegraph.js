/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph with zoom, search, keyboard control and a table view. The fragment holds zoom and
 * search (`at`, `search`, `colour`), so they are part of the URL and survive a new answer.
 */
import { fragment, remember } from "./address.js";
import { h, name, say } from "./dom.js";
import { Painter, ROW, TYPES } from "./flamedraw.js";
import { nodeAt, pathOf, pattern, search, tree } from "./flametree.js";
import { flameTable } from "./flametable.js";
import { Minimap } from "./minimap.js";
import { comparison } from "./rates.js";
import { base, count, duration, full, percent, plural } from "./text.js";

const ZOOM_MS = 160;
const SEARCH_MS = 120;
const DRAG_PX = 4;
const MOST_OF_WINDOW = 0.66;
const LEAST_HEIGHT = 240;
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

let following = new AbortController();

/* options: { links(frame, node) -> [[label, href]], title, width: "total_ns" or "base_total_ns",
 * rates: for a difference, how its sides are compared (rates.js) } */
export class FlameGraph {
    constructor(answer, options) {
        this.answer = answer;
        this.options = options;
        this.diff = Boolean(answer.nodes.base_total_ns);
        this.tree = tree(answer, options.width);
        this.selected = this.current = this.zoomed = -1;
        this.view = { x0: 0, x1: this.tree.all || 1, top: 0 };
        this.build();
    }

    build() {
        const label = `Flame graph${this.options.title ? ` of ${this.options.title}` : ""}: ${plural(
            this.tree.n,
            "frame",
        )}. Arrow keys move, Enter zooms in, Escape out; as a table below.`;
        this.canvas = h("canvas", {
            tabindex: "0",
            role: "application",
            "aria-roledescription": "flame graph",
            "aria-label": label,
            "data-key": "flame",
        });
        this.space = h("div", { class: "flamespace" }, this.canvas);
        this.box = h("div", { class: "flamebox", onscroll: () => this.draw() }, this.space);
        this.tip = h("div", { class: "tip", role: "tooltip", hidden: true });
        this.panel = h("div", { class: "framepanel", "aria-live": "off" });
        this.table = h(
            "details",
            { class: "astable", ontoggle: () => this.fillTable() },
            h("summary", {}, "As a table"),
        );
        this.map = new Minimap(this);
        this.node = h(
            "section",
            { class: "flame" },
            this.tools(),
            h("div", { class: "flamewrap" }, this.box, this.map.node, this.tip),
            this.panel,
            h(
                "p",
                { class: "keys", "aria-hidden": "true" },
                "Click or ",
                h("kbd", {}, "Enter"),
                " zooms, ",
                h("kbd", {}, "Esc"),
                " all, ",
                h("kbd", {}, "← ↑ ↓ →"),
                " move, ",
                h("kbd", {}, "/"),
                " searches, ",
                h("kbd", {}, "n"),
                " next",
            ),
            this.table,
        );
        this.listen();
    }

    /* ---- controls above the graph ---- */

    tools() {
        this.field = h("input", {
            type: "search",
            placeholder: "Search: function, file or module (regex)",
            "aria-label": "Search frames",
            "data-key": "search",
            spellcheck: "false",
            value: fragment().get("search") ?? "",
            oninput: () => {
                clearTimeout(this.searching);
                this.searching = setTimeout(() => this.find(this.field.value), SEARCH_MS);
            },
            onkeydown: (event) => {
                if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
                else if (event.key === "Escape" && this.field.value)
                    this.find((this.field.value = ""));
                else return;
                event.preventDefault();
            },
        });
        this.found = h("output", { class: "found", "aria-live": "polite" });
        const button = (text, label, onclick) =>
            h("button", { type: "button", "aria-label": label, title: label, onclick }, text);
        this.out = button("Zoom out", "Show everything", () => this.zoom(-1));
        const colours = this.diff
            ? [
                  ["change", "by change"],
                  ["type", "by type"],
                  ["module", "by module"],
              ]
            : [
                  ["type", "by type"],
                  ["module", "by module"],
              ];
        this.colours = h(
            "select",
            {
                "aria-label": "Colours",
                "data-key": "colours",
                onchange: (event) => {
                    remember({ colour: event.currentTarget.value });
                    this.recolour();
                },
            },
            colours.map(([value, text]) => h("option", { value }, `Colours ${text}`)),
        );
        this.colours.value = fragment().get("colour") ?? colours[0][0];
        if (!this.colours.value) this.colours.value = colours[0][0];
        this.legend = h("span", { class: "legend" });
        return h(
            "div",
            { class: "flametools" },
            h(
                "span",
                { class: "search" },
                this.field,
                button("↑", "Previous match (Shift+Enter)", () => this.step(-1)),
                button("↓", "Next match (Enter)", () => this.step(1)),
            ),
            this.found,
            this.out,
            this.legend,
            this.colours,
        );
    }

    /* Called once the graph is in the document and has a size. */
    shown() {
        this.recolour();
        this.find(this.field.value, true);
        this.goto(fragment().get("at"), true);
        this.observer = new ResizeObserver(() =>
            this.node.isConnected ? this.resize() : this.observer.disconnect(),
        );
        this.observer.observe(this.box);
        this.followTheme();
    }

    /* A listener on the window outlives its view, so only the graph shown last listens. */
    followTheme() {
        following.abort();
        following = new AbortController();
        const { signal } = following;
        const themed = () => this.node.isConnected && this.recolour();
        addEventListener("themechange", themed, { signal });
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed, { signal });
    }

    recolour() {
        this.painter = new Painter(this.canvas, this.tree, {
            colour: this.colours.value,
            rates: this.options.rates,
        });
        this.showLegend();
        this.resize();
        this.map.redraw();
    }

    showLegend() {
        const types = new Set(this.tree.frames.map((frame) => frame.type));
        const sample = (fill, text) => h("span", {}, h("i", { style: { background: fill } }), text);
        if (this.colours.value === "change")
            this.legend.replaceChildren(
                sample(this.painter.changeFill(-1), "less"),
                sample(this.painter.changeFill(0), "same"),
                sample(this.painter.changeFill(1), "more"),
            );
        else if (this.colours.value === "type")
            this.legend.replaceChildren(
                ...Object.keys(TYPES)
                    .filter((type) => types.has(type))
                    .map((type) => sample(this.typeFill(type), type)),
            );
        else this.legend.replaceChildren();
    }

    typeFill(type) {
        const [, hue, saturation] = TYPES[type];
        return `hsl(${hue} ${saturation * (this.painter.dark ? 0.72 : 1)}% ${this.painter.dark ? 32 : 75}%)`;
    }

    resize() {
        const rows = this.tree.levels.length + 1;
        const height = Math.min(rows * ROW, Math.max(LEAST_HEIGHT, innerHeight * MOST_OF_WINDOW));
        this.space.style.setProperty("height", `${rows * ROW}px`);
        this.box.style.setProperty(
            "height",
            `${height + this.box.offsetHeight - this.box.clientHeight}px`,
        );
        this.painter.resize(this.box.clientWidth, Math.ceil(height));
        this.draw();
    }

    draw() {
        cancelAnimationFrame(this.frame);
        this.frame = requestAnimationFrame(() => {
            this.view.top = this.box.scrollTop;
            this.painter.paint(this.view, this);
            this.map.place();
        });
    }

    /* ---- zoom ---- */

    isWhole() {
        return this.view.x0 <= 0 && this.view.x1 >= this.tree.all;
    }

    moveTo(x0, x1, at_once) {
        const from = { ...this.view };
        const start = performance.now();
        const step = (now) => {
            const t = at_once || calm() ? 1 : Math.min(1, (now - start) / ZOOM_MS);
            const eased = 1 - (1 - t) ** 3;
            this.view.x0 = from.x0 + (x0 - from.x0) * eased;
            this.view.x1 = from.x1 + (x1 - from.x1) * eased;
            this.painter.paint(this.view, this);
            this.map.place();
            if (t < 1) this.moving = requestAnimationFrame(step);
        };
        cancelAnimationFrame(this.moving);
        step(start);
    }

    /* Moves the view to x0..x1, kept within the whole; for dragging and the map. */
    pan(x0, x1) {
        const width = Math.min(x1 - x0, this.tree.all);
        const left = Math.max(0, Math.min(x0, this.tree.all - width));
        this.moveTo(left, left + width, true);
    }

    zoom(node, { quiet, step = true } = {}) {
        this.zoomed = node;
        if (node >= 0)
            this.moveTo(this.tree.x[node], this.tree.x[node] + this.tree.value[node], quiet);
        else this.moveTo(0, this.tree.all || 1, quiet);
        this.out.disabled = node < 0;
        this.select(node);
        if (!quiet) remember({ at: node < 0 ? null : this.tree.ids[node].toString(16) }, step);
    }

    goto(id, quiet) {
        const node = id ? this.tree.ids.indexOf(parseInt(id, 16)) : -1;
        this.zoom(node >= 0 && this.tree.value[node] > 0 ? node : -1, { quiet });
    }

    /* Back and Forward within the page. */
    onfragment(rest) {
        this.field.value = rest.get("search") ?? "";
        this.find(this.field.value, true);
        const node = rest.get("at") ? this.tree.ids.indexOf(parseInt(rest.get("at"), 16)) : -1;
        this.zoomed = node;
        this.out.disabled = node < 0;
        this.select(node);
        if (node >= 0) this.moveTo(this.tree.x[node], this.tree.x[node] + this.tree.value[node]);
        else this.moveTo(0, this.tree.all || 1);
    }

    reveal(node) {
        const y = (this.tree.depth[node] + 1) * ROW;
        if (y < this.box.scrollTop + ROW) this.box.scrollTop = Math.max(0, y - ROW);
        else if (y + ROW > this.box.scrollTop + this.box.clientHeight)
            this.box.scrollTop = y + 2 * ROW - this.box.clientHeight;
    }

    /* ---- search ---- */

    find(text, quiet) {
        const result = text ? search(this.tree, pattern(text)) : { fits: null, hits: [], share: 0 };
        Object.assign(this, { fits: result.fits, hits: result.hits, hit: -1 });
        this.found.textContent = text
            ? `${plural(this.hits.length, "match", "matches")} · ${percent(
                  result.share,
                  this.tree.all,
              )} of CPU`
            : "";
        if (!quiet) remember({ search: text || null });
        this.draw();
    }

    step(by) {
        const { length } = this.hits;
        if (!length) return;
        this.hit = (this.hit + by + length + (this.hit < 0 && by < 0 ? 1 : 0)) % length;
        const node = this.hits[this.hit];
        const { x0, x1 } = this.view;
        if (this.tree.x[node] + this.tree.value[node] <= x0 || this.tree.x[node] >= x1)
            this.zoom(-1, { quiet: true });
        this.select(node);
        this.reveal(node);
        this.found.textContent = `${count(this.hit + 1)} of ${plural(length, "match", "matches")}`;
    }

    /* ---- one frame ---- */

    figures(node) {
        const { nodes, n } = this.tree;
        const all = this.answer.cpu_ns;
        const whole = node < 0;
        const sum = whole
            ? [all, 0, this.answer.samples]
            : [nodes.total_ns[node], nodes.self_ns[node], nodes.samples[node]];
        const rows = [["CPU time", duration(sum[0]), percent(sum[0], all)]];
        if (!whole) rows.push(["of it, itself", duration(sum[1]), percent(sum[1], all)]);
        if (!whole && this.tree.parent[node] >= 0)
            rows.push([
                "share of its caller",
                "",
                percent(sum[0], nodes.total_ns[this.tree.parent[node]]),
            ]);
        rows.push(["samples", count(sum[2]), ""]);
        if (this.diff && n) {
            const before = whole ? this.answer.base_cpu_ns : nodes.base_total_ns[node];
            rows.push(
                ["before", duration(before), percent(before, this.answer.base_cpu_ns)],
                ...comparison(this.options.rates, sum[0], before),
            );
        }
        return rows;
    }

    describe(node) {
        if (node < 0) return [h("strong", {}, "all")];
        const frame = this.tree.frameOf(node);
        const where = frame.file ? `${frame.file}${frame.line ? `:${frame.line}` : ""}` : "";
        const kind = `${TYPES[frame.type]?.[0] ?? frame.type}${frame.inlined ? ", inlined" : ""}${
            frame.unnamed ? ", no symbol found" : ""
        }`;
        return [
            h("strong", {}, name(frame.function)),
            where && h("div", { class: "where" }, name(where)),
            h(
                "div",
                { class: "where" },
                frame.module && [name(base(frame.module), { title: full(frame.module) }), " · "],
                kind,
            ),
        ];
    }

    select(node) {
        this.selected = node;
        if (node < 0) {
            this.panel.replaceChildren();
            this.panel.hidden = true;
        } else {
            const frame = this.tree.frameOf(node);
            const links = this.options.links?.(frame, node) ?? [];
            this.panel.hidden = false;
            this.panel.replaceChildren(
                h("div", {}, this.describe(node)),
                h(
                    "dl",
                    {},
                    this.figures(node).map(([key, a, b]) =>
                        h("div", {}, h("dt", {}, key), h("dd", {}, a, a && b ? " · " : "", b)),
                    ),
                ),
                h(
                    "div",
                    { class: "actions" },
                    links.map(([label, href]) => h("a", { href, class: "button" }, label)),
                ),
            );
        }
        this.draw();
    }

    tell(node) {
        this.current = node;
        this.reveal(node);
        this.draw();
        const rows = this.figures(node)
            .map((row) => row.filter(Boolean).join(" "))
            .join(", ");
        say(node < 0 ? "all" : `${this.painter.label(node)}, ${rows}`);
    }

    /* ---- pointer and keys ---- */

    at(event) {
        const place = this.canvas.getBoundingClientRect();
        const row = Math.floor((event.clientY - place.top + this.view.top) / ROW);
        const x =
            this.view.x0 +
            ((event.clientX - place.left) / this.painter.width) * (this.view.x1 - this.view.x0);
        return row <= 0
            ? -1
            : nodeAt(this.tree, row - 1, x) >= 0
              ? nodeAt(this.tree, row - 1, x)
              : null;
    }

    hover(event) {
        const node = this.at(event);
        this.canvas.classList.toggle("over", node !== null);
        this.tip.hidden = node === null;
        if (node !== this.current) {
            this.current = node ?? -1;
            this.draw();
        }
        if (node === null) return;
        if (this.tipped !== node)
            this.tip.replaceChildren(
                ...this.describe(node),
                h(
                    "table",
                    {},
                    this.figures(node).map((row) =>
                        h(
                            "tr",
                            {},
                            row.map((each, i) => h(i ? "td" : "th", {}, each)),
                        ),
                    ),
                ),
            );
        this.tipped = node;
        const wrap = this.node.querySelector(".flamewrap").getBoundingClientRect();
        const left = event.clientX - wrap.left;
        const right = left + this.tip.offsetWidth + 24 > wrap.width;
        this.tip.style.setProperty(
            "left",
            `${Math.max(0, right ? left - this.tip.offsetWidth - 12 : left + 14)}px`,
        );
        const below = event.clientY + this.tip.offsetHeight + 30 > innerHeight;
        this.tip.style.setProperty(
            "top",
            `${event.clientY - wrap.top + (below ? -this.tip.offsetHeight - 12 : 18)}px`,
        );
    }

    listen() {
        let drag = null;
        this.canvas.addEventListener("pointerdown", (event) => {
            drag = { at: event.clientX, x0: this.view.x0, x1: this.view.x1, moved: false };
        });
        this.canvas.addEventListener("pointermove", (event) => {
            if (
                drag &&
                event.buttons === 1 &&
                (drag.moved || Math.abs(event.clientX - drag.at) > DRAG_PX)
            ) {
                drag.moved = true;
                const by = ((event.clientX - drag.at) / this.painter.width) * (drag.x1 - drag.x0);
                this.tip.hidden = true;
                this.pan(drag.x0 - by, drag.x1 - by);
            } else {
                this.hover(event);
            }
        });
        this.canvas.addEventListener("click", (event) => {
            const node = this.at(event);
            if (!drag?.moved && node !== null) this.zoom(node);
            drag = null;
        });
        this.canvas.addEventListener("pointerleave", () => {
            this.tip.hidden = true;
            this.current = -1;
            this.draw();
        });
        this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
        this.canvas.addEventListener("keydown", (event) => this.key(event));
    }

    wheel(event) {
        const { x0, x1 } = this.view;
        if (event.ctrlKey || event.metaKey) {
            const part =
                (event.clientX - this.canvas.getBoundingClientRect().left) / this.painter.width;
            const width = Math.max((x1 - x0) * 1.0025 ** event.deltaY, this.tree.all / 1e6);
            const fixed = x0 + part * (x1 - x0);
            this.pan(fixed - part * width, fixed + (1 - part) * width);
            this.out.disabled = this.isWhole();
        } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && !this.isWhole()) {
            const by = (event.deltaX / this.painter.width) * (x1 - x0);
            this.pan(x0 + by, x1 + by);
        } else {
            return;
        }
        event.preventDefault();
    }

    /* The neighbour in a direction: callers above, callees below. */
    neighbour(key) {
        const { levels, depth, parent, end, value } = this.tree;
        const node = this.current >= 0 ? this.current : this.zoomed >= 0 ? this.zoomed : -1;
        if (node < 0) return levels[0]?.[0];
        if (key === "ArrowUp") return parent[node];
        if (key === "ArrowDown") {
            const above = (levels[depth[node] + 1] ?? []).filter(
                (each) => each > node && each < end[node],
            );
            return above.reduce(
                (best, each) => (best === undefined || value[each] > value[best] ? each : best),
                undefined,
            );
        }
        const level = levels[depth[node]];
        return level[level.indexOf(node) + (key === "ArrowRight" ? 1 : -1)];
    }

    key(event) {
        if (event.key.startsWith("Arrow")) {
            const node = this.neighbour(event.key);
            if (node !== undefined && node >= 0) this.tell(node);
        } else if (event.key === "Enter" || event.key === " ") {
            this.zoom(this.current >= 0 ? this.current : this.zoomed);
        } else if (event.key === "Escape") {
            this.zoom(-1);
        } else if (event.key === "/") {
            this.field.focus();
        } else if (event.key === "n" || event.key === "N") {
            this.step(event.key === "n" ? 1 : -1);
        } else {
            return;
        }
        event.preventDefault();
    }

    /* ---- the table ---- */

    fillTable() {
        if (this.table.open && this.table.children.length === 1)
            this.table.append(
                flameTable(this.tree, this.answer, (node) => {
                    this.zoom(node);
                    this.canvas.scrollIntoView({ block: "nearest" });
                    say(`Zoomed to ${pathOf(this.tree, node).length} calls deep`);
                }),
            );
    }
}
