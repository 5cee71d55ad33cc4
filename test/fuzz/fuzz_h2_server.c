/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC server behind its socket: bytes of a peer in, whatever they are. Calls that get through
 * are answered by an intake that takes everything, or holds it until the end. The first byte
 * chooses; the preface and SETTINGS are sent before the rest unless it says otherwise. */
#include "proto/http/h2.h"
#include "receiver/admission/sender.h"
#include "receiver/grpc/grpc_call.h"
#include "base/clock.h"
#include "base/log.h"
#include "test/support/net/fake_intake.h"
#include "test/support/net/h2_fuzz.h"
#include "test/support/net/h2_raw.h"
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct h2_conn *connection;

static void on_ended(struct grpc_connection *calls, int error)
{
    struct h2_conn *ended = connection;
    (void)calls, (void)error;
    connection = NULL;
    h2_close(ended);
}

static const struct h2_settings settings = {
    .server = true,
    .max_streams = 2 * H2_CALM_STREAMS,
    .stream_window = 16384,
    .calm_window = 65535,
    .connection_window = 2 * 65535,
    .handshake_timeout_ns = 10 * NS_PER_SEC,
    .header_timeout_ns = 10 * NS_PER_SEC,
    .request_timeout_ns = 10 * NS_PER_SEC,
    .write_timeout_ns = 10 * NS_PER_SEC,
};

static void feed(struct loop *loop, int fd, uint8_t choice, struct bytes bytes)
{
    _cleanup_buf_ struct buf start = BUF_INIT(0);
    if (buf_append(&start, H2_RAW_PREFACE, sizeof(H2_RAW_PREFACE) - 1))
        abort();
    h2_raw_frame(&start, RAW_SETTINGS, 0, 0, (struct bytes){0});
    if (!(choice & 1))
        h2_fuzz_feed(loop, fd, buf_bytes(&start), start.len);
    h2_fuzz_feed(loop, fd, bytes, choice & 2 ? 65536 : 37);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct loop *loop;
    struct intake intake;
    struct budget budget = {.limit_bytes = 100000};
    struct senders senders;
    struct grpc_call_scope scope = {
        .intake = &intake, .budget = &budget, .max_message_bytes = 10000};
    struct grpc_connection calls = {.scope = &scope, .ended = on_ended};
    int fds[2];
    log_set_level(LOG_LEVEL_ERROR);
    if (size == 0)
        return 0;
    if (loop_open(&loop) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds))
        abort();
    senders_init(&senders);
    calls.sender = sender_open(&senders, 1);
    if (!calls.sender)
        abort();
    fake_intake_open(&intake, loop);
    intake.hold = data[0] & 4;
    intake.outcome = (enum intake_outcome)((data[0] >> 3) % 5);
    list_init(&scope.calls);
    if (h2_open(loop, fds[0], &settings, &grpc_call_handler, &calls, &connection))
        abort();
    feed(loop, fds[1], data[0], BYTES(data + 1, size - 1));
    h2_close(connection);
    connection = NULL;
    grpc_call_forget(&scope);
    fake_intake_close(&intake);
    if (budget.used_bytes)
        abort();
    sender_release(calls.sender);
    senders_close(&senders); /* asserts that all calls have released theirs */
    close(fds[1]);
    loop_close(loop);
    return 0;
}
