/* SPDX-License-Identifier: Apache-2.0 */
/* A browser that notes what goes wrong in a page: errors, refused scripts, dialogs. */
import { createRequire } from "node:module";

const require = createRequire(`${process.env.PAGES_MODULES}/`);
const { chromium } = require("playwright-core");
const FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
export const BASE = process.env.PAGES_BASE;

export const browser = () =>
    chromium.launch({ executablePath: process.env.PAGES_CHROMIUM, args: FLAGS });

/* A page of its own; wrong: what it complained of. */
export async function visit(opened, path, options = {}) {
    const context = await opened.newContext({ viewport: { width: 1360, height: 860 }, ...options });
    const page = await context.newPage();
    const wrong = [];
    page.on(
        "console",
        (message) => ["error", "warning"].includes(message.type()) && wrong.push(message.text()),
    );
    page.on("pageerror", (error) => wrong.push(error.stack));
    page.on("dialog", (dialog) => {
        wrong.push(`dialog: ${dialog.message()}`);
        dialog.dismiss();
    });
    page.on(
        "requestfailed",
        (request) =>
            request.failure().errorText !== "net::ERR_ABORTED" &&
            wrong.push(`failed: ${request.url()}`),
    );
    await page.goto(BASE + path);
    await settled(page);
    return { page, wrong, close: () => context.close() };
}

/* Until the view there is belongs to the address. */
export async function settled(page) {
    await page.waitForSelector("main h1, main .note");
    await page.waitForFunction(() => !document.querySelector("#progress.busy"));
    await page.waitForTimeout(250);
}

/* Follows a link or button, and waits for what comes of it. */
export async function follow(page, locator) {
    const before = page.url();
    await locator.click();
    await page.waitForFunction((url) => location.href !== url, before);
    await settled(page);
}

export const query = (page) => new URL(page.url()).searchParams;
export const rest = (page) => new URLSearchParams(new URL(page.url()).hash.slice(1));
