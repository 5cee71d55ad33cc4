/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Writes a finished flame graph: as JSON (docs/api.md) and in the formats for download. Pure;
 * thread: any. Outcomes: 0, BUF_FULL, -ENOMEM.
 */
#include "exporter/pages/flame.h"
#include "base/json_write.h"

/* Writes the members "strings", "frames" and "nodes" into the open JSON object. with_base: also the
 * baseline's. */
int flame_write_json(const struct flame *flame, bool with_base, struct json_writer *json);
/* One line per stack: frames root first, then the number of samples; with_base: the baseline's
 * samples, then the profile's. Source of the format: Brendan Gregg's FlameGraph and its
 * difffolded.pl. */
int flame_write_folded(const struct flame *flame, bool with_base, struct buf *out);
/* Source of the format: speedscope's file-format-schema.json, "sampled". */
int flame_write_speedscope(const struct flame *flame, const char *name, struct buf *out);

struct flame_picture {
    const char *title;    /* our own words */
    const char *subtitle; /* may hold foreign texts */
};

/* A self-contained SVG: no script, no style sheet, no external resource. Frames narrower than half
 * a pixel are left out. */
int flame_write_svg(const struct flame *flame, const struct flame_picture *picture,
                    struct buf *out);

/* The lengths of a difference's ranges. */
struct flame_ranges {
    uint64_t now_ns, base_ns;
};

/* Widths are those of `now`. Red: more CPU time per second than the baseline; blue: less. */
int flame_write_svg_difference(const struct flame *flame, const struct flame_picture *picture,
                               const struct flame_ranges *ranges, struct buf *out);

/* "kernel", "native", ... of a frame's type. */
const char *flame_type_name(unsigned type);
