/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of 100 spans (330 bytes each) to a backend on loopback, one under way at a time, by gRPC
 * and by HTTP: lines `name value unit`. The backend is a child of its own; CPU time is the
 * sender's, with the making of the message.
 */
#include "base/clock.h"
#include "exporter/otlp/otlp_grpc.h"
#include "exporter/otlp/otlp_http.h"
#include "test/support/net/backend.h"
#include "test/support/net/http_peer.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SPANS = 100, WARM = 50 };
#define SECONDS_NS (2 * NS_PER_SEC)

struct sender {
    struct loop *loop;
    const char *name;
    struct config_exporter_otlp config;
    struct otlp_grpc *grpc; /* or */
    struct otlp_http *http;
    struct otlp_grpc_call grpc_call;
    struct otlp_http_call http_call;
    struct buf body, message;
    size_t n;
    uint64_t start_ns, start_cpu_ns;
};

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, error);
    exit(1);
}

static void load(const char *name, struct buf *out)
{
    char path[4096];
    uint8_t chunk[4096];
    size_t n;
    snprintf(path, sizeof(path), "%s/test/bench/%s", SPANPROF_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    must(file ? 0 : -1, path);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        must(buf_append(out, chunk, n), "memory");
    fclose(file);
}

/* ---- the backend, in a child ---- */

static void forget_requests(struct backend *backend)
{
    struct list *link;
    while ((link = list_pop(&backend->requests))) {
        struct backend_request *request = container_of(link, struct backend_request, link);
        if (request->stream)
            request->stream->owner = NULL;
        buf_close(&request->path);
        buf_close(&request->headers);
        grpc_reader_close(&request->reader);
        free(request);
    }
}

static void forget_http_requests(struct http_peer *peer)
{
    struct list *link;
    while ((link = list_pop(&peer->requests))) {
        struct http_peer_request *request = container_of(link, struct http_peer_request, link);
        buf_close(&request->head);
        buf_close(&request->body);
        free(request);
    }
}

static void serve(bool http, int port_fd)
{
    struct loop *loop;
    struct backend backend = {0};
    struct http_peer peer = {0};
    must(loop_open(&loop), "loop");
    if (http)
        http_peer_open(&peer, loop);
    else
        backend_open(&backend, loop);
    uint16_t port = http ? peer.port : backend.port;
    must(write(port_fd, &port, sizeof(port)) != sizeof(port), "pipe");
    for (size_t seen = 0;;) {
        loop_once(loop, -1);
        if (http) {
            forget_http_requests(&peer);
        } else if (backend.n_requests > seen) { /* none is under way: there is one at a time */
            seen = backend.n_requests;
            forget_requests(&backend);
        }
    }
}

static pid_t start_backend(bool http, uint16_t *port)
{
    int fds[2];
    must(pipe(fds), "pipe");
    pid_t child = fork();
    must(child < 0, "fork");
    if (child == 0)
        serve(http, fds[1]);
    must(read(fds[0], port, sizeof(*port)) != sizeof(*port), "the backend's port");
    close(fds[0]);
    close(fds[1]);
    return child;
}

/* ---- the sender ---- */

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static void send_next(struct sender *sender)
{
    struct buf *message = &sender->message;
    struct bytes body = buf_bytes(&sender->body);
    buf_clear(message);
    if (sender->grpc) {
        must(otlp_grpc_message(body, sender->config.compression, message), "message");
        otlp_grpc_send(sender->grpc, &sender->grpc_call, SIGNAL_TRACES, buf_bytes(message));
    } else {
        must(otlp_http_message(&sender->config, SIGNAL_TRACES, body, message), "message");
        otlp_http_send(sender->http, &sender->http_call, SIGNAL_TRACES, buf_bytes(message));
    }
}

static void print_figures(const struct sender *sender, uint64_t ns)
{
    double n = (double)sender->n, cpu = (double)(cpu_ns() - sender->start_cpu_ns);
    printf("export_%s_requests %.0f requests/s\n", sender->name, n * 1e9 / (double)ns);
    printf("export_%s_cpu_per_request %.1f us\n", sender->name, cpu / n / 1e3);
    printf("export_%s_cpu_per_span %.0f ns\n", sender->name, cpu / n / SPANS);
}

static void answered(struct sender *sender, const struct export_result *result)
{
    must(result->verdict != EXPORT_OK, result->message);
    uint64_t now_ns = clock_monotonic_ns();
    if (++sender->n == WARM && !sender->start_ns) {
        sender->n = 0;
        sender->start_ns = now_ns;
        sender->start_cpu_ns = cpu_ns();
    }
    if (!sender->start_ns || now_ns - sender->start_ns < SECONDS_NS)
        return send_next(sender);
    print_figures(sender, now_ns - sender->start_ns);
    loop_stop(sender->loop);
}

static void answered_grpc(struct otlp_grpc_call *call, const struct export_result *result)
{
    answered(container_of(call, struct sender, grpc_call), result);
}

static void answered_http(struct otlp_http_call *call, const struct export_result *result)
{
    answered(container_of(call, struct sender, http_call), result);
}

static void measure(const char *name, bool http, bool json, enum config_compression compression)
{
    uint16_t port;
    pid_t child = start_backend(http, &port);
    struct config_endpoint endpoint = {
        .host = "127.0.0.1", .port = port, .set = true, .scheme = CONFIG_SCHEME_HTTP};
    struct sender sender = {.name = name,
                            .grpc_call.done = answered_grpc,
                            .http_call.done = answered_http,
                            .config = {.endpoint = endpoint,
                                       .url = {endpoint, ""},
                                       .tls.insecure = true,
                                       .timeout_ns = 5 * NS_PER_SEC,
                                       .compression = compression,
                                       .json = json}};
    load("spans_330.bin", &sender.body);
    must(loop_open(&sender.loop), "loop");
    if (http)
        must(otlp_http_open(&(struct otlp_http_settings){.loop = sender.loop,
                                                         .config = &sender.config,
                                                         .version = "bench"},
                            &sender.http),
             "otlp_http");
    else
        must(otlp_grpc_open(&(struct otlp_grpc_settings){.loop = sender.loop,
                                                         .config = &sender.config,
                                                         .version = "bench"},
                            &sender.grpc),
             "otlp_grpc");
    send_next(&sender);
    must(loop_run(sender.loop), "loop");
    otlp_http_close(sender.http);
    otlp_grpc_close(sender.grpc);
    loop_close(sender.loop);
    buf_close(&sender.body);
    buf_close(&sender.message);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    measure("grpc", false, false, CONFIG_UNCOMPRESSED);
    measure("grpc_gzip", false, false, CONFIG_GZIP);
    measure("grpc_zstd", false, false, CONFIG_ZSTD);
    measure("http", true, false, CONFIG_UNCOMPRESSED);
    measure("http_gzip", true, false, CONFIG_GZIP);
    measure("http_zstd", true, false, CONFIG_ZSTD);
    measure("http_json", true, true, CONFIG_UNCOMPRESSED);
    measure("http_json_gzip", true, true, CONFIG_GZIP);
    return 0;
}
