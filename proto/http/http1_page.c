/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/http1_page.h"
#include "base/clock.h"
#include "base/stats.h"
#include "proto/http/http1_server.h"
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

struct http1_pages {
    struct http1_pages_settings settings;
    struct http1_server *server;
};

struct page_call {
    struct http1_call http;
    const struct http1_page_route *route; /* NULL: another path */
    bool wrong_method;
};

static void on_begin(struct http1_call *http, const char *path, const char *method)
{
    struct page_call *call = container_of(http, struct page_call, http);
    const struct http1_pages_settings *settings = &((struct http1_pages *)http->context)->settings;
    for (size_t i = 0; !call->route && i < settings->n_routes; i++)
        if (strcmp(settings->routes[i].path, path) == 0)
            call->route = &settings->routes[i];
    call->wrong_method = strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

static int make_answer(const struct page_call *call, struct http1_page_answer *answer)
{
    const struct http1_pages_settings *settings =
        &((struct http1_pages *)call->http.context)->settings;
    answer->type = "text/plain";
    if (call->wrong_method || !call->route) {
        const char *text = call->wrong_method ? "only GET is answered here\n" : settings->not_found;
        answer->status = call->wrong_method ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND;
        return buf_append(&answer->body, text, strlen(text));
    }
    answer->type = call->route->type;
    return call->route->make(settings->context, answer);
}

static struct MHD_Response *on_respond(struct http1_call *http, unsigned *status)
{
    struct page_call *call = container_of(http, struct page_call, http);
    const struct http1_pages_settings *settings = &((struct http1_pages *)http->context)->settings;
    struct http1_page_answer answer = {.status = MHD_HTTP_OK,
                                       .body = BUF_INIT(settings->bytes_max)};
    if (make_answer(call, &answer)) {
        buf_close(&answer.body);
        return NULL;
    }
    size_t len = 0;
    uint8_t *data = buf_release(&answer.body, &len);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(data);
        return NULL;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type);
    if (call->wrong_method)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    *status = answer.status;
    return response;
}

static const struct http1_handler handler = {
    .call_size = sizeof(struct page_call),
    .begin = on_begin,
    .received = http1_call_ready,
    .respond = on_respond,
};

int http1_pages_open(const struct http1_pages_settings *settings, int *fds, size_t n,
                     struct http1_pages **result)
{
    const struct http1_limit request = {REQUEST_TIMEOUT_NS, {&ended, PAGE_TIMEOUT}};
    struct http1_pages *pages = calloc(1, sizeof(*pages));
    if (!pages)
        return -ENOMEM;
    pages->settings = *settings;
    int error = http1_server_open(
        &(struct http1_server_settings){
            .loop = settings->loop,
            .area = settings->area,
            .handler = &handler,
            .context = pages,
            .limits = {.max_connections = HTTP1_PAGE_CONNECTIONS_MAX,
                       .crowds_out = true,
                       .head_bytes = HEAD_BYTES,
                       .phases = {[HTTP1_HEAD] = request, [HTTP1_BODY] = request},
                       .discard_max = HTTP1_UNLIMITED},
            .counts = {.connections = &connections, .crowded_out = {&ended, PAGE_CROWDED_OUT}}},
        &pages->server);
    if (!error)
        error = http1_server_listen(pages->server, fds, n, NULL, false);
    if (error)
        http1_pages_close(pages);
    else
        *result = pages;
    return error;
}

void http1_pages_close(struct http1_pages *pages)
{
    if (pages)
        http1_server_close(pages->server);
    free(pages);
}
