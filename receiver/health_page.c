/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "proto/http1.h"
#include "receiver/health.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct health_page {
    struct http1 daemons[LISTEN_SOCKETS_MAX];
    size_t n;
    uint64_t opened_ns;
    const struct config_health_check *config;
    const struct health *health;
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, struct buf *body)
{
    size_t len = 0;
    bool json = status == MHD_HTTP_OK || status == MHD_HTTP_SERVICE_UNAVAILABLE;
    uint8_t *data = buf_release(body, &len);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(data);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                            json ? "application/json" : "text/plain");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static unsigned write_health(const struct health_page *page, struct buf *body)
{
    const char *problem = page->health->problem(page->health->context);
    uint64_t up_s = (clock_monotonic_ns() - page->opened_ns) / NS_PER_SEC;
    int error = problem
                    ? buf_printf(body, "{\"status\":\"%s\"}\n", problem)
                    : buf_printf(body, "{\"status\":\"Server available\",\"uptime\":\"%llus\"}\n",
                                 (unsigned long long)up_s);
    if (error)
        return 0;
    return problem ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK;
}

static unsigned write_refusal(unsigned status, const char *text, struct buf *body)
{
    return buf_append(body, text, strlen(text)) ? 0 : status;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *data, size_t *size, void **request)
{
    static int seen;
    const struct health_page *page = context;
    (void)version, (void)data;
    if (!*request || *size) { /* the head, or a body, of which nothing is wanted */
        *request = &seen;
        *size = 0;
        return MHD_YES;
    }
    _cleanup_buf_ struct buf body = BUF_INIT(1024);
    unsigned status;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        status = write_refusal(MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is answered here\n", &body);
    else if (strcmp(path, page->config->path) != 0)
        status = write_refusal(MHD_HTTP_NOT_FOUND, "there is nothing here\n", &body);
    else
        status = write_health(page, &body);
    return status ? answer(connection, status, &body) : MHD_NO;
}

int health_page_open(struct loop *loop, const struct config_health_check *config,
                     const struct health *health, struct listen_sockets *sockets,
                     struct health_page **result)
{
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_LIMIT, 16, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, 10, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, 4096, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct health_page *page = calloc(1, sizeof(*page));
    if (!page)
        return -ENOMEM;
    struct http1_settings settings = {.handler = on_request, .context = page, .options = options};
    int error = 0;
    page->config = config;
    page->health = health;
    page->opened_ns = clock_monotonic_ns();
    for (size_t i = 0; !error && i < sockets->n; i++) {
        error = http1_open(&page->daemons[i], loop, sockets->fds[i], &settings);
        page->n += error ? 0 : 1;
    }
    if (error) {
        health_page_close(page);
        return error;
    }
    listen_close(sockets);
    *result = page;
    return 0;
}

void health_page_close(struct health_page *page)
{
    if (!page)
        return;
    for (size_t i = 0; i < page->n; i++)
        http1_close(&page->daemons[i]);
    free(page);
}
