/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/exporter.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "exporter/sender.h"
#include <errno.h>
#include <stdlib.h>

/* What is in flight, the same compressed or as JSON, and what is handed over. */
static uint64_t limit_senders(const struct config *config)
{
    uint64_t n = 0;
    for (size_t i = 0; i < config->n_pipelines; i++)
        for (size_t e = 0; e < config->pipelines[i].n_exporters; e++)
            n += config->exporters[config->pipelines[i].exporters[e]].type != CONFIG_EXPORTER_NOP;
    return n * (2 * SENDER_BYTES_MAX + SENDER_HANDOFF_MAX);
}

LIMIT(senders, LIMIT_SERVICE, "requests being sent", .count = limit_senders);

struct exporter {
    struct sender_host host;
    struct sender senders[SIGNAL_COUNT];
    struct timer drain_timer;
    void (*stopped)(void *context); /* of a drain; NULL: none, or it was called */
    void *context;
};

#define JSON_GROWTH 4 /* JSON / protobuf size: 2.3 usually, 3.1 for spans without attributes */

uint64_t exporter_max_body_bytes(const struct config_exporter *config)
{
    if (config->type != CONFIG_EXPORTER_OTLP_GRPC && config->type != CONFIG_EXPORTER_OTLP_HTTP)
        return UINT64_MAX;
    return config->otlp.max_request_size_bytes / (config->otlp.json ? JSON_GROWTH : 1);
}

void exporter_wake(struct exporter *exporter)
{
    LOOP_THREAD(exporter->host.settings.loop);
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        if (sender_host_wants(&exporter->host, (enum signal)i))
            sender_wake(&exporter->senders[i]);
}

/* ---- draining: what can be sent at once is sent, what fails stays in the store ---- */

static bool exporter_is_quiet(const struct exporter *exporter)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        if (!sender_is_quiet(&exporter->senders[i]))
            return false;
    return true;
}

static void on_drain_end(struct timer *timer)
{
    struct exporter *exporter = container_of(timer, struct exporter, drain_timer);
    void (*stopped)(void *context) = exporter->stopped;
    exporter->stopped = NULL;
    if (stopped)
        stopped(exporter->context);
}

static void on_sender_quiet(struct sender_host *host)
{
    struct exporter *exporter = container_of(host, struct exporter, host);
    if (exporter->stopped && exporter_is_quiet(exporter))
        timer_start(exporter->host.settings.loop, &exporter->drain_timer, 0);
}

void exporter_drain(struct exporter *exporter, uint64_t deadline_ns, void (*stopped)(void *context),
                    void *context)
{
    LOOP_THREAD(exporter->host.settings.loop);
    uint64_t now_ns = clock_monotonic_ns();
    exporter->host.draining = true;
    exporter->stopped = stopped;
    exporter->context = context;
    timer_start(exporter->host.settings.loop, &exporter->drain_timer,
                deadline_ns > now_ns ? deadline_ns - now_ns : 0);
    exporter_wake(exporter);
    on_sender_quiet(&exporter->host);
}

/* ---- life ---- */

int exporter_open(const struct exporter_settings *settings, struct exporter **exporterp)
{
    LOOP_THREAD(settings->loop);
    struct exporter *exporter = calloc(1, sizeof(*exporter));
    if (!exporter)
        return -ENOMEM;
    exporter->host.settings = *settings;
    exporter->host.quiet = on_sender_quiet;
    exporter->drain_timer.fire = on_drain_end;
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        sender_init(&exporter->senders[i], &exporter->host, (enum signal)i);
    int error = 0;
    if (settings->config->type == CONFIG_EXPORTER_OTLP_GRPC)
        error = otlp_grpc_open(&(struct otlp_grpc_settings){.loop = settings->loop,
                                                            .config = &settings->config->otlp,
                                                            .tls = settings->tls,
                                                            .version = settings->version},
                               &exporter->host.grpc);
    if (settings->config->type == CONFIG_EXPORTER_OTLP_HTTP)
        error = otlp_http_open(&(struct otlp_http_settings){.loop = settings->loop,
                                                            .config = &settings->config->otlp,
                                                            .tls = settings->tls,
                                                            .version = settings->version},
                               &exporter->host.http);
    if (settings->config->type == CONFIG_EXPORTER_FILE)
        error = file_exporter_open(settings->loop, &settings->config->file, &exporter->host.file);
    if (error) {
        exporter_close(exporter);
        return error;
    }
    exporter_wake(exporter);
    *exporterp = exporter;
    return 0;
}

void exporter_close(struct exporter *exporter)
{
    if (!exporter)
        return;
    LOOP_THREAD(exporter->host.settings.loop);
    timer_stop(&exporter->drain_timer);
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        sender_close(&exporter->senders[i]);
    otlp_grpc_close(exporter->host.grpc);
    otlp_http_close(exporter->host.http);
    file_exporter_close(exporter->host.file);
    free(exporter);
}
