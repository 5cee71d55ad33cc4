/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a view asks the server, which its address alone tells. So the first view's questions are
 * asked as soon as this file is there, while the page, its frame and the view's own code still come.
 */
import { get } from "./api.js";
import { FILTERS, SCOPE, change, earlier, fragment, hasBaseline, href, pick } from "./address.js";

const BUCKETS = 90; /* of a timeline */
const SIDES = [...FILTERS, ...FILTERS.map((key) => `base_${key}`)]; /* of a difference */

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
            : [["/api/functions", pick(params, [...FILTERS, "order", "limit"])]],
    "/flame": (params) => [["/api/flame", pick(params, [...FILTERS, "view"])]],
    "/timeline": (params) => [
        [
            "/api/timeline",
            change(pick(params, [...FILTERS, "by"]), {
                buckets: params.get("buckets") ?? BUCKETS,
            }),
        ],
    ],
    "/diff": (params) => [
        ["/api/diff", pick(params, [...SIDES, "view"])],
        ["/api/functions", pick(params, [...SIDES, "limit"])],
    ],
    "/status": () => [["/api/status"]],
};

export const isView = (path) => path in QUESTIONS;

/* The view that is meant, in full: a difference without a baseline is to the stretch just before. */
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
    answers.catch(() => {}); /* told to who asks for it */
    codeOf(path).catch(() => {});
    early = { key: keyOf(questions), answers };
}
askEarly();
