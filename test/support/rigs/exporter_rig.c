/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/fixtures/outbox_next.h"
#include "test/support/rigs/exporter_rig.h"
#include "base/clock.h"
#include "base/stats.h"
#include "test/support/net/h2_end.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* ---- rig ---- */

void exporter_rig_start(struct rig *rig)
{
    const struct exporter_settings settings = {
        .loop = rig->loop,
        .writer = rig->writer,
        .reader = rig->reader,
        .outbox = store_outbox(rig->fixture.store),
        .outbox_reader = rig->outbox_reader,
        .destination = 0,
        .config = &rig->config,
        .tls = rig->tls,
        .signals = 1u << SIGNAL_TRACES | 1u << SIGNAL_PROFILES,
        .version = "1.2.3",
    };
    assert_int_equal(exporter_open(&settings, &rig->exporter), 0);
}

static void configure(struct rig *rig)
{
    rig->config =
        (struct config_exporter){.id = "first", .type = CONFIG_EXPORTER_OTLP_GRPC, .used = true};
    rig->config.otlp = (struct config_exporter_otlp){
        .endpoint = {.host = "localhost", .port = rig->backend.port, .set = true},
        .tls.insecure = true,
        .timeout_ns = 5 * NS_PER_SEC,
        .n_headers = 1,
        .headers = {{"x-tenant", "blue"}},
        .retry = {.enabled = true,
                  .initial_interval_ns = 20 * NS_PER_MS,
                  .multiplier = 1.5,
                  .max_interval_ns = 100 * NS_PER_MS},
        .max_request_size_bytes = 4000000,
    };
}

int exporter_rig_setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    if (!rig || loop_open(&rig->loop))
        return -1;
    *state = rig;
    fixture_make(&rig->fixture);
    fixture_open(&rig->fixture);
    assert_int_equal(db_open_reader(&rig->fixture.settings.db, &rig->reader_db), 0);
    assert_int_equal(outbox_reader_open(rig->reader_db, &rig->outbox_reader), 0);
    const struct worker_ops writer = {.name = "writer",
                                      .queue_limit = 100,
                                      .batch_limit = 10,
                                      .begin = store_begin,
                                      .end = store_end,
                                      .context = rig->fixture.store};
    const struct worker_ops reader = {.name = "reader", .queue_limit = 100, .batch_limit = 1};
    assert_int_equal(worker_open(&rig->writer, rig->loop, &writer), 0);
    assert_int_equal(worker_open(&rig->reader, rig->loop, &reader), 0);
    backend_open(&rig->backend, rig->loop);
    configure(rig);
    exporter_rig_start(rig);
    return 0;
}

int exporter_rig_teardown(void **state)
{
    struct rig *rig = *state;
    exporter_close(rig->exporter);
    worker_close(rig->writer);
    worker_close(rig->reader);
    backend_close(&rig->backend);
    outbox_reader_close(rig->outbox_reader);
    db_close(rig->reader_db);
    fixture_remove(&rig->fixture);
    loop_close(rig->loop);
    free(rig);
    return 0;
}

/* ---- putting ---- */

struct put {
    struct job job;
    struct rig *rig;
    enum signal signal;
    struct bytes body;
    bool done;
};

static int put_run(struct job *job)
{
    struct put *put = container_of(job, struct put, job);
    return outbox_put(store_outbox(put->rig->fixture.store), put->signal, 3, 1, put->body);
}

static void put_done(struct job *job, int error)
{
    struct put *put = container_of(job, struct put, job);
    assert_int_equal(error, 0);
    put->done = true;
    if (put->rig->exporter)
        exporter_wake(put->rig->exporter);
}

static bool is_put(void *context)
{
    return ((struct put *)context)->done;
}

void rig_put_bytes(struct rig *rig, enum signal signal, struct bytes body)
{
    struct put put = {
        .job = {.run = put_run, .done = put_done}, .rig = rig, .signal = signal, .body = body};
    assert_int_equal(worker_submit(rig->writer, &put.job), 0);
    assert_true(h2_run_loop(rig->loop, is_put, &put, 10000));
}

void rig_put(struct rig *rig, enum signal signal, const char *body)
{
    rig_put_bytes(rig, signal, BYTES_STR(body));
}

/* ---- waiting ---- */

static bool never(void *context)
{
    (void)context;
    return false;
}

void rig_pause(struct rig *rig, int ms)
{
    h2_run_loop(rig->loop, never, NULL, ms);
}

struct expected {
    struct rig *rig;
    const char *path;
    size_t n;
};

static bool has_come(void *context)
{
    struct expected *expected = context;
    return backend_request(&expected->rig->backend, expected->path, expected->n) != NULL;
}

/* The n-th request (from 0) to that path. */
struct backend_request *rig_await(struct rig *rig, const char *path, size_t n)
{
    struct expected expected = {rig, path, n};
    assert_true(h2_run_loop(rig->loop, has_come, &expected, 10000));
    return backend_request(&rig->backend, path, n);
}

bool rig_message_is(const struct backend_request *request, const char *text)
{
    return bytes_is(buf_bytes(&request->reader.message), text);
}

struct outbox_look {
    struct job job;
    struct rig *rig;
    int error;
    bool done;
};

static int look_run(struct job *job)
{
    struct outbox_look *look = container_of(job, struct outbox_look, job);
    struct outbox_item item = {0};
    look->error = outbox_next(look->rig->outbox_reader, "first", 0, &item);
    buf_close(&item.body);
    return 0;
}

static void look_done(struct job *job, int error)
{
    (void)error;
    container_of(job, struct outbox_look, job)->done = true;
}

static bool has_looked(void *context)
{
    return ((struct outbox_look *)context)->done;
}

/* Whether nothing waits for the destination in the store. */
bool rig_is_empty(struct rig *rig)
{
    struct outbox_look look = {.job = {.run = look_run, .done = look_done}, .rig = rig};
    assert_int_equal(worker_submit(rig->reader, &look.job), 0);
    assert_true(h2_run_loop(rig->loop, has_looked, &look, 5000));
    return look.error == -ENOENT;
}

static bool is_empty_now(void *context)
{
    return rig_is_empty(context);
}

void rig_await_empty(struct rig *rig)
{
    assert_true(h2_run_loop(rig->loop, is_empty_now, rig, 10000));
}

int64_t rig_dropped(const char *reason)
{
    int64_t n = 0;
    for (enum signal signal = 0; signal < SIGNAL_COUNT; signal++) {
        char labels[64];
        snprintf(labels, sizeof(labels), "signal=\"%s\",reason=\"%s\"", signal_names[signal],
                 reason);
        int64_t of_signal = stats_find("spanprof_exporter_dropped_items_total", labels);
        n += of_signal > 0 ? of_signal : 0; /* not each signal has each reason */
    }
    return n;
}
