/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps the URL to a view, and switches views. A view is a module with
 *     show({ path, params, rest, signal, questions, answers }) -> { title, node, said, onfragment }
 * that builds all its elements from the server's answers. Only the URL is kept between two builds.
 * `rest` is the fragment; onfragment(rest) is called when only the fragment changed.
 */
import { CHANGED, get, setToken } from "./api.js";
import { FILTERS, fragment, general, href, isRelative, pick } from "./address.js";
import { h, note, say } from "./dom.js";
import { filters } from "./filterbar.js";
import { ask, codeOf, isView, viewed } from "./questions.js";
import { plural } from "./text.js";

const NAV = {
    "/traces": "Traces",
    "/functions": "Functions",
    "/flame": "Flame graph",
    "/timeline": "Timeline",
    "/diff": "Difference",
    "/status": "Status",
};
const LIVE_MS = 5000;
const SLOW_MS = 150;
const STATUS_MS = 60000;

const main = document.getElementById("main");
const progress = document.getElementById("progress");
let now = {}; /* the current view: address, view, controller */
let kept =
    new URLSearchParams(); /* filters of the last list, for the link from a trace back to it */
let timer = 0;

/* ---- the frame around views ---- */

function showNav(path, params) {
    const scoped = params.has("trace_id");
    if (!scoped && path !== "/status" && path !== "/trace") kept = general(params);
    const links = Object.entries(NAV).map(([to, title]) => {
        const within = scoped && ["/flame", "/functions", "/timeline"].includes(to);
        const target = to === "/status" ? null : within ? pick(params, FILTERS) : kept;
        return h(
            "a",
            {
                href: href(to, target, fragment().has("live") && { live: 1 }),
                "aria-current": to === path ? "page" : null,
                id: `nav${to.slice(1)}`,
            },
            title,
            to === "/status" && h("span", { class: "badge", id: "badge", hidden: true }),
        );
    });
    document.getElementById("nav").replaceChildren(...links);
    showBadge();
}

let problems = 0;
function showBadge() {
    const badge = document.getElementById("badge");
    badge.hidden = !problems;
    badge.textContent = problems;
    badge.title = plural(problems, "problem");
}

function showHost(name) {
    const host = document.getElementById("host");
    host.hidden = !name;
    host.textContent = name;
}

async function lookAtStatus() {
    try {
        const status = await get("/api/status");
        problems = status.problems.length;
        showBadge();
        showHost(status.host);
    } catch {
        /* the view itself says what is wrong */
    }
    setTimeout(lookAtStatus, STATUS_MS);
}

const THEMES = { system: "Auto", light: "Light", dark: "Dark" };

function showTheme() {
    const button = document.getElementById("theme");
    const chosen = document.documentElement.dataset.theme ?? "system";
    button.textContent = THEMES[chosen];
    button.title = "Colours: as the system has them, light, dark";
    button.setAttribute("aria-label", `Colours: ${THEMES[chosen]}`);
}

function nextTheme() {
    const order = Object.keys(THEMES);
    const chosen = document.documentElement.dataset.theme ?? "system";
    const next = order[(order.indexOf(chosen) + 1) % order.length];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
    showTheme();
    dispatchEvent(new Event("themechange"));
}

/* ---- failures ---- */

function tokenForm() {
    const input = h("input", { type: "password", autocomplete: "off", "aria-label": "Token" });
    return h(
        "form",
        {
            onsubmit: (event) => {
                event.preventDefault();
                setToken(input.value);
                route({ again: true });
            },
        },
        input,
        h("button", {}, "Go on"),
    );
}

function failed(error) {
    const retry = h(
        "button",
        {
            type: "button",
            onclick: () => (error.reload ? location.reload() : route({ again: true })),
        },
        "Try again",
    );
    document.title = "spanprof";
    main.replaceChildren(
        h(
            "div",
            { role: "alert" },
            note(
                error.message,
                error.status === 401
                    ? tokenForm()
                    : h(
                          "p",
                          {},
                          retry,
                          " ",
                          h("a", { href: location.pathname, class: "button" }, "Without filters"),
                      ),
            ),
        ),
    );
}

/* ---- switching views ---- */

function keepFocus() {
    const active = document.activeElement;
    const key = active?.dataset?.key;
    const selector = active?.id
        ? `#${CSS.escape(active.id)}`
        : key && `[data-key="${CSS.escape(key)}"]`;
    return () => selector && document.querySelector(selector)?.focus({ preventScroll: true });
}

function place(view, { fresh, y }) {
    const refocus = keepFocus();
    const top = scrollY;
    main.replaceChildren(view.node);
    document.title = `${view.title} · spanprof`;
    view.shown?.();
    if (fresh) {
        main.focus({ preventScroll: true });
        scrollTo(0, y ?? 0);
    } else {
        refocus();
        scrollTo(0, y ?? top);
    }
    if (view.said) say(view.said);
}

function live(params) {
    clearTimeout(timer);
    if (!fragment().has("live") || !isRelative(params)) return;
    timer = setTimeout(
        () => (document.hidden ? live(params) : route({ again: true, quiet: true })),
        LIVE_MS,
    );
}

async function load(asked, signal) {
    const code = codeOf(asked.path).catch(() => {
        throw Object.assign(new Error(CHANGED), {
            reload: true,
        }); /* browsers remember that it failed */
    });
    const [answers, view] = await Promise.all([ask(asked.questions, signal), code]);
    return view.show({ ...asked, signal, answers });
}

async function route({ again, y, quiet } = {}) {
    const asked = viewed();
    const { path, params } = asked;
    const address = path + location.search;
    if (!again && address === now.address && now.view?.onfragment) {
        now.view.onfragment(asked.rest);
        return;
    }
    now.controller?.abort();
    const controller = new AbortController();
    const fresh = now.address?.split("?")[0] !== path;
    now = { address, controller };
    performance.mark("view-asked");
    const loading = load(asked, controller.signal); /* it loads while the frame is built */
    showNav(path, params);
    if (!quiet) {
        const refocus = keepFocus();
        filters(document.getElementById("filters"), path, params);
        refocus();
    }
    const busy = setTimeout(() => progress.classList.add("busy"), SLOW_MS);
    try {
        const view = await loading;
        if (controller.signal.aborted) return;
        now.view = view;
        place(view, { fresh, y });
        performance.measure(`view ${path}`, "view-asked");
    } catch (error) {
        if (!controller.signal.aborted) failed(error);
    } finally {
        clearTimeout(busy);
        if (now.controller === controller) progress.classList.remove("busy");
    }
    live(params);
}

export function go(to) {
    history.replaceState({ y: scrollY }, "");
    history.pushState(null, "", to);
    route();
}

function onClick(event) {
    const link = event.target.closest?.("a[href]");
    if (
        !link ||
        event.defaultPrevented ||
        event.button ||
        event.metaKey ||
        event.ctrlKey ||
        event.shiftKey ||
        event.altKey
    )
        return;
    const url = new URL(link.href, location.href);
    if (
        url.origin !== location.origin ||
        link.hasAttribute("download") ||
        link.target ||
        !(isView(url.pathname) || url.pathname === "/") ||
        link.classList.contains("skip")
    )
        return;
    event.preventDefault();
    go(url.pathname + url.search + url.hash);
}

history.scrollRestoration = "manual";
document.addEventListener("click", onClick);
addEventListener("popstate", (event) => route({ y: event.state?.y }));
addEventListener("navigate-to", (event) => go(event.detail));
addEventListener("live", () => route({ again: true }));
document.getElementById("theme").addEventListener("click", nextTheme);
showTheme();
route().then(() => setTimeout(lookAtStatus, 300));
