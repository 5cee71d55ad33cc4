/* SPDX-License-Identifier: Apache-2.0 */
/* Runs before the first paint, to avoid a flash: "light" or "dark" if chosen, else the system's
 * theme. */
try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
    /* no storage, no choice */
}
