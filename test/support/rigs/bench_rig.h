/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What benches of the store share: a store in a directory that is gone afterwards. What fails ends
 * the program. Thread: one.
 */
#include "store/store.h"

void must(int error, const char *what); /* negative: said, and the end */

/* Makes the directory, and returns its path. */
const char *bench_directory(void);
void bench_directory_remove(void); /* with the files in it */

/* In that directory, with one destination and without history. */
struct store_settings bench_store_settings(void);
/* With a history of so long that is never too large, and little room for anything else. */
struct store_settings bench_history_settings(uint64_t retention_ns);
struct store *bench_store_open(const struct store_settings *settings);
