/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The parameters of a page or of its JSON, as docs/api.md has them. Pure; thread: any.
 * Limits: PAGES_PARAMETERS_MAX of them, PAGES_VALUE_MAX bytes each.
 */
#include "base/arena.h"
#include "exporter/pages/flame.h"
#include "store/query/history_reader.h"

#define PAGES_PARAMETERS_MAX 64
#define PAGES_VALUE_MAX      16384

struct pages_parameter { /* decoded */
    struct bytes name, value;
};

/* The parameters that a route accepts. Every route accepts filters, too. */
enum pages_takes {
    PAGES_TAKES_BASE = 1 << 0, /* filters with the prefix base_ */
    PAGES_TAKES_TRACE_ORDER = 1 << 1,
    PAGES_TAKES_FUNCTION_ORDER = 1 << 2,
    PAGES_TAKES_LIMIT = 1 << 3,
    PAGES_TAKES_VIEW = 1 << 4,
    PAGES_TAKES_BUCKETS = 1 << 5, /* and by */
    PAGES_TAKES_OF = 1 << 6,
    PAGES_TAKES_SECONDS = 1 << 7,
    PAGES_TAKES_SINCE = 1 << 8,
    PAGES_NEEDS_TRACE = 1 << 9, /* trace_id is mandatory */
    PAGES_TAKES_NOTHING = 1 << 10,
    PAGES_TAKES_FRAMES = 1 << 11,
};

struct pages_query {
    struct history_filter filter;
    struct history_filter base; /* defaults: those of filter */
    bool has_base;              /* a base_ parameter is given */
    bool has_range;             /* from or to is given */
    bool by_total;              /* order of functions */
    bool has_seconds, has_since, has_frames;
    enum history_frame_type frames; /* with has_frames: only these are shown */
    enum history_order order;
    enum flame_view view;
    enum history_group by;
    enum history_text of;
    size_t limit, n_buckets; /* 0: not given */
    uint32_t seconds;
    uint64_t since;
};

/* Texts are copied into the arena. 0, -ENOMEM, or -EINVAL with a sentence in problem. */
int pages_query_read(const struct pages_parameter *parameters, size_t n, unsigned takes,
                     uint64_t now_unix_ns, struct arena *arena, struct pages_query *query,
                     char problem[256]);
