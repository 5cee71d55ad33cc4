/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "proto/http/http1_page.h"
#include "receiver/health.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEALTH_BYTES_MAX 1024

struct health_page {
    struct http1_page page;
    uint64_t opened_ns;
    const struct config_health_check *config;
    const struct health *health;
};

static void make(void *context, const char *path, struct http1_page_answer *answer)
{
    const struct health_page *page = context;
    if (strcmp(path, page->config->path) != 0)
        return http1_page_text(answer, MHD_HTTP_NOT_FOUND, "there is nothing here\n");
    const char *problem = page->health->problem(page->health->context);
    uint64_t up_s = (clock_monotonic_ns() - page->opened_ns) / NS_PER_SEC;
    int error = problem ? buf_printf(&answer->body, "{\"status\":\"%s\"}\n", problem)
                        : buf_printf(&answer->body,
                                     "{\"status\":\"Server available\",\"uptime\":\"%llus\"}\n",
                                     (unsigned long long)up_s);
    answer->type = "application/json";
    if (!error)
        answer->status = problem ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK;
}

int health_page_open(struct loop *loop, const struct config_health_check *config,
                     const struct health *health, struct listen_sockets *sockets,
                     struct health_page **result)
{
    struct health_page *page = calloc(1, sizeof(*page));
    if (!page)
        return -ENOMEM;
    *page =
        (struct health_page){.page = {.make = make, .context = page, .bytes_max = HEALTH_BYTES_MAX},
                             .opened_ns = clock_monotonic_ns(),
                             .config = config,
                             .health = health};
    int error = http1_page_open(&page->page, loop, sockets->fds, sockets->n);
    if (error) {
        free(page);
        return error;
    }
    listen_close(sockets);
    *result = page;
    return 0;
}

void health_page_close(struct health_page *page)
{
    if (page)
        http1_page_close(&page->page);
    free(page);
}
