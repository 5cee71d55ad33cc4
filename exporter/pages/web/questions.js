/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a view, which follow from its URL alone. So the first view's requests start as
 * soon as this file is loaded, while the page, its frame and the view's code still load.
 */
import { get, takeToken } from "./api.js";
import { FILTERS, SCOPE, change, earlier, fragment, hasBaseline, href, pick } from "./address.js";

const BUCKETS = 90; /* in a timeline */
const SIDES = [...FILTERS, ...FILTERS.map((key) => `base_${key}`)]; /* for a difference */

const QUESTIONS = {
    "/traces": (params) => [["/api/traces", pick(params, [...FILTERS, "order", "limit"])]],
    "/trace": (params) =>
        params.get("trace_id")
            ? [
                  ["/api/trace", pick(params, ["trace_id"])],
                  ["/api/flame", pick(params, params.get("span_id") ? SCOPE : ["trace_id"])],
              ]
            : [],
    "/functions": (params, rest) =>
        rest.get("by") === "spans"
            ? [["/api/spans", pick(params, FILTERS)]]
            : [["/api/functions", pick(params, [...FILTERS, "order", "limit", "frames"])]],
    "/flame": (params) => [["/api/flame", pick(params, [...FILTERS, "view", "frames"])]],
    "/timeline": (params) => [
        [
            "/api/timeline",
            change(pick(params, [...FILTERS, "by"]), {
                buckets: params.get("buckets") ?? BUCKETS,
            }),
        ],
    ],
    "/diff": (params) => [
        ["/api/diff", pick(params, [...SIDES, "view", "frames"])],
        ["/api/functions", pick(params, [...SIDES, "limit", "frames"])],
    ],
    "/status": () => [["/api/status"]],
};

export const isView = (path) => path in QUESTIONS;

/* Completes the URL: a difference without a baseline compares with the time range just before. */
function complete() {
    const path = isView(location.pathname) ? location.pathname : "/traces";
    const given = new URLSearchParams(location.search);
    const params =
        path === "/diff" && !hasBaseline(given)
            ? change(given, earlier(given, 0, Date.now()))
            : given;
    if (path !== location.pathname || params !== given)
        history.replaceState(history.state, "", href(path, params) + location.hash);
    return { path, params, rest: fragment() };
}

export const questionsOf = ({ path, params, rest }) => QUESTIONS[path](params, rest);

export function viewed() {
    const view = complete();
    return { ...view, questions: questionsOf(view) };
}

export const codeOf = (path) => import(`.${path}.js`);

/* ---- the first view's ---- */

const keyOf = (questions) => questions.map((each) => href(...each)).join(" ");
let early = null;

/* A promise of the answers, in the order of the questions. */
export function ask(questions, signal) {
    const asked = early;
    early = null;
    if (asked?.key === keyOf(questions)) return asked.answers;
    return Promise.all(questions.map(([path, query]) => get(path, query, signal)));
}

function askEarly() {
    const { path, questions } = viewed();
    const answers = ask(questions);
    answers.catch(() => {}); /* the caller of ask() gets the failure */
    codeOf(path).catch(() => {});
    early = { key: keyOf(questions), answers };
}
takeToken();
askEarly();
