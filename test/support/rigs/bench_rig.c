/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/rigs/bench_rig.h"
#include "base/clock.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[] = "/tmp/spanprof-bench-XXXXXX";
static const char *const destinations[] = {"backend"};
static const char *const span_attributes[] = {"http.route", NULL};

void must(int error, const char *what)
{
    if (error >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(-error));
    exit(1);
}

const char *bench_directory(void)
{
    memset(directory + sizeof(directory) - sizeof("XXXXXX"), 'X', 6); /* once more */
    must(mkdtemp(directory) ? 0 : -errno, directory);
    return directory;
}

void bench_directory_remove(void)
{
    struct dirent **entries;
    char path[512];
    int n = scandir(directory, &entries, NULL, NULL);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            unlink(path);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    rmdir(directory);
}

struct store_settings bench_store_settings(void)
{
    return (struct store_settings){
        .db = {.directory = directory},
        .join = {.wait_ns = 60 * NS_PER_SEC,
                 .span_totals_ttl_ns = 3600 * NS_PER_SEC,
                 .max_pending_bytes = 1 << 30,
                 .max_span_totals_bytes = 1 << 30,
                 .max_recent_spans = 16384,
                 .max_recent_bytes = 32 << 20,
                 .top_stacks = 5,
                 .span_attributes = span_attributes},
        .destinations = destinations,
        .n_destinations = 1,
    };
}

struct store_settings bench_history_settings(uint64_t retention_ns)
{
    struct store_settings settings = bench_store_settings();
    settings.join.max_pending_bytes = 1 << 20;
    settings.join.max_span_totals_bytes = 1 << 20;
    settings.join.max_recent_spans = 16;
    settings.join.top_stacks = 0;
    settings.history.enabled = true;
    settings.history.retention_ns = retention_ns;
    settings.history.max_size_bytes = UINT64_C(8) << 30;
    settings.history.max_spans_per_second = 500;
    settings.history.span_attributes = span_attributes;
    return settings;
}

struct store *bench_store_open(const struct store_settings *settings)
{
    struct store *store;
    must(store_open(settings, &store), "store_open");
    return store;
}
