/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/exporter.h"
#include "base/clock.h"
#include "base/log.h"
#include "exporter/sender.h"
#include <errno.h>
#include <stdlib.h>

#define JSON_GROWTH 4 /* times protobuf: 2.3 usually, 3.1 for spans without attributes */

uint64_t exporter_max_body_bytes(const struct config_exporter *config)
{
    if (config->type != CONFIG_EXPORTER_OTLP_GRPC && config->type != CONFIG_EXPORTER_OTLP_HTTP)
        return UINT64_MAX;
    return config->otlp.max_request_size_bytes / (config->otlp.json ? JSON_GROWTH : 1);
}

bool exporter_wants(const struct exporter *exporter, enum signal signal)
{
    return !exporter->settings.signals || (exporter->settings.signals >> signal & 1);
}

void exporter_wake(struct exporter *exporter)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        if (exporter_wants(exporter, (enum signal)i))
            sender_wake(&exporter->senders[i]);
}

/* ---- draining: what can be sent at once is sent, what fails stays in the store ---- */

static bool is_quiet(const struct exporter *exporter)
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

void exporter_sender_quiet(struct exporter *exporter)
{
    if (exporter->stopped && is_quiet(exporter))
        timer_start(exporter->settings.loop, &exporter->drain_timer, 0);
}

void exporter_drain(struct exporter *exporter, uint64_t deadline_ns, void (*stopped)(void *context),
                    void *context)
{
    uint64_t now_ns = clock_monotonic_ns();
    exporter->draining = true;
    exporter->stopped = stopped;
    exporter->context = context;
    timer_start(exporter->settings.loop, &exporter->drain_timer,
                deadline_ns > now_ns ? deadline_ns - now_ns : 0);
    exporter_wake(exporter);
    exporter_sender_quiet(exporter);
}

/* ---- life ---- */

int exporter_open(const struct exporter_settings *settings, struct exporter **exporterp)
{
    struct exporter *exporter = calloc(1, sizeof(*exporter));
    if (!exporter)
        return -ENOMEM;
    exporter->settings = *settings;
    exporter->drain_timer.fire = on_drain_end;
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        sender_init(&exporter->senders[i], exporter, (enum signal)i);
    int error = 0;
    if (settings->config->type == CONFIG_EXPORTER_OTLP_GRPC)
        error = otlp_grpc_open(&(struct otlp_grpc_settings){.loop = settings->loop,
                                                            .config = &settings->config->otlp,
                                                            .tls = settings->tls,
                                                            .version = settings->version},
                               &exporter->grpc);
    if (settings->config->type == CONFIG_EXPORTER_OTLP_HTTP)
        error = otlp_http_open(&(struct otlp_http_settings){.loop = settings->loop,
                                                            .config = &settings->config->otlp,
                                                            .tls = settings->tls,
                                                            .version = settings->version},
                               &exporter->http);
    if (settings->config->type == CONFIG_EXPORTER_FILE)
        error = file_exporter_open(settings->loop, &settings->config->file, &exporter->file);
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
    timer_stop(&exporter->drain_timer);
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        sender_close(&exporter->senders[i]);
    otlp_grpc_close(exporter->grpc);
    otlp_http_close(exporter->http);
    file_exporter_close(exporter->file);
    free(exporter);
}
