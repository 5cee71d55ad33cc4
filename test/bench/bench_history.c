/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the history costs: an hour of 64 busy CPUs at 97 Hz (seconds: the argument), made up by
 * test/support/fixtures/history_load.h, into a real store, then that hour expiring while the next
 * is written. A line a figure: `name value unit`.
 */
#include "base/clock.h"
#include "store/history/history_block.h"
#include "store/db/id_set.h"
#include "test/support/rigs/bench_rig.h"
#include "test/support/fixtures/history_load.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define T0 UINT64_C(1795284000000000000)

static void print(const char *name, double value, const char *unit)
{
    printf("%s %.2f %s\n", name, value, unit);
    fflush(stdout);
}

static struct store *open_store(uint64_t retention_ns)
{
    const struct store_settings settings = bench_history_settings(retention_ns);
    return bench_store_open(&settings);
}

static double sum(struct store *store, const char *sql)
{
    sqlite3_stmt *row;
    must(db_prepare(store_db(store), sql, &row), sql);
    must(db_step(store_db(store), row), sql);
    double result = sqlite3_column_double(row, 0);
    db_unprepare(store_db(store), &row);
    return result;
}

static void print_sizes(struct store *store, const struct history_load *load)
{
    double samples = (double)load->n_samples;
    double parts[HISTORY_PARTS], all = 0;
    for (int i = 0; i < HISTORY_PARTS; i++) {
        char sql[128];
        snprintf(sql, sizeof(sql), "SELECT sum(length(body)) FROM history_part WHERE id %% %d = %d",
                 HISTORY_PARTS, i);
        parts[i] = sum(store, sql);
        all += parts[i];
    }
    double spans = sum(store, "SELECT sum(spans) FROM history_block");
    double minutes = sum(store, "SELECT sum(length(body)) FROM history_minute_entries") +
                     sum(store, "SELECT sum(length(body)) FROM history_minute_stacks");
    print("history_samples", samples, "samples");
    print("history_spans_came", (double)load->n_spans, "spans");
    print("history_spans_kept", spans, "spans");
    print("history_bytes_per_sample", parts[HISTORY_PART_SAMPLES] / samples, "bytes");
    print("history_bytes_per_span", parts[HISTORY_PART_SPANS] / spans, "bytes");
    print("history_bytes_traces_index", parts[HISTORY_PART_TRACES] / spans, "bytes/span");
    print("history_bytes_busiest", parts[HISTORY_PART_BUSIEST] / spans, "bytes/span");
    print("history_bytes_minutes", minutes / samples, "bytes/sample");
    print("history_bytes_all_per_sample", (all + minutes) / samples, "bytes");
    print("history_mib", (all + minutes) / (1 << 20), "MiB");
    print("history_series", sum(store, "SELECT count(*) FROM history_series"), "series");
    print("history_stacks", sum(store, "SELECT count(*) FROM stack"), "stacks");
    print("history_database_mib", (double)db_size_bytes(store_db(store)) / (1 << 20), "MiB");
}

static void print_times(const struct history_load *load, const struct history_load *dry,
                        unsigned windows)
{
    double made_up_ns = (double)dry->came_ns / (double)dry->n_samples;
    double came_ns = (double)load->came_ns / (double)load->n_samples - made_up_ns;
    double flush_ns = (double)load->flush_ns / (double)load->n_samples;
    print("history_spans_per_sample", (double)load->n_spans / (double)load->n_samples, "spans");
    print("history_ns_per_sample", came_ns + flush_ns, "ns (CPU, with its spans)");
    print("history_ns_per_sample_written", flush_ns, "ns (CPU, with its spans)");
    print("history_flush_ms", (double)load->flush_ns / windows / 1e6, "ms (CPU)");
    print("history_flush_longest_ms", (double)load->longest_flush_ns / 1e6, "ms");
}

/* Spans without samples, nearly all of which are passed over. */
static void bench_spans(struct store *store)
{
    enum { N = 5000000 };
    uint8_t ids[2][16] = {{1}, {1}};
    struct otlp_span span = {.trace_id = BYTES(ids[0], 16),
                             .span_id = BYTES(ids[1], 8),
                             .name = BYTES_LIT("GET /"),
                             .start_unix_ns = T0,
                             .end_unix_ns = T0 + 1000000};
    must(store_begin(store), "begin");
    for (int i = 0; i < 5; i++) { /* to know the rate */
        for (int k = 0; k < 100000; k++) {
            memcpy(ids[0] + 8, &k, sizeof(k));
            must(history_span(store_history(store), 0, &span, NULL), "span");
        }
        must(history_expire(store_history(store), T0), "tick");
    }
    clock_t began = clock();
    for (int i = 0; i < N; i++) {
        uint64_t mixed = (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(ids[0], &mixed, sizeof(mixed));
        span.end_unix_ns = T0 + 1000000 + mixed % 100000;
        must(history_span(store_history(store), 0, &span, NULL), "span");
    }
    print("history_ns_per_span_passed_over",
          (double)(clock() - began) * 1e9 / CLOCKS_PER_SEC / (double)N, "ns (CPU)");
    must(db_rollback(store_db(store)), "rollback");
}

static double tidy(struct store *store, uint64_t now_unix_ns)
{
    uint64_t began_ns = clock_monotonic_ns();
    must(store_begin(store), "begin");
    must(store_collect(store, now_unix_ns), "collect");
    must(store_end(store), "end");
    return (double)(clock_monotonic_ns() - began_ns) / 1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The hour expires, second by second, as the writer would do it. */
static void bench_expiry(struct store *store, uint64_t from_unix_ns, unsigned seconds)
{
    double *took = calloc(seconds, sizeof(*took));
    for (unsigned i = 0; i < seconds; i++) {
        took[i] = tidy(store, from_unix_ns + (i + 1) * NS_PER_SEC);
        must(store_maintain(store), "maintain");
    }
    qsort(took, seconds, sizeof(*took), compare);
    print("history_expire_p50_ms", took[seconds / 2], "ms");
    print("history_expire_p99_ms", took[seconds * 99 / 100], "ms");
    print("history_expire_max_ms", took[seconds - 1], "ms");
    print("history_blocks_left", sum(store, "SELECT count(*) FROM history_block"), "blocks");
    free(took);
}

static void bench_references(struct store *store)
{
    struct id_set stacks = {0};
    uint64_t began_ns = clock_monotonic_ns();
    must(history_references(store_history(store), &stacks), "references");
    id_set_seal(&stacks);
    print("history_references_ms", (double)(clock_monotonic_ns() - began_ns) / 1e6, "ms");
    print("history_references", (double)stacks.count, "stacks");
    id_set_close(&stacks);
}

static void bench_open(struct store **store, uint64_t retention_ns)
{
    store_close(*store);
    uint64_t began_ns = clock_monotonic_ns();
    *store = open_store(retention_ns);
    print("history_open_ms", (double)(clock_monotonic_ns() - began_ns) / 1e6, "ms");
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 3600;
    unsigned windows = seconds / 5;
    uint64_t retention_ns = seconds * NS_PER_SEC, now = T0;
    struct history_load load, dry;
    if (!windows)
        return 1;
    bench_directory();
    struct store *store = open_store(retention_ns);
    must(history_load_open(
             store, &(struct history_load_settings){.cpus = 64, .hertz = 97, .seed = 1}, &load),
         "load");
    for (unsigned i = 0; i < windows; i++, now += HISTORY_LOAD_WINDOW_NS) {
        must(history_load_window(&load, now), "window");
        for (unsigned k = 0; k < 5; k++)
            tidy(store, now);
        must(store_maintain(store), "maintain");
    }
    dry = load;
    dry.dry = true;
    dry.came_ns = dry.n_samples = 0;
    for (unsigned i = 0; i < 10; i++)
        must(history_load_window(&dry, now), "dry");
    print_sizes(store, &load);
    print_times(&load, &dry, windows);
    bench_references(store);
    bench_open(&store, retention_ns);
    bench_expiry(store, now, seconds);
    bench_spans(store);
    history_load_close(&load);
    store_close(store);
    bench_directory_remove();
    return 0;
}
