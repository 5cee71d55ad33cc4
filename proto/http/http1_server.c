/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections are accepted here, so that it is known whose they are, and which HTTP they speak,
 * before libmicrohttpd has them. With TLS it gets the plain ends of proxies.
 *
 * libmicrohttpd accepts an answer before a request's body or after it, but not in between. So a
 * request that is refused in between is read to its end, up to a bound, and answered then. An
 * earlier answer would be lost with the connection, since the peer still writes.
 */
#include "proto/http/http1_server.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/http/acceptor.h"
#include "proto/http/http1.h"
#include "proto/http/http_sniffer.h"
#include "proto/tls/tls_accept.h"
#include "proto/tls/tls_proxy.h"
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ENTRANCES_MAX = 2, /* an endpoint, and a Unix socket */
    /* Of connections that were shut down to make room, and are not closed yet. */
    CONNECTIONS_LEAVING = ENTRANCES_MAX * ACCEPTOR_SOCKETS_MAX * ACCEPTOR_ROUND + HTTP_SNIFFER_MAX,
};

/* Listening sockets, and their connections until libmicrohttpd has them. */
struct entrance {
    struct http1_server *server;
    struct acceptor acceptor;
    bool trusted;
    bool has_tls;
    struct tls_accept handshakes; /* with TLS */
    struct http_sniffer sniffer;  /* without */
};

/* A connection that libmicrohttpd was given and has not announced. */
struct entering {
    struct list link;
    int fd;
    struct peer peer;
    uint64_t peer_key;
    bool trusted;
};

struct http1_server {
    struct http1_server_settings settings;
    struct http1_connections connections;
    struct http1 http;
    struct entrance entrances[ENTRANCES_MAX];
    size_t n_entrances;
    struct tls_proxies proxies;
    struct list entering;
    void (*take_http2)(void *context, const struct http_arrival *arrival);
    void *http2_context;
    struct list calls; /* that are not freed */
    size_t n_active;   /* calls with a connection */
    bool draining;     /* answers end their connection */
    bool closing;      /* no call sleeps or pauses any more */
    struct timer drained;
    void (*stopped)(void *context);
    void *context;
};

/* ---- draining ---- */

static void server_check_drained(struct http1_server *server)
{
    if (server->stopped && !server->n_active && !server->drained.due_ns)
        timer_start(server->settings.loop, &server->drained, 0);
}

static void on_ran(struct http1 *http)
{
    server_check_drained(container_of(http, struct http1_server, http));
}

static void on_drained(struct timer *timer)
{
    struct http1_server *server = container_of(timer, struct http1_server, drained);
    void (*stopped)(void *context) = server->stopped;
    if (server->n_active) /* a request came on a connection kept open; see on_ran() */
        return;
    server->stopped = NULL;
    stopped(server->context);
}

/* ---- calls ---- */

#define STATE(name) (1u << HTTP1_##name)
/* The table in the header. */
static const unsigned next_states[HTTP1_CALL_STATES] = {
    [HTTP1_RECEIVING] = STATE(DISCARDING) | STATE(READY) | STATE(SLEEPING) | STATE(GONE),
    [HTTP1_DISCARDING] = STATE(READY) | STATE(GONE),
    [HTTP1_SLEEPING] = STATE(READY) | STATE(GONE),
    [HTTP1_READY] = STATE(ANSWERED) | STATE(GONE),
    [HTTP1_ANSWERED] = STATE(GONE),
};

static void call_enter(struct http1_call *call, enum http1_call_state state)
{
    assert(next_states[call->state] & 1u << state);
    assert(!call->paused || state == HTTP1_DISCARDING || state == HTTP1_GONE);
    call->state = state;
}

static const struct http1_handler *call_handler(const struct http1_call *call)
{
    return call->server->settings.handler;
}

static struct http1_call *call_new(struct http1_server *server,
                                   const struct http1_connection *connection,
                                   struct MHD_Connection *mhd)
{
    assert(server->settings.handler->call_size >= sizeof(struct http1_call));
    struct http1_call *call = calloc(1, server->settings.handler->call_size);
    if (!call)
        return NULL;
    call->server = server;
    call->mhd = mhd;
    call->context = server->settings.context;
    call->trusted = connection->trusted;
    call->peer_key = connection->peer_key;
    list_append(&server->calls, &call->link);
    server->n_active++;
    return call;
}

void http1_call_free(struct http1_call *call)
{
    assert(call->state == HTTP1_GONE);
    list_remove(&call->link);
    free(call);
}

const struct peer *http1_call_peer(const struct http1_call *call)
{
    return &http1_connection_of(call->mhd)->peer;
}

const char *http1_call_header(const struct http1_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->mhd, MHD_HEADER_KIND, name);
}

void http1_call_refuse(struct http1_call *call)
{
    LOOP_THREAD(call->server->settings.loop);
    call_enter(call, HTTP1_DISCARDING);
}

void http1_call_ready(struct http1_call *call)
{
    LOOP_THREAD(call->server->settings.loop);
    call_enter(call, HTTP1_READY);
}

void http1_call_sleep(struct http1_call *call)
{
    LOOP_THREAD(call->server->settings.loop);
    assert(!call->server->closing);
    call_enter(call, HTTP1_SLEEPING);
    MHD_suspend_connection(call->mhd);
}

/* In the next round of the loop, together with others of this one. */
static void call_continue(struct http1_call *call)
{
    struct http1_server *server = call->server;
    LOOP_THREAD(server->settings.loop);
    MHD_resume_connection(call->mhd);
    http1_run_soon(&server->http);
}

void http1_call_wake(struct http1_call *call)
{
    assert(call->state == HTTP1_SLEEPING);
    call_enter(call, HTTP1_READY);
    call_continue(call);
}

void http1_call_pause(struct http1_call *call)
{
    LOOP_THREAD(call->server->settings.loop);
    assert(call->state == HTTP1_RECEIVING);
    if (call->paused || call->server->closing)
        return;
    call->paused = true;
    MHD_suspend_connection(call->mhd);
}

void http1_call_resume(struct http1_call *call)
{
    if (!call->paused)
        return;
    call->paused = false;
    call_continue(call);
}

static enum MHD_Result call_answer(struct http1_call *call)
{
    const struct http1_counts *counts = &call->server->settings.counts;
    unsigned status = 0;
    struct MHD_Response *response = call_handler(call)->respond(call, &status);
    if (!response)
        return MHD_NO;
    if (call->server->draining)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(call->mhd, status, response);
    MHD_destroy_response(response);
    for (unsigned i = 0; result == MHD_YES && i < counts->n_codes; i++)
        if (counts->codes[i] == status)
            stat_add_of(counts->requests, i, 1);
    call_enter(call, HTTP1_ANSWERED);
    return result;
}

static enum MHD_Result call_receive(struct http1_call *call, struct bytes piece)
{
    void (*body)(struct http1_call *, struct bytes) = call_handler(call)->body;
    if (body && call->state == HTTP1_RECEIVING)
        body(call, piece);
    if (!body || call->state == HTTP1_DISCARDING)
        call->discarded_bytes += piece.len;
    return call->discarded_bytes > call->server->settings.limits.discard_max ? MHD_NO : MHD_YES;
}

/* All of it has come; again, when it was woken up. */
static enum MHD_Result call_go_on(struct http1_call *call)
{
    if (call->state == HTTP1_DISCARDING)
        call_enter(call, HTTP1_READY);
    else if (call->state == HTTP1_RECEIVING)
        call_handler(call)->received(call);
    return call->state == HTTP1_READY ? call_answer(call) : MHD_YES;
}

static void server_wake_all(struct http1_server *server)
{
    struct list *link, *tmp;
    server->closing = true;
    list_each(link, tmp, &server->calls)
    {
        struct http1_call *call = container_of(link, struct http1_call, link);
        http1_call_resume(call);
        if (call->state != HTTP1_SLEEPING)
            continue;
        call_handler(call)->stop(call);
        http1_call_wake(call);
    }
}

/* Calls that their handler still needs outlive the server. */
static void server_forget_calls(struct http1_server *server)
{
    struct list *link;
    while ((link = list_pop(&server->calls))) {
        struct http1_call *call = container_of(link, struct http1_call, link);
        assert(call->state == HTTP1_GONE);
        call->server = NULL;
    }
}

/* ---- libmicrohttpd's calls ---- */

static struct entering *find_entering(struct http1_server *server, int fd)
{
    struct list *link, *tmp;
    list_each(link, tmp, &server->entering)
    {
        struct entering *entering = container_of(link, struct entering, link);
        if (entering->fd == fd)
            return entering;
    }
    return NULL;
}

static void entering_free(struct entering *entering)
{
    if (!entering)
        return;
    list_remove(&entering->link);
    free(entering);
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http1_server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED)
        return http1_connections_end(&server->connections, socket_context);
    struct entering *entering = find_entering(server, http1_connection_fd(mhd));
    assert(entering);
    http1_connections_begin(&server->connections, mhd, socket_context, &entering->peer,
                            entering->peer_key);
    struct http1_connection *connection = *socket_context;
    if (connection)
        connection->trusted = entering->trusted;
    entering_free(entering);
}

static void phase_enter(struct http1_server *server, struct http1_connection *connection,
                        enum http1_phase_name phase)
{
    uint64_t timeout_ns = server->settings.limits.phases[phase].timeout_ns;
    if (timeout_ns == HTTP1_UNLIMITED)
        http1_connection_enter(connection, HTTP1_NO_PHASE);
    else if (timeout_ns)
        http1_connection_enter(connection, (int)phase);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **request)
{
    struct http1_server *server = context;
    struct http1_connection *connection = http1_connection_of(mhd);
    struct http1_call *call = *request;
    (void)version;
    if (!connection)
        return MHD_NO;
    if (!call) {
        phase_enter(server, connection, HTTP1_BODY);
        *request = call = call_new(server, connection, mhd);
        if (!call)
            return MHD_NO;
        call_handler(call)->begin(call, path, method);
        return call->state == HTTP1_READY ? call_answer(call) : MHD_YES;
    }
    if (*size) {
        size_t n = *size;
        *size = 0;
        return call_receive(call, BYTES(data, n));
    }
    enum MHD_Result result = call_go_on(call);
    phase_enter(server, connection, call->state == HTTP1_ANSWERED ? HTTP1_SENDING : HTTP1_HANDLING);
    return result;
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **request,
                         enum MHD_RequestTerminationCode code)
{
    struct http1_server *server = context;
    struct http1_connection *connection = http1_connection_of(mhd);
    struct http1_call *call = *request;
    *request = NULL;
    if (call) {
        if (call->state != HTTP1_ANSWERED && server->settings.counts.requests_cut)
            stat_add(server->settings.counts.requests_cut, 1);
        assert(server->n_active);
        server->n_active--;
        call->paused = false;
        call->mhd = NULL;
        call_enter(call, HTTP1_GONE);
        if (call_handler(call)->gone)
            call_handler(call)->gone(call);
        else
            http1_call_free(call);
    }
    if (connection && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        phase_enter(server, connection, HTTP1_HEAD);
}

/* ---- connections before libmicrohttpd has them ---- */

static uint64_t identify(struct http1_server *server, int fd, struct peer *peer)
{
    const struct http1_handler *handler = server->settings.handler;
    *peer = (struct peer){.uid = PEER_UID_UNKNOWN};
    return handler->connected ? handler->connected(server->settings.context, fd, peer) : 0;
}

/* fd: the plain end that libmicrohttpd gets; the arrival's, or a proxy's. */
static void server_enter(struct http1_server *server, const struct http_arrival *arrival, int fd,
                         bool trusted)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof(address);
    struct entering *entering = calloc(1, sizeof(*entering));
    if (!entering) {
        close(fd);
        return;
    }
    *entering = (struct entering){
        .fd = fd, .peer = arrival->peer, .peer_key = arrival->peer_key, .trusted = trusted};
    list_append(&server->entering, &entering->link);
    (void)getpeername(arrival->fd, (struct sockaddr *)&address, &size);
    if (http1_add(&server->http, fd, (const struct sockaddr *)&address, size)) {
        stat_add_ref(server->settings.counts.over_limit, 1);
        entering_free(find_entering(server, fd)); /* it may have been announced before */
    }
}

static void on_handshake_done(struct tls_accept *handshakes, struct tls *tls, int fd)
{
    struct entrance *entrance = container_of(handshakes, struct entrance, handshakes);
    struct http1_server *server = entrance->server;
    struct http_arrival arrival = {.fd = fd};
    int plain;
    arrival.peer_key = identify(server, fd, &arrival.peer);
    int error = tls_proxy_open(&server->proxies, tls, fd, &plain);
    if (error)
        log_warn(server->settings.area, "cannot serve a connection: %s", strerror(-error));
    else
        server_enter(server, &arrival, plain, entrance->trusted);
}

static void on_told(struct http_sniffer *sniffer, const struct http_arrival *arrival,
                    enum http_version version)
{
    struct entrance *entrance = container_of(sniffer, struct entrance, sniffer);
    struct http1_server *server = entrance->server;
    if (version == HTTP_2)
        server->take_http2(server->http2_context, arrival);
    else
        server_enter(server, arrival, arrival->fd, entrance->trusted);
}

static void on_accepted(struct acceptor *acceptor, int fd)
{
    const int on = 1;
    struct entrance *entrance = container_of(acceptor, struct entrance, acceptor);
    struct http1_server *server = entrance->server;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)); /* hosts that vanish */
    if (entrance->has_tls)
        return tls_accept_enter(&entrance->handshakes, fd);
    struct http_arrival arrival = {.fd = fd};
    arrival.peer_key = identify(server, fd, &arrival.peer);
    if (server->take_http2)
        http_sniffer_enter(&entrance->sniffer, &arrival);
    else
        server_enter(server, &arrival, fd, entrance->trusted);
}

int http1_server_listen(struct http1_server *server, int *fds, size_t n, struct tls_context *tls,
                        bool trusted)
{
    struct loop *loop = server->settings.loop;
    struct entrance *entrance = &server->entrances[server->n_entrances];
    LOOP_THREAD(loop);
    if (n > ACCEPTOR_SOCKETS_MAX || server->n_entrances == ENTRANCES_MAX)
        return -E2BIG;
    *entrance =
        (struct entrance){.server = server,
                          .trusted = trusted,
                          .has_tls = tls,
                          .acceptor = {.loop = loop,
                                       .area = server->settings.area,
                                       .out_of_files = server->settings.counts.out_of_files,
                                       .uses_reserve = !server->settings.limits.keeps_file_reserve,
                                       .accepted = on_accepted},
                          .handshakes = {.loop = loop,
                                         .context = tls,
                                         .area = server->settings.area,
                                         .passed = on_handshake_done},
                          .sniffer = {.loop = loop, .own = HTTP_1, .told = on_told}};
    tls_accept_init(&entrance->handshakes);
    http_sniffer_init(&entrance->sniffer);
    int error = acceptor_start(&entrance->acceptor, fds, n);
    if (!error)
        server->n_entrances++;
    return error;
}

void http1_server_set_http2(struct http1_server *server,
                            void (*take)(void *context, const struct http_arrival *arrival),
                            void *context)
{
    server->take_http2 = take;
    server->http2_context = context;
}

void http1_server_take(struct http1_server *server, const struct http_arrival *arrival)
{
    LOOP_THREAD(server->settings.loop);
    server_enter(server, arrival, arrival->fd, false);
}

static void server_stop_listening(struct http1_server *server)
{
    for (size_t i = 0; i < server->n_entrances; i++) {
        struct entrance *entrance = &server->entrances[i];
        acceptor_stop(&entrance->acceptor);
        tls_accept_close(&entrance->handshakes);
        http_sniffer_stop(&entrance->sniffer);
    }
}

/* ---- verbs ---- */

static int open_http1(struct http1_server *server)
{
    const struct http1_limits *limits = &server->settings.limits;
    const struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)http1_log, (void *)server->settings.area},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)limits->max_connections + CONNECTIONS_LEAVING,
         NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)limits->silence_s, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)limits->head_bytes, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, server},
        {MHD_OPTION_STRICT_FOR_CLIENT, limits->strict, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    return http1_open(
        &server->http, server->settings.loop,
        &(struct http1_settings){.flags = MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
                                 .handler = on_request,
                                 .context = server,
                                 .options = options});
}

int http1_server_open(const struct http1_server_settings *settings, struct http1_server **result)
{
    LOOP_THREAD(settings->loop);
    struct http1_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->settings = *settings;
    server->connections = (struct http1_connections){.loop = settings->loop,
                                                     .gauge = settings->counts.connections,
                                                     .max = settings->limits.max_connections,
                                                     .busy_too = settings->limits.crowds_out,
                                                     .crowded_out = settings->counts.crowded_out,
                                                     .over_limit = settings->counts.over_limit,
                                                     .n_phases = HTTP1_PHASES};
    for (int i = 0; i < HTTP1_PHASES; i++)
        server->connections.phases[i] =
            (struct http1_phase){.timeout_ns = settings->limits.phases[i].timeout_ns,
                                 .timed_out = settings->limits.phases[i].timed_out};
    http1_connections_init(&server->connections);
    tls_proxies_init(&server->proxies, settings->loop);
    list_init(&server->calls);
    list_init(&server->entering);
    server->drained.fire = on_drained;
    server->http.ran = on_ran;
    int error = open_http1(server);
    if (error) {
        free(server);
        return error;
    }
    *result = server;
    return 0;
}

bool http1_server_is_closing(const struct http1_server *server)
{
    return server->closing;
}

void http1_server_drain(struct http1_server *server, void (*stopped)(void *context), void *context)
{
    LOOP_THREAD(server->settings.loop);
    server->draining = true;
    server->stopped = stopped;
    server->context = context;
    server_stop_listening(server);
    server_check_drained(server);
}

void http1_server_close(struct http1_server *server)
{
    if (!server)
        return;
    LOOP_THREAD(server->settings.loop);
    server->stopped = NULL;
    server->draining = true;
    server_stop_listening(server);
    server_wake_all(server);
    http1_run(&server->http); /* sends what can be sent at once */
    http1_close(&server->http);
    tls_proxies_close(&server->proxies);
    assert(!server->n_active && !server->connections.n);
    server_forget_calls(server);
    while (!list_empty(&server->entering))
        entering_free(container_of(list_first(&server->entering), struct entering, link));
    http1_connections_close(&server->connections);
    timer_stop(&server->drained);
    free(server);
}
