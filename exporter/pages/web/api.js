/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the server. A failure is an Error whose message is a sentence for people. */
const WORDS = {
    401: "This spanprof requires a token. `spanprof pages` prints the address with it.",
    404: "This is not kept, or has expired.",
    414: "The filter is too long.",
    429: "Too many queries at once; try again in a moment.",
    503: "spanprof is busy; try again in a moment.",
};
export const GONE = "spanprof does not answer. Is it running?";
export const CHANGED = "spanprof does not answer, or has been replaced by another version.";
const TOKEN = "token";

function stored() {
    try {
        return sessionStorage.getItem(TOKEN);
    } catch {
        return null;
    }
}

export function setToken(token) {
    sessionStorage.setItem(TOKEN, token);
}

/* The address that `spanprof pages` prints ends with #token=...: it is kept for this tab, and goes
 * from the address bar. */
export function takeToken() {
    const given = new URLSearchParams(location.hash.slice(1));
    const token = given.get(TOKEN);
    if (!token) return;
    setToken(token);
    given.delete(TOKEN);
    const rest = given.toString();
    history.replaceState(
        history.state,
        "",
        location.pathname + location.search + (rest && `#${rest}`),
    );
}

function ask(url, signal) {
    const token = stored();
    return fetch(url, {
        signal,
        credentials: "omit",
        headers: token ? { authorization: `Bearer ${token}` } : {},
    });
}

async function words(response) {
    try {
        return (await response.json()).error;
    } catch {
        return null;
    }
}

async function answer(url, signal) {
    let response;
    try {
        response = await ask(url, signal);
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Error(GONE);
    }
    if (response.ok) return response;
    const said = response.status === 401 ? null : await words(response);
    const error = new Error(
        said ?? WORDS[response.status] ?? `spanprof answered ${response.status}.`,
    );
    error.status = response.status;
    throw error;
}

export async function get(path, params, signal) {
    const query = params?.toString();
    return (await answer(path + (query ? `?${query}` : ""), signal)).json();
}

/* A plain link is enough for a download, unless a token must be sent. */
export async function download(event) {
    if (!stored()) return;
    event.preventDefault();
    const link = event.currentTarget;
    const url = URL.createObjectURL(await (await answer(link.href)).blob());
    Object.assign(document.createElement("a"), { href: url, download: link.download }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}
