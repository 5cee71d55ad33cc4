/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The keys of the history extension. Private to keys.c, whose AT() they use.
 */
#define HISTORY(field) AT(config_history, field)

/* clang-format off */
#define HISTORY_KEYS                                                                               \
    {CONFIG_EXTENSION_HISTORY, "retention", KEY_DURATION, 0, HISTORY(retention_ns), "1h", MINUTE,  \
     168 * HOUR, NULL, "How long samples and spans are kept."},                                    \
    {CONFIG_EXTENSION_HISTORY, "max_size_mib", KEY_MIB, 0, HISTORY(max_size_bytes), "256", 4,      \
     524288, NULL,                                                                                 \
     "Their share of the store, in MiB; beyond it the oldest are removed, whatever their "         \
     "age. At most half of sqlite_storage::max_size_mib. They are also removed where waiting "     \
     "data needs the room."},                                                                      \
    {CONFIG_EXTENSION_HISTORY, "max_spans_per_second", KEY_COUNT, KEY_ZERO_ALLOWED,                \
     HISTORY(max_spans_per_second), "500", 1, 100000, NULL,                                        \
     "Spans without samples to keep, so that traces can be shown whole: spans of traces with "     \
     "samples, slow spans, and spans of some traces chosen at random. Spans with samples are "     \
     "always kept."}
/* clang-format on */
