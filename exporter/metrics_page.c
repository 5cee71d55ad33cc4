/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/metrics_page.h"
#include "base/buf.h"
#include "base/stats.h"
#include "proto/http1.h"
#include "store/span_cpu.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define METRICS_SOCKETS_MAX 8
#define METRICS_BYTES_MAX   (2u << 20)
#define OPENMETRICS         "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct metrics_page {
    struct span_cpu *span_cpu;
    struct http1 daemons[METRICS_SOCKETS_MAX];
    size_t n;
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              struct buf *body)
{
    size_t len = 0;
    uint8_t *data = buf_release(body, &len);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(data);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *data, size_t *size, void **request)
{
    static int seen;
    const struct metrics_page *page = context;
    (void)version, (void)data;
    if (!*request || *size) { /* the head, or a body, of which nothing is wanted */
        *request = &seen;
        *size = 0;
        return MHD_YES;
    }
    _cleanup_buf_ struct buf body = BUF_INIT(METRICS_BYTES_MAX);
    bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (!get)
        return buf_printf(&body, "only GET is answered here\n") == 0
                   ? answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", &body)
                   : MHD_NO;
    if (strcmp(path, "/metrics/spans") == 0 && page->span_cpu)
        return span_cpu_openmetrics(page->span_cpu, &body) == 0
                   ? answer(connection, MHD_HTTP_OK, OPENMETRICS, &body)
                   : MHD_NO;
    if (strcmp(path, "/metrics") != 0)
        return buf_printf(&body, "the metrics are at /metrics\n") == 0
                   ? answer(connection, MHD_HTTP_NOT_FOUND, "text/plain", &body)
                   : MHD_NO;
    if (stats_prometheus(&body) != 0)
        return MHD_NO;
    return answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", &body);
}

int metrics_page_open(struct loop *loop, int *fds, size_t n, struct span_cpu *span_cpu,
                      struct metrics_page **pagep)
{
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_LIMIT, 16, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, 10, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, 4096, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct http1_settings settings = {.handler = on_request, .options = options};
    struct metrics_page *page = calloc(1, sizeof(*page));
    if (!page)
        return -ENOMEM;
    settings.context = page;
    page->span_cpu = span_cpu;
    int error = 0;
    for (size_t i = 0; !error && i < n && i < METRICS_SOCKETS_MAX; i++) {
        error = http1_open(&page->daemons[i], loop, fds[i], &settings);
        page->n += error ? 0 : 1;
    }
    if (error) {
        metrics_page_close(page);
        return error;
    }
    for (size_t i = 0; i < page->n; i++) {
        close(fds[i]);
        fds[i] = -1;
    }
    *pagep = page;
    return 0;
}

void metrics_page_close(struct metrics_page *page)
{
    if (!page)
        return;
    for (size_t i = 0; i < page->n; i++)
        http1_close(&page->daemons[i]);
    free(page);
}
