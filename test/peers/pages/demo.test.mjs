/* SPDX-License-Identifier: Apache-2.0 */
/* The pages, on what the demo's shop did: started by test_pages_browser.py. */
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { after, before, test } from "node:test";
import { figures } from "./figures.mjs";
import { BASE, browser, follow, query, rest, settled, visit } from "./visitor.mjs";

const VIEWS = [
    "/traces",
    "/functions",
    "/functions#by=spans",
    "/flame",
    "/flame?view=callers",
    "/timeline",
    "/timeline?by=span",
    "/diff",
    "/status",
];
const CULPRIT = "glyph_advance";
const SLOW_SPAN = "render receipt";
const CSP =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
    "form-action 'self'; frame-ancestors 'none'";
let opened;

before(async () => {
    opened = await browser();
});
after(() => opened.close());

/* ms, µs and s of a cell, in ms. */
function milliseconds(text) {
    const [, number, unit] = /([\d.,]+) (ns|µs|ms|s)/.exec(text) ?? [null, "0", "ms"];
    return Number(number.replace(/,/g, "")) * { ns: 1e-6, µs: 1e-3, ms: 1, s: 1000 }[unit];
}

async function withPage(path, run, options) {
    const { page, wrong, close } = await visit(opened, path, options);
    try {
        await run(page, wrong);
        assert.deepEqual(wrong, []);
    } finally {
        await close();
    }
}

for (const path of VIEWS)
    test(`${path} shows something, in light and dark, wide and narrow`, async () => {
        for (const [colorScheme, width] of [
            ["light", 1360],
            ["dark", 2200],
            ["dark", 390],
        ])
            await withPage(
                path,
                async (page) => {
                    assert.equal(
                        await page.locator(".note").count(),
                        0,
                        await page.locator("main").innerText(),
                    );
                    assert.ok((await page.locator("main table tbody tr, main canvas").count()) > 0);
                    const wide = await page.evaluate(
                        () => document.documentElement.scrollWidth - innerWidth,
                    );
                    assert.ok(wide <= 0, `${wide} px wider than the window`);
                },
                { colorScheme, viewport: { width, height: 860 } },
            );
    });

/* Knows no name of the shop: takes the first trace, its span with most CPU, the frame with most
 * time of its own. */
test("the culprit is found by following links", () =>
    withPage("/", async (page) => {
        await follow(page, page.locator("tbody tr a").first());
        assert.equal(new URL(page.url()).pathname, "/trace");
        const rows = page.locator(".waterfall [data-i]");
        const cpu = await rows.locator(".num:nth-of-type(4)").allInnerTexts();
        const busiest = cpu
            .map(milliseconds)
            .reduce((best, each, i, all) => (each > all[best] ? i : best), 0);
        await follow(page, rows.nth(busiest));
        assert.match(await page.locator(".heading.second h2").innerText(), new RegExp(SLOW_SPAN));
        await page.locator(".astable summary").click();
        await page.waitForSelector(".astable tbody tr");
        const own = await page.locator(".astable tbody tr td:nth-child(5)").allInnerTexts();
        const hottest = own
            .map(milliseconds)
            .reduce((best, each, i, all) => (each > all[best] ? i : best), 0);
        await follow(page, page.locator(".astable tbody tr").nth(hottest).locator("button"));
        const found = await page.locator(".framepanel strong").innerText();
        assert.equal(found, CULPRIT);
        await follow(page, page.getByRole("link", { name: "Who pays for it" }));
        assert.match(await page.locator("h1").innerText(), new RegExp(CULPRIT));
        assert.match(await page.locator("tbody tr").first().innerText(), new RegExp(SLOW_SPAN));
    }));

test("trace, span, flame graph, function, and back again", () =>
    withPage("/traces?order=cpu", async (page) => {
        const stations = [page.url()];
        const go = async (locator) => {
            await follow(page, locator);
            stations.push(page.url());
        };
        await go(page.locator("tbody tr a").first());
        await go(page.locator(".waterfall [data-i]", { hasText: SLOW_SPAN }).first());
        assert.ok(query(page).get("span_id"));
        await go(page.getByRole("link", { name: "Only itself" }));
        assert.equal(query(page).get("children"), "false");
        await go(page.getByRole("link", { name: "On a page of its own" }));
        assert.equal(new URL(page.url()).pathname, "/flame");
        await go(page.getByRole("link", { name: "Functions" }));
        assert.ok(query(page).get("trace_id"), "the functions of this trace");
        assert.match(await page.locator("tbody tr").first().innerText(), new RegExp(CULPRIT));
        await go(page.locator("tbody tr a").first());
        for (const url of stations.reverse().slice(1)) {
            await page.goBack();
            await settled(page);
            assert.equal(page.url(), url);
        }
        assert.ok((await page.locator("tbody tr").count()) > 1);
    }));

test("a flame graph is searched, walked and zoomed by pointer and keys", () =>
    withPage("/flame?service=shop", async (page) => {
        const canvas = page.locator(".flamebox canvas");
        await page.getByLabel("Search frames").fill("^glyph_|no such thing");
        await page.waitForFunction(() =>
            /match/.test(document.querySelector(".found").textContent),
        );
        const share = /([\d.]+) %/.exec(await page.locator(".found").innerText());
        assert.ok(Number(share[1]) > 20, share[0]);
        await page.getByLabel("Search frames").press("Enter");
        assert.equal(await page.locator(".framepanel strong").innerText(), CULPRIT);
        assert.match(await page.locator(".found").innerText(), /^1 of/);
        assert.equal(rest(page).get("search"), "^glyph_|no such thing");
        await canvas.focus();
        await page.keyboard.press("ArrowDown");
        await page.keyboard.press("ArrowDown");
        await page.keyboard.press("Enter");
        const at = rest(page).get("at");
        assert.ok(at, "zoomed");
        await page.waitForTimeout(300);
        await page.reload();
        await settled(page);
        assert.equal(rest(page).get("at"), at);
        assert.ok(
            await page.getByRole("button", { name: "Show everything" }).isEnabled(),
            "still zoomed",
        );
        await page.locator(".flamebox canvas").press("Escape");
        assert.equal(rest(page).get("at"), null);
        await page.goBack();
        await page.waitForFunction((id) => location.hash.includes(`at=${id}`), at);
        await page.keyboard.press("/");
        const box = await page.locator(".flamebox canvas").boundingBox();
        await page.mouse.move(box.x + box.width / 3, box.y + 30);
        assert.match(await page.locator(".tip").innerText(), /CPU time/);
    }));

test("a trace is walked by keys", () =>
    withPage("/traces", async (page) => {
        await follow(page, page.locator("tbody tr a").first());
        const rows = await page.locator(".waterfall [data-i]").count();
        await page.locator(".waterfall [data-i]").first().focus();
        await page.keyboard.press("ArrowLeft");
        assert.equal(await page.locator(".waterfall [data-i]").count(), 1, "folded");
        await page.keyboard.press("ArrowRight");
        assert.equal(await page.locator(".waterfall [data-i]").count(), rows);
        await page.keyboard.press("ArrowDown");
        const before_ = page.url();
        await page.keyboard.press("Enter");
        await page.waitForFunction((url) => location.href !== url, before_);
        await settled(page);
        assert.equal(await page.locator(".wrow.chosen").getAttribute("data-i"), "1");
    }));

test("filters: offered, added, removed; nothing found says what to do", () =>
    withPage("/traces", async (page) => {
        const all = await page.locator("tbody tr").count();
        await page.getByRole("combobox", { name: "Add a filter" }).fill("checkout");
        await page.waitForSelector(".offers li[aria-selected=true]");
        await page.keyboard.press("Enter");
        await settled(page);
        assert.equal(query(page).get("span"), "GET /checkout");
        assert.ok((await page.locator("tbody tr").count()) <= all);
        await page.getByRole("combobox", { name: "Add a filter" }).fill(">59m");
        await page.waitForSelector(".offers li[aria-selected=true]");
        await page.keyboard.press("Enter");
        await settled(page);
        assert.match(await page.locator(".note").innerText(), /No traces/);
        await follow(page, page.getByRole("link", { name: /^Remove filter: Longer/ }));
        assert.equal(query(page).get("min_duration"), null);
        assert.ok((await page.locator("tbody tr").count()) > 0);
        await page.getByRole("combobox", { name: "Add a filter" }).fill("http.route=/checkout");
        await page.waitForSelector(".offers li[aria-selected=true]");
        await page.keyboard.press("Enter");
        await settled(page);
        assert.deepEqual(query(page).getAll("attribute"), ["http.route=/checkout"]);
        assert.ok((await page.locator("tbody tr").count()) > 0);
    }));

test("live: what comes is shown, and focus stays", () =>
    withPage("/traces?order=latest", async (page) => {
        const first = () => page.locator("tbody tr a").first().getAttribute("href");
        const was = await first();
        await page.getByRole("button", { name: "Live" }).click();
        await page.waitForFunction(
            (href) => document.querySelector("tbody tr a")?.getAttribute("href") !== href,
            was,
            { timeout: 30000 },
        );
        assert.ok(await page.evaluate(() => document.activeElement.id === "live"));
    }));

test("live: a flame graph that was replaced listens to nothing", () =>
    withPage("/flame?from=-5m#live=1", async (page) => {
        const session = await page.context().newCDPSession(page);
        const listeners = async () => {
            const { result } = await session.send("Runtime.evaluate", { expression: "window" });
            const found = await session.send("DOMDebugger.getEventListeners", result);
            return found.listeners.filter((each) => each.type === "themechange").length;
        };
        for (let i = 0; i < 3; i++) {
            await page.evaluate(() => {
                document.querySelector(".flame").dataset.old = "1";
                dispatchEvent(new Event("live"));
            });
            await page.waitForSelector(".flame:not([data-old])");
        }
        assert.equal(await listeners(), 1);
        const painted = () =>
            page.evaluate(() => document.querySelector(".flamebox canvas").toDataURL());
        const light = await painted();
        await page.emulateMedia({ colorScheme: "dark" });
        await page.waitForTimeout(300);
        assert.notEqual(await painted(), light, "the one that is shown does");
    }));

test("the timeline is looked at closer by dragging", () =>
    withPage("/timeline?from=-5m", async (page) => {
        const box = await page.locator(".chart").boundingBox();
        await page.mouse.move(box.x + box.width * 0.5, box.y + 40);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.98, box.y + 60, { steps: 4 });
        await page.mouse.up();
        await settled(page);
        assert.ok(Number(query(page).get("to")) - Number(query(page).get("from")) < 160000);
        assert.ok((await page.locator("tbody tr").count()) > 0);
        await page.goBack();
        await settled(page);
        assert.equal(query(page).get("from"), "-5m");
    }));

test("a difference of two spans names what one has more", () =>
    withPage("/diff?from=-5m&span=render+receipt&base_span=rank+products", async (page) => {
        const rows = await page.locator("tbody tr").allInnerTexts();
        const row = rows.find((each) => each.includes(CULPRIT));
        assert.match(row, /new/);
        assert.match(row, /\+/);
        const gone = (all) => all.find((each) => each.includes("score")).split("\t");
        assert.equal(gone(rows)[1].trim(), "gone");
        assert.match(gone(rows).at(-1), /^−[\d.,]*[1-9]/, "saves USD");
        await follow(page, page.getByRole("link", { name: "Widths: before" }));
        await page.getByLabel("Search frames").fill("score");
        await page.waitForFunction(() =>
            /[1-9]\d* match/.test(document.querySelector(".found").textContent),
        );
        const figures = async () => {
            await page.getByLabel("Search frames").fill("score");
            await page.waitForFunction(() => document.querySelector(".found").textContent);
            await page.getByLabel("Search frames").press("Enter");
            return page.locator(".framepanel dl").innerText();
        };
        assert.match(await figures(), /in use[^]*cores/);
        await follow(page, page.getByRole("link", { name: "Share of CPU" }));
        assert.match(await figures(), /share\s[^]*→ 0\.00 %[^]*−[\d.]+ points/);
        const shares = await page.locator("tbody tr").allInnerTexts();
        assert.match(gone(shares).at(-1), /^−[\d.,]*[1-9]/, "saves USD by share too");
    }));

test("what has no name is no link to the sum of all that have one", () =>
    withPage("/functions?from=-5m#by=spans", async (page) => {
        const rows = page.locator("tbody tr", { hasText: "outside of spans" });
        assert.ok((await rows.count()) > 0);
        assert.equal(await rows.getByRole("link", { name: "flame" }).count(), 0);
        const named = page.locator("tbody tr", { hasText: SLOW_SPAN });
        assert.equal(await named.getByRole("link", { name: "flame" }).count(), 1);
    }));

test("the host is named, is a filter and a group", () =>
    withPage("/functions", async (page) => {
        await page.locator("#host").waitFor();
        assert.equal(await page.locator("#host").innerText(), hostname());
        await page.getByRole("combobox", { name: "Add a filter" }).fill("host=" + hostname());
        await page.waitForSelector(".offers li[aria-selected=true]");
        await page.keyboard.press("Enter");
        await settled(page);
        assert.equal(query(page).get("host"), hostname());
        assert.ok((await page.locator("tbody tr").count()) > 1);
        await page.goto(BASE + "/timeline?from=-5m&by=host");
        await settled(page);
        assert.deepEqual(
            (await page.locator("tbody tr").allInnerTexts()).map((row) => row.split("\t")[0].trim()),
            [hostname()],
        );
    }));

test("dark is chosen, and stays", () =>
    withPage("/traces", async (page) => {
        const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        const light = await ground();
        await page.locator("#theme").click();
        await page.locator("#theme").click();
        assert.equal(await page.locator("#theme").innerText(), "Dark");
        const dark = await ground();
        assert.notEqual(dark, light);
        await page.reload();
        await settled(page);
        assert.equal(await ground(), dark);
    }));

test("text can be read: contrast of 4.5 in light and dark", async () => {
    for (const colorScheme of ["light", "dark"])
        await withPage(
            "/traces",
            async (page) => {
                const ratios = await page.evaluate(() => {
                    const css = getComputedStyle(document.documentElement);
                    const light = (name) => {
                        const hex = css
                            .getPropertyValue(name)
                            .trim()
                            .slice(1)
                            .replace(/^(.)(.)(.)$/, "$1$1$2$2$3$3");
                        const [r, g, b] = [0, 2, 4]
                            .map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
                            .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
                        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
                    };
                    const pairs = [
                        "--ink",
                        "--muted",
                        "--accent",
                        "--bad",
                        "--good",
                        "--more",
                        "--less",
                    ].flatMap((text) => ["--ground", "--surface"].map((under) => [text, under]));
                    return pairs.map(([a, b]) => {
                        const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
                        return [`${a} on ${b}`, (high + 0.05) / (low + 0.05)];
                    });
                });
                ratios.forEach(([what, ratio]) =>
                    assert.ok(ratio >= 4.5, `${colorScheme}: ${what}: ${ratio.toFixed(2)}`),
                );
            },
            { colorScheme },
        );
});

test("everything that can be used has a name", async () => {
    for (const path of VIEWS)
        await withPage(path, async (page) => {
            const nameless = await page.evaluate(() =>
                [...document.querySelectorAll("a[href], button, input, select, canvas[tabindex]")]
                    .filter(
                        (each) =>
                            each.checkVisibility() &&
                            !(
                                each.getAttribute("aria-label") ||
                                each.innerText?.trim() ||
                                each.labels?.length
                            ),
                    )
                    .map((each) => each.outerHTML.slice(0, 200)),
            );
            assert.deepEqual(nameless, []);
        });
});

test("the policy of the pages is in force", async () => {
    const answer = await fetch(`${BASE}/traces`);
    assert.equal(answer.headers.get("content-security-policy"), CSP);
    const { page, wrong, close } = await visit(opened, "/traces");
    await page.evaluate(() => {
        const script = document.createElement("script");
        script.textContent = "window.taken = true";
        document.body.append(script);
        const box = document.createElement("div");
        box.innerHTML = "<img src=x onerror='window.taken = true'><p style='color: red'>";
        document.body.append(box);
    });
    await page.waitForTimeout(300);
    assert.equal(await page.evaluate(() => window.taken), undefined);
    assert.ok(wrong.some((each) => /Content Security Policy/.test(each)));
    await close();
});

test("every view has its JSON, and the stacks of its filters in each form", async () => {
    const [{ trace_id }] = (await (await fetch(`${BASE}/api/traces?order=cpu`)).json()).traces;
    const views = ["/traces", "/functions", "/functions#by=spans", "/flame", "/timeline", "/diff"];
    const address = (path) => path.replace(/(#|$)/, "?from=-5m&service=shop&base_span=$1");
    for (const path of [...views.map(address), `/trace?trace_id=${trace_id}`, "/status"])
        await withPage(path, async (page) => {
            const links = await page
                .locator(".downloads a")
                .evaluateAll((all) => all.map((each) => [each.textContent, each.href]));
            const asked = await page.evaluate(() =>
                performance.getEntriesByType("resource").map((each) => each.name),
            );
            const jsons = links.filter(([label]) => label.startsWith("JSON"));
            assert.ok(jsons.length, path);
            jsons.forEach(([, url]) => assert.ok(asked.includes(url), `${url} of ${path}`));
            const forms = path === "/status" ? [] : ["SVG", "Folded", "Speedscope", "pprof"];
            forms.forEach((form) => {
                const [, url] = links.find(([label]) => label === form) ?? [];
                const filters = new URL(url).searchParams;
                assert.equal(filters.get("service"), path.startsWith("/trace?t") ? null : "shop");
                assert.equal(filters.get("trace_id"), query(page).get("trace_id"));
            });
            for (const [label, url] of links)
                assert.equal((await fetch(url)).status, 200, `${label} of ${path}: ${url}`);
        });
});

test("what is taken away comes", () =>
    withPage("/flame?span=render+receipt", async (page) => {
        const links = page.locator(".downloads a");
        for (let i = 0; i < (await links.count()); i++) {
            const [download] = await Promise.all([
                page.waitForEvent("download"),
                links.nth(i).click(),
            ]);
            assert.equal(await download.failure(), null, await links.nth(i).innerText());
        }
    }));

test("figures", async () => {
    const marks = await figures(opened, [
        "/traces",
        "/functions",
        "/flame",
        "/timeline",
        "/diff",
        "/status",
    ]);
    console.log(
        "# view         first paint   view shown after asked   slowest answer   transferred (with data)",
    );
    marks.forEach(({ path, paint, asked, shown, answer, bytes }) =>
        console.log(
            `# ${path.padEnd(12)} ${paint.toFixed(0).padStart(8)} ms ${(shown - asked)
                .toFixed(0)
                .padStart(
                    16,
                )} ms ${answer.toFixed(0).padStart(20)} ms ${(bytes / 1024).toFixed(1).padStart(15)} KiB`,
        ),
    );
    const total = await wholeWeight();
    console.log(`# all files of the pages: ${(total / 1024).toFixed(1)} KiB compressed`);
    assert.ok(total < 60 * 1024);
    marks.forEach(({ path, paint }) =>
        assert.ok(paint < 2000, `${path}: first paint after ${paint} ms`),
    );
});

test("20,000 frames are drawn while they move", () =>
    withPage("/traces", async (page) => {
        const [layout, drawing] = await page.evaluate(async () => {
            const { href } = document.querySelector("link[rel=stylesheet]");
            const { tree } = await import(new URL("flametree.js", href));
            const { Painter } = await import(new URL("flamedraw.js", href));
            const n = 20000;
            const nodes = {
                parent: [],
                frame: [],
                self_ns: [],
                total_ns: new Array(n).fill(0),
                samples: [],
            };
            const strings = [
                "",
                ...Array.from({ length: 900 }, (_, i) => `module::function_number_${i}`),
            ];
            const frames = strings
                .slice(1)
                .map((_, i) => ({ function: i + 1, file: 0, line: 0, module: 0, type: "native" }));
            for (let i = 0, path = [-1]; i < n; i++) {
                path.length = Math.min(path.length, 1 + ((i * 7919) % 60));
                nodes.parent.push(path[path.length - 1]);
                nodes.frame.push((i * 31) % 900);
                nodes.self_ns.push(1 + ((i * 17) % 50));
                path.push(i);
            }
            for (let i = n - 1; i >= 0; i--) {
                nodes.total_ns[i] += nodes.self_ns[i];
                if (nodes.parent[i] >= 0) nodes.total_ns[nodes.parent[i]] += nodes.total_ns[i];
            }
            nodes.samples = nodes.self_ns;
            const start = performance.now();
            const made = tree({ strings, frames, nodes });
            const layout = performance.now() - start;
            const painter = new Painter(document.createElement("canvas"), made, { colour: "type" });
            painter.resize(1320, 700);
            const at = performance.now();
            for (let i = 0; i < 40; i++)
                painter.paint({ x0: 0, x1: made.all / (1 + i), top: 10 * i }, {});
            painter.context.getImageData(0, 0, 1, 1); /* waits until all is drawn */
            return [layout, (performance.now() - at) / 40];
        });
        console.log(
            `# 20,000 frames: laid out in ${layout.toFixed(1)} ms, drawn in ${drawing.toFixed(1)} ms a picture`,
        );
        assert.ok(drawing < 100);
    }));

/* For the manual: PAGES_IMAGES names their folder. */
test("pictures", { skip: !process.env.PAGES_IMAGES }, () =>
    withPage(
        "/traces?order=cpu",
        async (page) => {
            await follow(page, page.locator("tbody tr a").first());
            await page.screenshot({ path: `${process.env.PAGES_IMAGES}/trace.png` });
            await page.setViewportSize({ width: 1200, height: 600 });
            await page.goto(`${BASE}/flame?service=shop`);
            await settled(page);
            await page.screenshot({ path: `${process.env.PAGES_IMAGES}/flame.png` });
        },
        { viewport: { width: 1200, height: 760 } },
    ),
);

/* index.html and whatever it leads to, as it is sent. */
async function wholeWeight() {
    const [folder] = /\/assets\/[0-9a-f]+\//.exec(await (await fetch(`${BASE}/traces`)).text());
    const code = VIEWS.map((view) => /^.([a-z]+)/.exec(view)[1]);
    const todo = ["/traces", ...["trace", ...code].map((name) => `${folder}${name}.js`)];
    const seen = new Set();
    let bytes = 0;
    while (todo.length) {
        const path = todo.pop();
        if (seen.has(path)) continue;
        seen.add(path);
        const answer = await fetch(BASE + path, { headers: { "accept-encoding": "gzip" } });
        assert.equal(answer.status, 200, path);
        bytes += Number(answer.headers.get("content-length"));
        assert.equal(answer.headers.get("content-encoding"), "gzip", path);
        const text = await answer.text();
        for (const [, name] of text.matchAll(/["'`](?:\/assets\/[0-9a-f]+|\.)\/([a-z]+\.(?:js|css|svg))/g))
            todo.push(folder + name);
    }
    return bytes;
}
