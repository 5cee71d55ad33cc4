/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a store whose history is that of a busy node, 64 CPUs at 97 Hz, made up by history_load.h,
 * for a service to be started on: history_write DIRECTORY FROM TO, the times in Unix seconds.
 */
#include "base/clock.h"
#include "test/support/rigs/bench_rig.h"
#include "test/support/fixtures/history_load.h"
#include <stdio.h>
#include <stdlib.h>

static void fill(struct store *store, uint64_t from_unix_ns, uint64_t to_unix_ns)
{
    struct history_load load;
    must(history_load_open(store, &(struct history_load_settings){64, 97, 1}, &load), "load");
    for (uint64_t at_ns = from_unix_ns; at_ns < to_unix_ns; at_ns += HISTORY_LOAD_WINDOW_NS) {
        must(history_load_window(&load, at_ns + HISTORY_LOAD_WINDOW_NS), "window");
        must(store_maintain(store), "maintain");
    }
    fprintf(stderr, "%llu samples, %llu spans\n", (unsigned long long)load.n_samples,
            (unsigned long long)load.n_spans);
    history_load_close(&load);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "history_write DIRECTORY FROM TO\n");
        return 2;
    }
    struct store_settings settings = bench_history_settings(24 * 3600 * NS_PER_SEC);
    settings.db.directory = argv[1];
    struct store *store = bench_store_open(&settings);
    fill(store, strtoull(argv[2], NULL, 10) * NS_PER_SEC, strtoull(argv[3], NULL, 10) * NS_PER_SEC);
    store_close(store);
    return 0;
}
