/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A finished flame graph in the forms that people take away, and as docs/api.md has it in JSON.
 * Pure; thread: any. Outcomes: 0, BUF_FULL, -ENOMEM.
 */
#include "exporter/pages/flame.h"
#include "base/json_write.h"

/* The members "strings", "frames" and "nodes" of the object that is open. with_base: also those of
 * the baseline. */
int flame_write_json(const struct flame *flame, bool with_base, struct json_writer *json);
/* A line a stack, root first, with its samples; with_base: those of the baseline, then its own.
 * Source of the forms: Brendan Gregg's FlameGraph, and difffolded.pl there. */
int flame_write_folded(const struct flame *flame, bool with_base, struct buf *out);
/* Source of the form: speedscope's file-format-schema.json, "sampled". */
int flame_write_speedscope(const struct flame *flame, const char *name, struct buf *out);

struct flame_picture {
    const char *title;    /* our own words */
    const char *subtitle; /* may hold foreign texts */
};

/* An SVG by itself: no script, no style sheet, nothing from elsewhere. Frames narrower than half a
 * pixel are left out. */
int flame_write_svg(const struct flame *flame, const struct flame_picture *picture,
                    struct buf *out);

/* The lengths of a difference's ranges. */
struct flame_ranges {
    uint64_t now_ns, base_ns;
};

/* As wide as now; red is what has more CPU time a second than the baseline, blue what has less. */
int flame_write_svg_difference(const struct flame *flame, const struct flame_picture *picture,
                               const struct flame_ranges *ranges, struct buf *out);

/* "kernel", "native", ... of a frame's type. */
const char *flame_type_name(unsigned type);
