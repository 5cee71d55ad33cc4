/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/metrics_page.h"
#include "base/stats.h"
#include "proto/http/http1_page.h"
#include "store/window/span_cpu.h"
#include <errno.h>
#include <stdlib.h>

#define METRICS_BYTES_MAX (2u << 20)
#define PROMETHEUS        "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS       "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct metrics_page {
    struct span_cpu *span_cpu;
    struct http1_pages *http;
};

static int make_metrics(void *context, struct http1_page_answer *answer)
{
    (void)context;
    return stats_prometheus(&answer->body);
}

static int make_spans(void *context, struct http1_page_answer *answer)
{
    const struct metrics_page *page = context;
    return span_cpu_openmetrics(page->span_cpu, &answer->body);
}

static const struct http1_page_route routes[] = {
    {"/metrics", PROMETHEUS, make_metrics},
    {"/metrics/spans", OPENMETRICS, make_spans}, /* only if it is counted */
};

int metrics_page_open(struct loop *loop, int *fds, size_t n, struct span_cpu *span_cpu,
                      struct metrics_page **result)
{
    struct metrics_page *page = calloc(1, sizeof(*page));
    if (!page)
        return -ENOMEM;
    page->span_cpu = span_cpu;
    int error = http1_pages_open(
        &(struct http1_pages_settings){.area = "metrics",
                                       .loop = loop,
                                       .routes = routes,
                                       .n_routes = span_cpu ? 2 : 1,
                                       .not_found = "the metrics are at /metrics\n",
                                       .context = page,
                                       .bytes_max = METRICS_BYTES_MAX},
        fds, n, &page->http);
    if (error) {
        free(page);
        return error;
    }
    *result = page;
    return 0;
}

void metrics_page_close(struct metrics_page *page)
{
    if (page)
        http1_pages_close(page->http);
    free(page);
}
