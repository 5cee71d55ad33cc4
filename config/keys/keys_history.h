/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The keys of the history extension. Private to keys.c, whose AT() they use.
 */
#define HISTORY(field) AT(config_history, field)

/* clang-format off */
#define HISTORY_KEYS                                                                               \
    {CONFIG_EXTENSION_HISTORY, "retention", KEY_DURATION, HISTORY(retention_ns), .initial = "1h", .min = MINUTE, .max = 168 * HOUR, .help = "How long samples and spans are kept."},                                    \
    {CONFIG_EXTENSION_HISTORY, "max_size_mib", KEY_MIB, HISTORY(max_size_bytes), .initial = "256", .min = 4, .max = 524288, .help = "Their share of the store, in MiB; beyond it the oldest are removed, whatever their " "age. At most half of sqlite_storage::max_size_mib. They are also removed where waiting " "data needs the room."},                                                                      \
    {CONFIG_EXTENSION_HISTORY, "max_spans_per_second", KEY_COUNT, .flags = KEY_ZERO_ALLOWED, HISTORY(max_spans_per_second), .initial = "500", .min = 1, .max = 100000, .help = "Spans without samples to keep, so that traces can be shown whole: spans of traces with " "samples, slow spans, and spans of some traces chosen at random. Spans with samples are " "always kept."}
/* clang-format on */
