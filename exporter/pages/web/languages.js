/* SPDX-License-Identifier: Apache-2.0 */
/* Which frames are shown: all, or those of one language; the parameter `frames`. */
import { change, href } from "./address.js";
import { choice } from "./dom.js";
import { TYPES } from "./flamedraw.js";

/* types: of the answer: those that there are. */
export function languages({ path, params, rest }, types) {
    const chosen = params.get("frames") ?? "";
    const there = Object.keys(TYPES).filter(
        (type) => type !== "truncated" && (types.includes(type) || type === chosen),
    );
    if (there.length < 2 && !chosen) return null;
    return choice(
        "Frames",
        [["", "all frames"], ...there.map((type) => [type, TYPES[type][0]])],
        chosen,
        (value) => href(path, change(params, { frames: value }), change(rest, { at: null })),
    );
}
