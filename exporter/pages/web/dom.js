/* SPDX-License-Identifier: Apache-2.0 */
/* Creates elements. Texts become text nodes only: a name that a program sent is never parsed as
 * markup. */
import { full, visible } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const SHOWN_MAX = 240;

function append(node, child) {
    if (Array.isArray(child)) child.forEach((each) => append(node, each));
    else if (child instanceof Node) node.append(child);
    else if (child !== null && child !== undefined && child !== false)
        node.append(document.createTextNode(String(child)));
}

function set(node, key, value) {
    if (value === null || value === undefined || value === false) return;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style")
        Object.entries(value).forEach(([name, each]) => node.style.setProperty(name, each));
    else if (key === "value" || key === "checked") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
}

function build(node, properties, children) {
    Object.entries(properties ?? {}).forEach(([key, value]) => set(node, key, value));
    append(node, children);
    return node;
}

/* h("a", {href, class, onclick, style: {width: "3px"}}, children...): style by CSSOM, as the CSP
 * wants. */
export const h = (tag, properties, ...children) =>
    build(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) =>
    build(document.createElementNS(SVG, tag), properties, children);

/* A foreign text: isolated in its text direction, cut; the tooltip has all of it. */
export function name(text, properties) {
    const shown = visible(text);
    const cut = shown.length > SHOWN_MAX ? shown.slice(0, SHOWN_MAX) + "…" : shown;
    return h("bdi", { class: "name", title: full(text), ...properties }, cut);
}

export const say = (text) => {
    document.getElementById("said").textContent = text;
};

/* Radio-like buttons: options are [value, label]; links when `href` is given. */
export function choice(label, options, chosen, href) {
    return h(
        "div",
        { class: "choice", role: "group", "aria-label": label },
        options.map(([value, text]) =>
            h(
                "a",
                {
                    href: href(value),
                    "aria-current": value === chosen ? "true" : null,
                    "data-key": `${label}-${value}`,
                },
                text,
            ),
        ),
    );
}

/* Text to be copied. A page that is not from a secure origin has no clipboard: then the text is
 * selected. */
export function copyable(text) {
    const code = h("code", {}, text);
    const button = h("button", { type: "button", class: "plain" }, "Copy");
    button.addEventListener("click", async () => {
        try {
            await navigator.clipboard.writeText(text);
            button.textContent = "Copied";
            say("copied");
        } catch {
            getSelection().selectAllChildren(code);
        }
    });
    return h("span", { class: "copyable" }, code, button);
}

export const note = (title, ...children) =>
    h("section", { class: "note" }, title && h("h2", {}, title), ...children);

/* A share as a thin bar; `of` and `part` have the same unit; `inner`: a second, darker part within
 * the first. */
export function bar(part, of, inner, classes = "") {
    const width = (each) => `${of > 0 ? Math.min(100, (100 * each) / of) : 0}%`;
    return h(
        "span",
        { class: `bar ${inner === undefined ? "" : "two"} ${classes}`, "aria-hidden": "true" },
        part > 0 && h("i", { style: { width: width(part) } }),
        inner > 0 && h("b", { style: { width: width(inner) } }),
    );
}

export const th = (text, classes, properties) =>
    h("th", { scope: "col", class: classes, ...properties }, text);
export const td = (classes, ...children) => h("td", { class: classes }, ...children);
/* The cell that names a row: one line, cut where it does not fit. */
export const what = (...children) => h("td", { class: "what" }, h("div", {}, ...children));
