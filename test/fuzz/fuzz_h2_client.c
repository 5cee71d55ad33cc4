/* SPDX-License-Identifier: Apache-2.0 */
/* The OTLP/gRPC client against a backend that sends whatever it likes. The first byte chooses. A
 * call ends at most once, with a verdict and a message that may be logged. */
#include "exporter/otlp/otlp_grpc.h"
#include "base/clock.h"
#include "base/log.h"
#include "test/support/net/h2_fuzz.h"
#include "test/support/net/h2_raw.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLS = 2, ROUNDS_TO_CONNECT = 1000 };

struct one_call {
    struct otlp_grpc_call call;
    struct buf message;
    unsigned n_done;
};

static struct config_exporter_otlp config = {
    .endpoint = {.host = "127.0.0.1", .set = true},
    .tls.insecure = true,
    .timeout_ns = 60 * NS_PER_SEC,
};

static int listen_once(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        abort();
    config.endpoint.port = ntohs(address.sin_port);
    return fd;
}

static int accept_one(struct loop *loop, int listener)
{
    const struct linger at_once = {.l_onoff =
                                       1}; /* no TIME_WAIT: there are thousands of connections */
    for (int i = 0; i < ROUNDS_TO_CONNECT; i++) {
        if (loop_once(loop, 1))
            abort();
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        return fd;
    }
    abort();
}

static void on_done(struct otlp_grpc_call *call, const struct export_result *result)
{
    struct one_call *one = container_of(call, struct one_call, call);
    if (one->n_done++)
        abort();
    struct bytes message =
        BYTES(result->message, strnlen(result->message, sizeof(result->message)));
    if (message.len == sizeof(result->message) || !bytes_utf8_valid(message))
        abort();
    if (result->verdict > EXPORT_DROP ||
        (strcmp(result->code, "OK") == 0) != (result->verdict == EXPORT_OK))
        abort();
}

static void send_calls(struct otlp_grpc *client, struct one_call *calls)
{
    for (int i = 0; i < CALLS; i++) {
        calls[i].call.done = on_done;
        if (otlp_grpc_message(BYTES_LIT("request"), CONFIG_UNCOMPRESSED, &calls[i].message))
            abort();
        otlp_grpc_send(client, &calls[i].call, i ? SIGNAL_PROFILES : SIGNAL_TRACES,
                       buf_bytes(&calls[i].message));
    }
}

static void end_calls(struct one_call *calls)
{
    for (int i = 0; i < CALLS; i++) {
        otlp_grpc_cancel(&calls[i].call);
        buf_close(&calls[i].message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int listener;
    struct loop *loop;
    struct otlp_grpc *client;
    struct one_call calls[CALLS] = {0};
    _cleanup_buf_ struct buf settings = BUF_INIT(0);
    log_set_level(LOG_LEVEL_ERROR);
    listener = listener ? listener : listen_once();
    if (size == 0)
        return 0;
    if (loop_open(&loop) ||
        otlp_grpc_open(
            &(struct otlp_grpc_settings){.loop = loop, .config = &config, .version = "fuzz"},
            &client))
        abort();
    send_calls(client, calls);
    int fd = accept_one(loop, listener);
    h2_raw_frame(&settings, RAW_SETTINGS, 0, 0, (struct bytes){0});
    if (!(data[0] & 1))
        h2_fuzz_feed(loop, fd, buf_bytes(&settings), settings.len);
    h2_fuzz_feed(loop, fd, BYTES(data + 1, size - 1), data[0] & 2 ? 65536 : 37);
    end_calls(calls);
    otlp_grpc_close(client);
    close(fd);
    loop_close(loop);
    return 0;
}
