/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the store, each a line `name value unit`. The database is in a temporary directory. */
#include "base/clock.h"
#include "test/support/rigs/bench_rig.h"
#include <stdio.h>
#include <stdlib.h>

#define T0      UINT64_C(1700000000000000000)
#define N_SPANS 200000u
#define BATCH   100u /* samples a drain */
#define DEPTH   32u  /* frames a stack */

static const struct peer forwarder = {.is_forwarder = true};

static void print(const char *name, double value, const char *unit)
{
    printf("%s %.1f %s\n", name, value, unit);
}

static void ids(unsigned n, uint8_t trace_id[16], uint8_t span_id[8])
{
    uint64_t mixed = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    memset(trace_id, 0, 16);
    memcpy(trace_id, &mixed, 8);
    memcpy(trace_id + 8, &n, 4);
    memcpy(span_id, &mixed, 8);
}

static int64_t intern(struct store *store, unsigned n)
{
    struct frame frames[DEPTH];
    uint8_t identity[16] = {7};
    int64_t executable, stack;
    bool is_new;
    must(stacks_executable(store_stacks(store), identity, &executable), "executable");
    for (unsigned i = 0; i < DEPTH; i++)
        frames[i] =
            (struct frame){STACK_FRAME_NATIVE, executable, 0x1000 + i * 4096 + n % (i + 1) * 16};
    frames[0].address += n * 8;
    must(stacks_intern(store_stacks(store), frames, DEPTH, &stack, &is_new), "intern");
    return stack;
}

static int64_t put_process(struct store *store)
{
    struct process_facts facts = {.start_ns = 1,
                                  .pid = 4242,
                                  .own_pid = 1,
                                  .executable_name = BYTES_LIT("shop"),
                                  .executable_path = BYTES_LIT("/usr/bin/shop")};
    int64_t id;
    must(processes_put(store_processes(store), &facts, &id), "process");
    return id;
}

static double per_ns(uint64_t began_ns, unsigned n)
{
    return (double)(clock_monotonic_ns() - began_ns) / n;
}

static void bench_intern(struct store *store)
{
    enum { N_STACKS = 1000, ROUNDS = 200 };
    must(store_begin(store), "begin");
    for (unsigned i = 0; i < N_STACKS; i++)
        intern(store, i);
    uint64_t began_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < N_STACKS * ROUNDS; i++)
        intern(store, i % N_STACKS);
    print("stacks_intern_ns", per_ns(began_ns, N_STACKS * ROUNDS), "ns");
    must(store_end(store), "end");
}

/* Samples of the spans from first on, one each, every `step`-th; in batches of a transaction each.
 */
static unsigned add_samples(struct store *store, unsigned first, unsigned n, unsigned step)
{
    static const char *const threads[] = {"worker-1", "worker-2", "io", "main"};
    unsigned added = 0;
    for (unsigned at = first; at < first + n;) {
        must(store_begin(store), "begin");
        int64_t process = put_process(store);
        join_batch_begin(store_join(store));
        for (unsigned i = 0; i < BATCH && at < first + n; i++, at += step, added++) {
            struct sample sample = {
                .time_unix_ns = T0 + added * UINT64_C(100000),
                .value_ns = 10309278,
                .period_ns = 10309278,
                .stack = intern(store, at % 1000),
                .process = process,
                .cpu = at % 8,
                .tid = 1000 + at / 16 % 4,
                .kind = SAMPLE_CPU,
                .context_source = 1,
                .trace_flags = 1,
            };
            snprintf(sample.comm, sizeof(sample.comm), "%s", threads[at / 16 % 4]);
            ids(at, sample.trace_id, sample.span_id);
            must(join_add_sample(store_join(store), &sample), "add");
        }
        must(join_batch_commit(store_join(store)), "commit batch");
        must(store_end(store), "end");
    }
    return added;
}

static void bench_spans(struct store *store, unsigned first, unsigned percent)
{
    static const char resource_text[] = "shop";
    struct buf resource = {0}, raw = {0};
    uint8_t trace_id[16], span_id[8];
    char name[64];
    unsigned matched = 0, n = percent == 100 ? N_SPANS / 10 : N_SPANS;
    if (percent)
        add_samples(store, first, n, 100 / percent);
    otlp_attribute_string(&resource, 1, "service.name", BYTES_LIT(resource_text));
    otlp_attribute_int(&resource, 1, "process.pid", 4242);
    otlp_attribute_string(&raw, 9, "http.route", BYTES_LIT("/cart/{id}"));
    uint64_t began_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < n; i++) {
        struct join_result result;
        struct otlp_span span = {.trace_id = BYTES(trace_id, 16),
                                 .span_id = BYTES(span_id, 8),
                                 .name = BYTES_LIT("GET /cart/{id}"),
                                 .kind = SPAN_SERVER,
                                 .start_unix_ns = T0,
                                 .end_unix_ns = T0 + NS_PER_SEC,
                                 .raw = buf_bytes(&raw),
                                 .resource = buf_bytes(&resource)};
        if (i % 500 == 0)
            must(store_begin(store), "begin");
        ids(first + i, trace_id, span_id);
        int outcome = join_span(store_join(store), &span, &forwarder, &result);
        must(outcome, "join_span");
        matched += outcome == JOIN_MATCHED;
        if (i % 500 == 499 || i == n - 1)
            must(store_end(store), "end");
    }
    snprintf(name, sizeof(name), "join_span_ns_%upct", percent);
    print(name, per_ns(began_ns, n), "ns");
    if (matched != n * percent / 100) {
        fprintf(stderr, "%s: %u matched\n", name, matched);
        exit(1);
    }
    buf_close(&resource);
    buf_close(&raw);
}

static void bench_samples(struct store *store)
{
    enum { N = 50000 };
    must(db_exec(store_db(store), "PRAGMA wal_checkpoint(TRUNCATE)"), "checkpoint");
    uint64_t before = db_size_bytes(store_db(store)), began_ns = clock_monotonic_ns();
    add_samples(store, 10000000, N, 1);
    print("join_sample_ns", per_ns(began_ns, N), "ns");
    print("db_bytes_per_sample", (double)(db_size_bytes(store_db(store)) - before) / N, "bytes");
}

static void bench_window(struct store *store)
{
    struct window_settings settings = {
        .max_request_bytes = 4 << 20, .destinations = 1, .scope_version = "0"};
    size_t n;
    must(store_begin(store), "begin");
    uint64_t began_ns = clock_monotonic_ns();
    must(store_window(store, &settings, T0 + 65 * NS_PER_SEC, &n), "window");
    must(store_end(store), "end");
    print("window_sample_ns", per_ns(began_ns, (unsigned)n), "ns");
    sqlite3_stmt *sum;
    must(db_prepare(store_db(store), "SELECT sum(bytes) FROM outbox WHERE seq > 0", &sum),
         "prepare");
    must(db_step(store_db(store), sum), "sum");
    print("otlp_bytes_per_sample", (double)sqlite3_column_int64(sum, 0) / (double)n, "bytes");
    db_unprepare(store_db(store), &sum);
}

int main(void)
{
    bench_directory();
    const struct store_settings settings = bench_store_settings();
    struct store *store = bench_store_open(&settings);
    bench_intern(store);
    bench_spans(store, 0, 0);
    bench_spans(store, 1000000, 1);
    bench_spans(store, 2000000, 100);
    bench_samples(store);
    bench_window(store);
    store_close(store);
    bench_directory_remove();
    return 0;
}
