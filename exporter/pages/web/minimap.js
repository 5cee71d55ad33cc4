/* SPDX-License-Identifier: Apache-2.0 */
/* The whole flame graph in small, with a frame around the visible part. Hidden while everything is
 * visible. */
import { h } from "./dom.js";
import { ROW } from "./flamedraw.js";

const WIDTH = 168;
const HEIGHT_MAX = 84;

export class Minimap {
    constructor(graph) {
        this.graph = graph;
        this.frame = h("i", {});
        this.node = h("div", { class: "minimap", hidden: true, "aria-hidden": "true" }, this.frame);
        this.node.addEventListener("pointerdown", (event) => {
            this.node.setPointerCapture(event.pointerId);
            this.to(event);
        });
        this.node.addEventListener("pointermove", (event) => event.buttons === 1 && this.to(event));
    }

    redraw() {
        const rows = this.graph.tree.levels.length + 1;
        this.height = Math.max(24, Math.min(HEIGHT_MAX, rows * 3));
        this.picture?.remove();
        this.picture = this.graph.painter.small(WIDTH * 2, this.height * 2);
        this.picture.style.setProperty("width", `${WIDTH}px`);
        this.picture.style.setProperty("height", `${this.height}px`);
        this.node.prepend(this.picture);
        this.place();
    }

    place() {
        const { view, tree, box, space } = this.graph;
        const tall = space.offsetHeight || ROW;
        const scrolls = tall > box.clientHeight + 1;
        this.node.hidden = this.graph.isWhole() && !scrolls;
        if (this.node.hidden) return;
        const set = (property, value) => this.frame.style.setProperty(property, `${value}px`);
        set("left", (view.x0 / tree.all) * WIDTH);
        set("width", Math.max(2, ((view.x1 - view.x0) / tree.all) * WIDTH));
        set("top", (box.scrollTop / tall) * this.height);
        set("height", Math.min(1, box.clientHeight / tall) * this.height);
    }

    /* Centres the view on the point that was clicked. */
    to(event) {
        const { view, tree, box, space } = this.graph;
        const at = this.node.getBoundingClientRect();
        const middle = ((event.clientX - at.left) / WIDTH) * tree.all;
        const half = (view.x1 - view.x0) / 2;
        this.graph.pan(middle - half, middle + half);
        box.scrollTop =
            ((event.clientY - at.top) / this.height) * space.offsetHeight - box.clientHeight / 2;
    }
}
