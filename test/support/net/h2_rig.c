/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/h2_rig.h"
#include "base/clock.h"
#include "base/stats.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

void rig_pump(struct rig *rig)
{
    uint8_t piece[65536];
    ssize_t n;
    while (rig->out.len &&
           (n = send(rig->fd, rig->out.data, rig->out.len, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0)
        buf_consume(&rig->out, (size_t)n);
    while (rig->reads && (n = recv(rig->fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
        assert_int_equal(buf_append(&rig->in, piece, (size_t)n), 0);
}

/* Runs both sides until it holds. */
bool rig_run(struct rig *rig, bool (*holds)(struct rig *rig), int ms)
{
    uint64_t end_ns = clock_monotonic_ns() + (uint64_t)ms * NS_PER_MS;
    for (;;) {
        rig_pump(rig);
        if (holds(rig))
            return true;
        if (clock_monotonic_ns() >= end_ns)
            return false;
        assert_int_equal(loop_once(rig->loop, 2), 0);
    }
}

bool rig_ended(struct rig *rig)
{
    return rig->end.ended;
}

bool rig_never(struct rig *rig)
{
    (void)rig;
    return false;
}

void rig_start(struct rig *rig, const struct h2_settings *wanted, bool server)
{
    int fds[2], size = 4096;
    struct h2_settings settings = h2_pair_settings(wanted, true);
    settings.server = server;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    rig->end.is_server = server;
    rig->fd = fds[1];
    rig->reads = true;
    assert_int_equal(
        h2_open(rig->loop, fds[0], &settings, &h2_end_handler, &rig->end, &rig->end.conn), 0);
    if (server)
        assert_int_equal(buf_append(&rig->out, H2_RAW_PREFACE, sizeof(H2_RAW_PREFACE) - 1), 0);
    h2_raw_frame(&rig->out, RAW_SETTINGS, 0, 0, (struct bytes){0});
}

int rig_setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    if (!rig || loop_open(&rig->loop))
        return -1;
    h2_end_init(&rig->end);
    rig->fd = -1;
    *state = rig;
    return 0;
}

int rig_teardown(void **state)
{
    struct rig *rig = *state;
    h2_end_clear(&rig->end);
    if (rig->fd >= 0)
        close(rig->fd);
    buf_close(&rig->out);
    buf_close(&rig->in);
    loop_close(rig->loop);
    free(rig);
    return 0;
}

void rig_frame(struct rig *rig, uint8_t type, uint8_t flags, uint32_t stream, struct bytes payload)
{
    h2_raw_frame(&rig->out, type, flags, stream, payload);
}

void rig_open_stream(struct rig *rig, uint32_t id, uint8_t flags)
{
    _cleanup_buf_ struct buf block = BUF_INIT(0);
    h2_raw_request_block(&block, "/x");
    rig_frame(rig, RAW_HEADERS, flags, id, buf_bytes(&block));
}

/* The last frame of that type (and stream, if not 0) seen; its payload is valid until the next run.
 */
bool rig_saw(const struct rig *rig, uint8_t type, uint32_t stream, struct h2_raw_seen *found)
{
    struct bytes in = buf_bytes(&rig->in);
    struct h2_raw_seen seen;
    bool any = false;
    const size_t preface = sizeof(H2_RAW_PREFACE) - 1;
    if (!rig->end.is_server && in.len >= preface)
        in = BYTES(in.data + preface, in.len - preface);
    while (h2_raw_next(&in, &seen)) {
        if (seen.type != type || (stream && seen.stream != stream))
            continue;
        *found = seen;
        any = true;
    }
    return any;
}

int64_t rig_limit(const char *name)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "limit=\"%s\"", name);
    return stats_find("spanprof_h2_limit_total", labels);
}

void rig_assert_goaway(struct rig *rig, uint32_t error)
{
    struct h2_raw_seen seen;
    rig_pump(rig);
    assert_true(rig_saw(rig, RAW_GOAWAY, 0, &seen));
    assert_int_equal(h2_raw_u32(seen.payload.data + 4), error);
}

const struct h2_settings rig_no_settings;
