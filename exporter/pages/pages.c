/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages.h"
#include "base/clock.h"
#include "base/stats.h"
#include "exporter/pages/pages_call.h"
#include "proto/http/http1.h"
#include "proto/http/http1_connections.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HEAD_BYTES        (32 * 1024)
#define HEAD_TIMEOUT_NS   (30 * NS_PER_SEC)
#define ASKING_TIMEOUT_NS (720 * NS_PER_SEC) /* the longest delay is 600 s */
#define ANSWER_TIMEOUT_NS (120 * NS_PER_SEC)
#define IDLE_TIMEOUT_S    60

STAT_GAUGE(connections, "spanprof_pages_connections", "Open connections to the pages.");
STAT_LOSS(over_limit, "spanprof_pages_connections_refused_total",
          "Connections to the pages closed at once: there were too many.");

/* For a head; then the question; then it is sent. */
enum phase { WAITING, ASKING, ANSWERING, PHASES };

static const char *const phase_names[] = {
    [WAITING] = "head", [ASKING] = "question", [ANSWERING] = "answer"};
STAT_LOSSES(timed_out, "spanprof_pages_timeouts_total",
            "Connections to the pages ended by a time limit, by phase.",
            STAT_LABEL("phase", phase_names, PHASES));

struct listener {
    struct pages *pages;
    struct http1 http;
    bool of_node;
};

struct pages {
    struct pages_settings settings;
    struct pages_scope scope;
    struct pages_facts facts;
    struct worker *worker;
    struct listener listeners[PAGES_LISTENERS_MAX + 1];
    size_t n_listeners;
    struct listener *behind_tls; /* one of them; NULL: there is none yet */
    struct http1_connections connections;
};

/* ---- libmicrohttpd's calls ---- */

static bool is_full(const struct pages *pages)
{
    bool full = pages->connections.n >= PAGES_CONNECTIONS_MAX;
    if (full)
        stat_add(&over_limit, 1);
    return full;
}

static enum MHD_Result on_accept(void *context, const struct sockaddr *address, socklen_t size)
{
    const struct listener *listener = context;
    (void)address, (void)size;
    return is_full(listener->pages) ? MHD_NO : MHD_YES;
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct listener *listener = context;
    http1_connections_notify(&listener->pages->connections, mhd, socket_context, code);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **request)
{
    struct listener *listener = context;
    struct http1_connection *connection = http1_connection_of(mhd);
    bool last = *request && *size == 0;
    (void)version, (void)data;
    if (!connection)
        return MHD_NO;
    enum MHD_Result result = pages_call_step(&listener->pages->scope, mhd, listener->of_node, path,
                                             method, size, (struct pages_call **)request);
    if (last) /* until then it waits: for a body that nobody should send */
        http1_connection_enter(connection, pages_call_is_answered(*request) ? ANSWERING : ASKING);
    return result;
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **request,
                         enum MHD_RequestTerminationCode code)
{
    struct http1_connection *connection = http1_connection_of(mhd);
    (void)context;
    if (*request)
        pages_call_completed(*request);
    *request = NULL;
    if (connection && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        http1_connection_enter(connection, WAITING);
}

static void on_woken(struct pages_scope *scope)
{
    struct pages *pages = container_of(scope, struct pages, scope);
    for (size_t i = 0; i < pages->n_listeners; i++)
        http1_run_soon(&pages->listeners[i].http);
}

/* ---- life ---- */

int pages_listen(struct pages *pages, int fd, bool of_node)
{
    struct listener *listener = &pages->listeners[pages->n_listeners];
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)http1_log, (void *)"pages"},
        {MHD_OPTION_CONNECTION_LIMIT, PAGES_CONNECTIONS_MAX + 16, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEAD_BYTES, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, listener},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, listener},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct http1_settings settings = {.flags = MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
                                      .accept = on_accept,
                                      .handler = on_request,
                                      .context = listener,
                                      .options = options};
    if (pages->n_listeners == sizeof(pages->listeners) / sizeof(pages->listeners[0]))
        return -EMFILE;
    *listener = (struct listener){.pages = pages, .of_node = of_node};
    int error = http1_open(&listener->http, pages->settings.loop, fd, &settings);
    if (!error)
        pages->n_listeners++;
    return error;
}

void pages_add(struct pages *pages, int fd, const struct sockaddr *peer, socklen_t size)
{
    if (!pages->behind_tls && pages_listen(pages, -1, false) == 0)
        pages->behind_tls = &pages->listeners[pages->n_listeners - 1];
    if (!pages->behind_tls || is_full(pages))
        close(fd);
    else
        http1_add(&pages->behind_tls->http, fd, peer, size);
}

void pages_set_token(struct pages *pages, const char *token)
{
    snprintf(pages->scope.token, sizeof(pages->scope.token), "%s", token);
}

int pages_open(const struct pages_settings *settings, struct pages **result)
{
    struct pages *pages = calloc(1, sizeof(*pages));
    if (!pages)
        return -ENOMEM;
    pages->settings = *settings;
    pages->connections = (struct http1_connections){
        .loop = settings->loop,
        .gauge = &connections,
        .phases = {[WAITING] = {.timeout_ns = HEAD_TIMEOUT_NS, .timed_out = {&timed_out, WAITING}},
                   [ASKING] = {.timeout_ns = ASKING_TIMEOUT_NS, .timed_out = {&timed_out, ASKING}},
                   [ANSWERING] = {.timeout_ns = ANSWER_TIMEOUT_NS,
                                  .timed_out = {&timed_out, ANSWERING}}},
        .n_phases = PHASES};
    http1_connections_init(&pages->connections);
    pages->facts = (struct pages_facts){.db = settings->reader_db,
                                        .config = settings->config,
                                        .pages = settings->pages,
                                        .version = settings->version,
                                        .coverage = settings->coverage,
                                        .started_ns = clock_monotonic_ns(),
                                        .sampling = settings->sampling};
    pages->scope = (struct pages_scope){.loop = settings->loop,
                                        .facts = &pages->facts,
                                        .config = settings->pages,
                                        .woken = on_woken};
    list_init(&pages->scope.calls);
    if (gethostname(pages->facts.host, sizeof(pages->facts.host) - 1)) /* else it ends with 0 */
        *pages->facts.host = '\0';
    int error = history_reader_open(settings->reader_db, &pages->facts.history);
    if (!error)
        history_reader_set_host(pages->facts.history, BYTES_STR(pages->facts.host));
    if (!error)
        error = worker_open(&pages->worker, settings->loop,
                            &(struct worker_ops){
                                .name = "pages", .queue_limit = PAGES_QUEUE_MAX, .batch_limit = 1});
    pages->scope.worker = pages->worker;
    if (error)
        pages_close(pages);
    else
        *result = pages;
    return error;
}

void pages_close(struct pages *pages)
{
    if (!pages)
        return;
    atomic_store(&pages->scope.stopping, true);
    for (size_t i = 0; i < pages->n_listeners; i++)
        http1_quiesce(&pages->listeners[i].http);
    pages_call_wake_all(&pages->scope);
    for (size_t i = 0; i < pages->n_listeners; i++)
        http1_run(&pages->listeners[i].http); /* sends what can be sent at once */
    for (size_t i = 0; i < pages->n_listeners; i++)
        http1_close(&pages->listeners[i].http);
    if (pages->worker)
        sqlite3_interrupt(db_handle(pages->settings.reader_db));
    worker_close(pages->worker); /* questions that nobody waits for any more free themselves */
    history_reader_close(pages->facts.history);
    http1_connections_close(&pages->connections);
    free(pages);
}
