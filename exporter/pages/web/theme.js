/* SPDX-License-Identifier: Apache-2.0 */
/* Before the first paint, so that it does not flash: "light" or "dark" if chosen, else as the
 * system has it. */
try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
    /* no storage, no choice */
}
