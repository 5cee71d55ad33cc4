/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the writer does for a request, each figure a line `name value unit`: pages of the log, and
 * CPU of the thread, the upkeep of each second apart. A transaction a request, as under load that
 * is not high: it puts one, and notes that an earlier one was taken.
 */
#include "base/clock.h"
#include "test/support/rigs/bench_rig.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REQUESTS = 5000, BODY_MAX = 1 << 20, A_SECOND = 100 };

struct load {
    const char *name;
    size_t body_bytes, varied_bytes; /* up to so many more */
    int64_t on_their_way; /* requests, before the first is taken; more than all: none is */
};

static uint64_t cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * NS_PER_SEC + (uint64_t)time.tv_nsec;
}

static unsigned pages_written(struct store *store)
{
    int pages = 0, most;
    int code = sqlite3_db_status(db_handle(store_db(store)), SQLITE_DBSTATUS_CACHE_WRITE, &pages,
                                 &most, 0);
    must(code == SQLITE_OK ? 0 : -EIO, "sqlite3_db_status");
    return (unsigned)pages;
}

static struct bytes next_body(size_t n_bytes, unsigned *seed)
{
    static uint8_t body[BODY_MAX];
    for (size_t i = 0; i < n_bytes; i += 64)
        body[i] = (uint8_t)rand_r(seed);
    return BYTES(body, n_bytes);
}

static void run_one(struct store *store, struct bytes body, int64_t taken)
{
    struct outbox *outbox = store_outbox(store);
    must(store_begin(store), "begin");
    must(outbox_put(outbox, SIGNAL_TRACES, 100, 1, body), "put");
    if (taken > 0)
        must(outbox_done(outbox, 0, taken), "done");
    must(store_end(store), "end");
}

static void run(const struct load *load)
{
    bench_directory();
    const struct store_settings settings = bench_store_settings();
    struct store *store = bench_store_open(&settings);
    unsigned seed = 1, before = pages_written(store);
    uint64_t ns = 0, upkeep_ns = 0;
    for (int64_t i = 1; i <= REQUESTS; i++) {
        size_t more = (size_t)rand_r(&seed) % (load->varied_bytes + 1);
        struct bytes body = next_body(load->body_bytes + more, &seed);
        uint64_t began_ns = cpu_ns();
        run_one(store, body, i - load->on_their_way);
        ns += cpu_ns() - began_ns;
        began_ns = cpu_ns();
        if (i % A_SECOND == 0)
            must(store_maintain(store), "maintain");
        upkeep_ns += cpu_ns() - began_ns;
    }
    printf("outbox_%s_pages %.2f pages\n", load->name,
           (double)(pages_written(store) - before) / REQUESTS);
    printf("outbox_%s_cpu %.1f us\n", load->name, (double)ns / 1e3 / REQUESTS);
    printf("outbox_%s_upkeep_cpu %.1f us\n", load->name, (double)upkeep_ns / 1e3 / REQUESTS);
    store_close(store);
    bench_directory_remove();
}

int main(void)
{
    static const struct load loads[] = {
        {"33kb", 33 << 10, 0, 2},
        {"33kb_50", 33 << 10, 0, 50},
        {"33kb_backlog", 33 << 10, 0, INT32_MAX},
        {"28_to_38kb", 28 << 10, 10 << 10, 2},
        {"8_to_64kb", 8 << 10, 56 << 10, 2},
        {"1kb", 1 << 10, 0, 2},
        {"200kb", 200 << 10, 0, 2},
    };
    for (size_t i = 0; i < sizeof(loads) / sizeof(*loads); i++)
        run(&loads[i]);
    return 0;
}
