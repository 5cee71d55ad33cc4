/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "proto/http/http1_page.h"
#include "receiver/health.h"
#include <errno.h>
#include <stdlib.h>

#define HEALTH_BYTES_MAX 1024

struct health_page {
    struct http1_pages *http;
    struct http1_page_route route;
    uint64_t opened_ns;
    const struct health *health;
};

static int make_health(void *context, struct http1_page_answer *answer)
{
    const struct health_page *page = context;
    const char *problem = page->health->problem(page->health->context);
    uint64_t up_s = (clock_monotonic_ns() - page->opened_ns) / NS_PER_SEC;
    if (problem) {
        answer->status = MHD_HTTP_SERVICE_UNAVAILABLE;
        return buf_printf(&answer->body, "{\"status\":\"%s\"}\n", problem);
    }
    return buf_printf(&answer->body, "{\"status\":\"Server available\",\"uptime\":\"%llus\"}\n",
                      (unsigned long long)up_s);
}

int health_page_open(struct loop *loop, const struct config_health_check *config,
                     const struct health *health, struct listen_sockets *sockets,
                     struct health_page **result)
{
    struct health_page *page = calloc(1, sizeof(*page));
    if (!page)
        return -ENOMEM;
    *page = (struct health_page){.route = {config->path, "application/json", make_health},
                                 .opened_ns = clock_monotonic_ns(),
                                 .health = health};
    int error =
        http1_pages_open(&(struct http1_pages_settings){.area = "health",
                                                        .loop = loop,
                                                        .routes = &page->route,
                                                        .n_routes = 1,
                                                        .not_found = "there is nothing here\n",
                                                        .context = page,
                                                        .bytes_max = HEALTH_BYTES_MAX},
                         sockets->fds, sockets->n, &page->http);
    if (error) {
        free(page);
        return error;
    }
    listen_close(sockets); /* taken over */
    *result = page;
    return 0;
}

void health_page_close(struct health_page *page)
{
    if (page)
        http1_pages_close(page->http);
    free(page);
}
