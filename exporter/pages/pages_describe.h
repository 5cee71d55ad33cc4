/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Describes in one line what a picture shows: a saved picture is seen without its URL. Pure;
 * thread: any. Outcomes: 0, BUF_FULL, -ENOMEM.
 */
#include "base/buf.h"
#include "store/query/history_reader.h"

/* "1.200 s of CPU time, 37 samples, 2026-11-22 12:00:00 to 12:15:00 UTC, service shop". May hold
 * foreign texts. */
int pages_describe(const struct history_filter *filter, const struct history_profile *profile,
                   struct buf *text);
