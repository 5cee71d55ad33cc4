/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/rigs/intake_rig.h"
#include "agent-bpf/symbolizer_messages.h"
#include "agent-bpf/drain/procstream.h"
#include "base/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define PATIENCE_NS (20 * NS_PER_SEC)

static int begin(void *context)
{
    struct intake_rig *rig = context;
    pthread_mutex_lock(&rig->gate);
    pthread_mutex_unlock(&rig->gate);
    return store_begin(rig->fixture.store);
}

static int end(void *context)
{
    struct intake_rig *rig = context;
    return store_end(rig->fixture.store);
}

static void on_committed(void *context)
{
    struct intake_rig *rig = context;
    rig->n_committed++;
}

static void open_sampler(struct intake_rig *rig)
{
    record_ring_open(&rig->memory);
    assert_int_equal(ring_open(rig->memory.fd, RECORD_RING_SIZE, &rig->ring), 0);
    assert_int_equal(procstream_open(&rig->procstream), 0);
}

void intake_rig_open(struct intake_rig *rig, const struct intake_rig_options *options)
{
    *rig = (struct intake_rig){
        .symbolizer = -1, .signal = SIGNAL_TRACES, .max_inflated_bytes = 1 << 20};
    pthread_mutex_init(&rig->gate, NULL);
    fixture_make(&rig->fixture);
    rig->fixture.settings.db.vfs = options->vfs;
    fixture_limit(&rig->fixture, options->max_store_bytes);
    fixture_open(&rig->fixture);
    assert_int_equal(loop_open(&rig->loop), 0);
    if (options->sampler)
        open_sampler(rig);
    struct worker_ops ops = {.name = "writer",
                             .queue_limit = INTAKE_WRITER_QUEUE,
                             .batch_limit = 256,
                             .begin = begin,
                             .end = end,
                             .context = rig};
    assert_int_equal(worker_open(&rig->writer, rig->loop, &ops), 0);
    struct intake_settings settings = {
        .loop = rig->loop,
        .writer = rig->writer,
        .store = rig->fixture.store,
        .ring = rig->ring,
        .procstream = rig->procstream,
        .join = true,
        .destinations = {[SIGNAL_TRACES] = options->no_traces ? 0 : 1,
                         [SIGNAL_PROFILES] = 1,
                         [SIGNAL_METRICS] = options->no_traces ? 0 : 1,
                         [SIGNAL_LOGS] = options->no_traces ? 0 : 1},
        .drain_interval_ns = 20 * NS_PER_MS,
        .max_queued_bytes = options->max_queued_bytes ? options->max_queued_bytes : 1 << 20,
        .max_admitted_bytes = options->max_queued_bytes ? options->max_queued_bytes / 2 : 1 << 19,
        .max_request_bytes = 1 << 20,
        .version = "1.2.3",
        .committed = on_committed,
        .context = rig};
    assert_int_equal(intake_open(&settings, &rig->intake), 0);
}

void intake_rig_close(struct intake_rig *rig)
{
    intake_rig_release(rig);
    intake_drain_last(rig->intake);
    worker_close(rig->writer);
    intake_close(rig->intake);
    if (rig->symbolizer >= 0)
        close(rig->symbolizer);
    if (rig->ring)
        record_ring_close(&rig->memory);
    ring_close(rig->ring);
    procstream_close(rig->procstream);
    loop_close(rig->loop);
    fixture_remove(&rig->fixture);
    pthread_mutex_destroy(&rig->gate);
}

void intake_rig_hold(struct intake_rig *rig)
{
    pthread_mutex_lock(&rig->gate);
    rig->pending = true;
}

void intake_rig_release(struct intake_rig *rig)
{
    if (rig->pending)
        pthread_mutex_unlock(&rig->gate);
    rig->pending = false;
}

static void on_ready(void *context)
{
    struct intake_rig *rig = context;
    assert_false(rig->ready);
    rig->ready = true;
}

void intake_rig_start(struct intake_rig *rig)
{
    intake_start(rig->intake, on_ready);
    assert_false(rig->ready); /* never from within */
}

static void on_stopped(void *context)
{
    struct intake_rig *rig = context;
    assert_false(rig->stopped);
    rig->stopped = true;
}

void intake_rig_stop(struct intake_rig *rig)
{
    intake_stop(rig->intake, on_stopped);
}

void intake_rig_until(struct intake_rig *rig, const bool *flag)
{
    uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS;
    while (!*flag) {
        assert_true(clock_monotonic_ns() < end_ns);
        assert_int_equal(loop_once(rig->loop, 20), 0);
    }
}

void intake_rig_turn(struct intake_rig *rig, int ms)
{
    uint64_t end_ns = clock_monotonic_ns() + (uint64_t)ms * NS_PER_MS;
    do
        assert_int_equal(loop_once(rig->loop, 5), 0);
    while (clock_monotonic_ns() < end_ns);
}

/* ---- requests ---- */

static void on_done(struct intake_request *intake_request)
{
    struct rig_request *request = container_of(intake_request, struct rig_request, request);
    assert_false(request->rig->submitting);
    assert_null(intake_request->body.data);
    request->n_done++;
    request->done = true;
}

void rig_request_submit(struct intake_rig *rig, struct rig_request *request, struct bytes body)
{
    *request = (struct rig_request){.rig = rig,
                                    .request = {.signal = rig->signal,
                                                .encoding = rig->encoding,
                                                .body = BUF_INIT(0),
                                                .max_inflated_bytes = rig->max_inflated_bytes,
                                                .peer = {.is_forwarder = true},
                                                .done = on_done}};
    assert_int_equal(buf_append_bytes(&request->request.body, body), 0);
    rig->submitting = true;
    intake_submit(rig->intake, &request->request);
    rig->submitting = false;
}

enum intake_outcome rig_request_run(struct intake_rig *rig, struct bytes body)
{
    struct rig_request request;
    rig_request_submit(rig, &request, body);
    intake_rig_until(rig, &request.done);
    assert_int_equal(request.request.message == NULL, request.request.outcome == INTAKE_ACCEPTED);
    return request.request.outcome;
}

/* ---- the symbolizer ---- */

void rig_symbolizer_open(struct intake_rig *rig)
{
    int fds[2];
    if (rig->symbolizer >= 0)
        close(rig->symbolizer);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    rig->symbolizer = fds[1];
    intake_symbolizer(rig->intake, fds[0]);
}

struct symbolizer_message rig_symbolizer_hear(struct intake_rig *rig)
{
    static uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
    static struct arena arena;
    struct symbolizer_message message = {0};
    uint64_t end_ns = clock_monotonic_ns() + NS_PER_SEC;
    ssize_t size = -1;
    while (size < 0 && clock_monotonic_ns() < end_ns) {
        size = recv(rig->symbolizer, datagram, sizeof(datagram), MSG_DONTWAIT);
        if (size < 0)
            loop_once(rig->loop, 5);
    }
    if (size <= 0)
        return message;
    arena_close(&arena);
    arena_init(&arena, 1 << 20);
    assert_int_equal(symbolizer_message_decode(BYTES(datagram, (size_t)size), &arena, &message), 0);
    return message;
}

void rig_symbolizer_say(struct intake_rig *rig, const struct symbolizer_message *message)
{
    struct buf datagram _cleanup_buf_ = BUF_INIT(0);
    assert_int_equal(symbolizer_message_encode(message, &datagram), 0);
    assert_int_equal(send(rig->symbolizer, datagram.data, datagram.len, 0), datagram.len);
}
