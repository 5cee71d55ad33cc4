/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/http1_page.h"
#include "base/clock.h"
#include "base/stats.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_TIMEOUT_NS (10 * NS_PER_SEC)
#define HEAD_BYTES         4096

STAT_GAUGE(connections, "spanprof_telemetry_connections",
           "Open connections to the pages of health and metrics.");
enum page_end { PAGE_TIMEOUT, PAGE_CROWDED_OUT, PAGE_ENDS };

static const char *const end_names[] = {
    [PAGE_TIMEOUT] = "timeout", [PAGE_CROWDED_OUT] = "crowded_out"};
STAT_COUNTERS(ended, "spanprof_telemetry_connections_ended_total",
              "Connections to the pages of health and metrics that were ended, by reason.",
              STAT_LABEL("reason", end_names, PAGE_ENDS));

void http1_page_text(struct http1_page_answer *answer, unsigned status, const char *text)
{
    answer->status = buf_append(&answer->body, text, strlen(text)) ? 0 : status;
}

static enum MHD_Result send_answer(struct MHD_Connection *mhd, struct http1_page_answer *answer)
{
    size_t len = 0;
    uint8_t *data = buf_release(&answer->body, &len);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(data);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(mhd, answer->status, response);
    MHD_destroy_response(response);
    return result;
}

/* Without memory to watch over a connection it is not served. */
static enum MHD_Result begin(struct MHD_Connection *mhd)
{
    struct http1_connection *connection = http1_connection_of(mhd);
    if (!connection)
        return MHD_NO;
    http1_connection_enter(connection, 0);
    return MHD_YES;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **request)
{
    static int seen;
    const struct http1_page *page = context;
    (void)version, (void)data;
    if (!*request) {
        *request = &seen;
        return begin(mhd);
    }
    if (*size) { /* a body, of which nothing is wanted */
        *size = 0;
        return MHD_YES;
    }
    struct http1_page_answer answer = {.type = "text/plain", .body = BUF_INIT(page->bytes_max)};
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        page->make(page->context, path, &answer);
    else
        http1_page_text(&answer, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is answered here\n");
    enum MHD_Result result = answer.status ? send_answer(mhd, &answer) : MHD_NO;
    buf_close(&answer.body);
    return result;
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http1_page *page = context;
    http1_connections_notify(&page->connections, mhd, socket_context, code);
}

int http1_page_open(struct http1_page *page, struct loop *loop, const int *fds, size_t n)
{
    const struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_LIMIT, HTTP1_PAGE_CONNECTIONS_MAX + 16, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEAD_BYTES, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, page},
        {MHD_OPTION_END, 0, NULL},
    };
    const struct http1_settings settings = {
        .handler = on_request, .context = page, .options = options};
    if (n > HTTP1_PAGE_SOCKETS_MAX)
        return -E2BIG;
    page->n = 0;
    page->connections = (struct http1_connections){
        .loop = loop,
        .gauge = &connections,
        .max = HTTP1_PAGE_CONNECTIONS_MAX,
        .crowded_out = {&ended, PAGE_CROWDED_OUT},
        .phases = {{.timeout_ns = REQUEST_TIMEOUT_NS, .timed_out = {&ended, PAGE_TIMEOUT}}},
        .n_phases = 1};
    http1_connections_init(&page->connections);
    int error = 0;
    for (size_t i = 0; !error && i < n; i++) {
        error = http1_open(&page->daemons[i], loop, fds[i], &settings);
        page->n += error ? 0 : 1;
    }
    if (error)
        http1_page_close(page);
    return error;
}

void http1_page_close(struct http1_page *page)
{
    for (size_t i = 0; i < page->n; i++)
        http1_close(&page->daemons[i]);
    page->n = 0;
    http1_connections_close(&page->connections);
}
