/* SPDX-License-Identifier: Apache-2.0 */
/* The two lines that spanprof needs of a program are spanprof_context_enter() and _attach(). */
#include "test/demo/demo_trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_US 500000

static struct span_exporter *exporter;
static pthread_t flusher;
static _Atomic bool closing;

static uint64_t unix_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *flush_now_and_then(void *unused)
{
    while (!closing) {
        usleep(FLUSH_US);
        span_export_flush(exporter);
    }
    return unused;
}

static int parse_endpoint(const char *endpoint, char host[128], uint16_t *port)
{
    unsigned number;
    if (sscanf(endpoint, "%127[^:]:%u", host, &number) != 2 || number > UINT16_MAX)
        return -EINVAL;
    *port = (uint16_t)number;
    return 0;
}

int demo_trace_open(const char *service, const char *endpoint)
{
    char host[128], instance[32];
    snprintf(instance, sizeof(instance), "%s-%d", service, getpid());
    struct span_export_settings settings = {
        .host = host, .service_name = service, .instance_id = instance, .pid = getpid()};
    const struct spanprof_attribute resource[] = {{"service.name", service},
                                                  {"service.instance.id", instance}};
    int error = parse_endpoint(endpoint, host, &settings.port);
    if (!error)
        error = spanprof_context_publish(resource, 2);
    if (!error)
        error = span_export_open(&settings, &exporter);
    if (!error)
        error = -pthread_create(&flusher, NULL, flush_now_and_then, NULL);
    return error;
}

void demo_trace_close(void)
{
    closing = true;
    pthread_join(flusher, NULL);
    span_export_flush(exporter);
    span_export_close(exporter);
    spanprof_context_withdraw();
}

static void random_bytes(uint8_t *bytes, size_t size)
{
    if (getrandom(bytes, size, 0) != (ssize_t)size)
        abort();
}

void demo_span_begin(struct demo_span *span, const char *name, enum span_export_kind kind)
{
    static const uint8_t none[16];
    spanprof_context_get(&span->outer);
    memcpy(span->trace_id, span->outer.trace_id, 16);
    memcpy(span->parent_id, span->outer.span_id, 8);
    if (!memcmp(span->trace_id, none, 16))
        random_bytes(span->trace_id, 16);
    random_bytes(span->span_id, 8);
    span->name = name;
    span->kind = kind;
    span->start_unix_ns = unix_ns();
    spanprof_context_enter(span->trace_id, span->span_id, 1, &span->outer);
}

void demo_span_end(struct demo_span *span, const char *route)
{
    spanprof_context_attach(&span->outer);
    const struct span_export_attribute attributes[] = {{"http.route", route, 0}};
    struct span_export_span ended = {.name = span->name,
                                     .kind = span->kind,
                                     .start_unix_ns = span->start_unix_ns,
                                     .end_unix_ns = unix_ns(),
                                     .attributes = attributes,
                                     .n_attributes = route ? 1 : 0};
    memcpy(ended.trace_id, span->trace_id, 16);
    memcpy(ended.span_id, span->span_id, 8);
    memcpy(ended.parent_id, span->parent_id, 8);
    span_export_add(exporter, &ended);
}
