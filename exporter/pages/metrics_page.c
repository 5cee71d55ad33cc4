/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/metrics_page.h"
#include "base/stats.h"
#include "proto/http/http1_page.h"
#include "store/window/span_cpu.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define METRICS_BYTES_MAX (2u << 20)
#define PROMETHEUS        "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS       "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct metrics_page {
    struct span_cpu *span_cpu;
    struct http1_page page;
};

static void make(void *context, const char *path, struct http1_page_answer *answer)
{
    const struct metrics_page *metrics = context;
    int error;
    if (strcmp(path, "/metrics") == 0) {
        answer->type = PROMETHEUS;
        error = stats_prometheus(&answer->body);
    } else if (strcmp(path, "/metrics/spans") == 0 && metrics->span_cpu) {
        answer->type = OPENMETRICS;
        error = span_cpu_openmetrics(metrics->span_cpu, &answer->body);
    } else {
        return http1_page_text(answer, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics\n");
    }
    answer->status = error ? 0 : MHD_HTTP_OK;
}

int metrics_page_open(struct loop *loop, int *fds, size_t n, struct span_cpu *span_cpu,
                      struct metrics_page **result)
{
    struct metrics_page *metrics = calloc(1, sizeof(*metrics));
    if (!metrics)
        return -ENOMEM;
    *metrics = (struct metrics_page){
        .span_cpu = span_cpu,
        .page = {.make = make, .context = metrics, .bytes_max = METRICS_BYTES_MAX}};
    int error = http1_page_open(&metrics->page, loop, fds, n);
    if (error) {
        free(metrics);
        return error;
    }
    for (size_t i = 0; i < n; i++) {
        close(fds[i]);
        fds[i] = -1;
    }
    *result = metrics;
    return 0;
}

void metrics_page_close(struct metrics_page *metrics)
{
    if (metrics)
        http1_page_close(&metrics->page);
    free(metrics);
}
