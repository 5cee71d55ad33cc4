/* SPDX-License-Identifier: Apache-2.0 */
#include "store/window/span_cpu.h"
#include "base/map.h"
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include "store/join/join.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

STAT_COUNTER(too_many, "spanprof_span_cpu_samples_unnamed_total",
             "Samples counted without service and span name, for there are too many of those.");

struct series {
    uint8_t hash[16];
    char service[SPAN_CPU_NAME_MAX], name[SPAN_CPU_NAME_MAX];
    uint64_t cpu_ns;
    /* of the latest sample */
    uint8_t trace_id[16], span_id[8];
    uint64_t time_unix_ns, value_ns;
};

struct span_cpu {
    pthread_mutex_t lock; /* guards all fields below */
    struct map series;
    struct series rest;
    uint8_t key[16];
};

int span_cpu_open(struct span_cpu **result)
{
    struct span_cpu *cpu = calloc(1, sizeof(*cpu));
    if (!cpu)
        return -ENOMEM;
    pthread_mutex_init(&cpu->lock, NULL);
    MAP_INIT(&cpu->series, struct series, hash);
    if (getrandom(cpu->key, sizeof(cpu->key), 0) != sizeof(cpu->key)) {
        span_cpu_close(cpu);
        return -ENOMEM;
    }
    *result = cpu;
    return 0;
}

void span_cpu_close(struct span_cpu *cpu)
{
    struct series *series;
    if (!cpu)
        return;
    for (size_t i = 0; (series = map_next(&cpu->series, &i));)
        free(series);
    map_close(&cpu->series);
    pthread_mutex_destroy(&cpu->lock);
    free(cpu);
}

/* ---- adding ---- */

struct names {
    char service[SPAN_CPU_NAME_MAX], name[SPAN_CPU_NAME_MAX];
};

static void names_of(const struct join_span_facts *span, struct names *names)
{
    struct bytes key_value, service = {0};
    *names = (struct names){.service = ""};
    if (otlp_resource_attribute(span->resource, "service.name", &key_value))
        (void)otlp_key_value_string(key_value, &service);
    bytes_sanitize(service, names->service, sizeof(names->service));
    bytes_sanitize(span->name, names->name, sizeof(names->name));
}

static struct series *span_cpu_make(struct span_cpu *cpu, const struct names *names,
                                    const uint8_t hash[16])
{
    struct series *series =
        cpu->series.count < SPAN_CPU_SERIES_MAX ? calloc(1, sizeof(*series)) : NULL;
    if (!series)
        return NULL;
    memcpy(series->hash, hash, sizeof(series->hash));
    memcpy(series->service, names->service, sizeof(series->service));
    memcpy(series->name, names->name, sizeof(series->name));
    if (map_put(&cpu->series, series, NULL) == 0)
        return series;
    free(series);
    return NULL;
}

static struct series *span_cpu_find(struct span_cpu *cpu, const struct join_span_facts *span)
{
    struct names names;
    uint8_t hash[16];
    names_of(span, &names);
    bytes_siphash128(BYTES(&names, sizeof(names)), cpu->key, hash);
    struct series *series = map_get(&cpu->series, hash);
    series = series ? series : span_cpu_make(cpu, &names, hash);
    if (series)
        return series;
    stat_add(&too_many, 1);
    return &cpu->rest;
}

void span_cpu_add(struct span_cpu *cpu, const struct sample *sample,
                  const struct join_span_facts *span)
{
    if (!span || sample->kind != SAMPLE_CPU)
        return;
    pthread_mutex_lock(&cpu->lock);
    struct series *series = span_cpu_find(cpu, span);
    series->cpu_ns += sample->value_ns;
    series->value_ns = sample->value_ns;
    series->time_unix_ns = sample->time_unix_ns;
    memcpy(series->trace_id, span->trace_id, sizeof(series->trace_id));
    memcpy(series->span_id, span->span_id, sizeof(series->span_id));
    pthread_mutex_unlock(&cpu->lock);
}

/* ---- showing ---- */

/* Writes a quoted value: escapes backslash and quote. A sanitized text has no line breaks. */
static int put_label(struct buf *out, const char *name, const char *value)
{
    int error = buf_printf(out, "%s=\"", name);
    for (; !error && *value; value++) {
        if (*value == '"' || *value == '\\')
            error = buf_printf(out, "\\%c", *value);
        else
            error = buf_append(out, value, 1);
    }
    return error ? error : buf_append(out, "\"", 1);
}

static int put_series(struct buf *out, const struct series *series)
{
    char trace_id[33], span_id[17];
    bytes_to_hex(BYTES(series->trace_id, 16), trace_id);
    bytes_to_hex(BYTES(series->span_id, 8), span_id);
    int error = buf_printf(out, "spanprof_span_cpu_seconds_total{");
    error = error ? error : put_label(out, "service_name", series->service);
    error = error ? error : buf_append(out, ",", 1);
    error = error ? error : put_label(out, "span_name", series->name);
    return error ? error
                 : buf_printf(out, "} %.9f # {trace_id=\"%s\",span_id=\"%s\"} %.9f %llu.%03llu\n",
                              (double)series->cpu_ns / 1e9, trace_id, span_id,
                              (double)series->value_ns / 1e9,
                              (unsigned long long)(series->time_unix_ns / 1000000000),
                              (unsigned long long)(series->time_unix_ns / 1000000 % 1000));
}

static int cpu_compare(const void *a, const void *b)
{
    const struct series *left = *(struct series *const *)a, *right = *(struct series *const *)b;
    int order = strcmp(left->service, right->service);
    return order ? order : strcmp(left->name, right->name);
}

static int put_all(struct span_cpu *cpu, struct buf *out)
{
    struct series *sorted[SPAN_CPU_SERIES_MAX + 1], *series;
    size_t n = 0;
    for (size_t i = 0; (series = map_next(&cpu->series, &i));)
        sorted[n++] = series;
    if (cpu->rest.time_unix_ns)
        sorted[n++] = &cpu->rest;
    qsort(sorted, n, sizeof(*sorted), cpu_compare);
    int error = 0;
    for (size_t i = 0; !error && i < n; i++)
        error = put_series(out, sorted[i]);
    return error;
}

int span_cpu_openmetrics(struct span_cpu *cpu, struct buf *out)
{
    int error = buf_printf(out, "# TYPE spanprof_span_cpu_seconds counter\n"
                                "# UNIT spanprof_span_cpu_seconds seconds\n"
                                "# HELP spanprof_span_cpu_seconds CPU time within spans, by their "
                                "service and name.\n");
    pthread_mutex_lock(&cpu->lock);
    error = error ? error : put_all(cpu, out);
    pthread_mutex_unlock(&cpu->lock);
    return error ? error : buf_printf(out, "# EOF\n");
}
