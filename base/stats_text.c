/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to count as text: for Prometheus, and for a reader. */
#include "base/buf.h"
#include "base/stats.h"
#include <stdio.h>
#include <string.h>

/* ---- Prometheus ---- */

struct exposition {
    struct buf *out;
    const char *name; /* of the family being written */
    int outcome;
};

static int write_head(struct buf *out, const struct metric *metric)
{
    int outcome = buf_printf(out, "# HELP %s ", metric->name);
    for (const char *c = metric->help; !outcome && *c; c++)
        outcome = *c == '\\'   ? buf_append(out, "\\\\", 2)
                  : *c == '\n' ? buf_append(out, "\\n", 2)
                               : buf_append(out, c, 1);
    if (outcome)
        return outcome;
    return buf_printf(out, "\n# TYPE %s %s\n", metric->name,
                      metric->kind == STAT_KIND_COUNTER ? "counter" : "gauge");
}

static void write_series(void *context, const struct stat_series *series)
{
    struct exposition *exposition = context;
    const char *name = series->metric->name, *labels = series->labels;
    if (!exposition->outcome && (!exposition->name || strcmp(exposition->name, name)))
        exposition->outcome = write_head(exposition->out, series->metric);
    exposition->name = name;
    if (!exposition->outcome)
        exposition->outcome =
            buf_printf(exposition->out, "%s%s%s%s %lld\n", name, *labels ? "{" : "", labels,
                       *labels ? "}" : "", (long long)series->value);
}

int stats_prometheus(struct buf *out)
{
    struct exposition exposition = {.out = out};
    int error = stats_each(write_series, &exposition);
    return error ? error : exposition.outcome;
}

/* ---- docs/metrics.md ---- */

static const char introduction[] =
    "<!-- Generated from the declarations in the sources: spanprof print-metrics -->\n"
    "# Metrics\n"
    "\n"
    "`/metrics` at `service::telemetry::metrics::address` (localhost:8888) serves all of these in\n"
    "Prometheus' text format, from the start on and with 0 where nothing was counted yet. They\n"
    "stand under the part of the program that counts them.\n"
    "\n"
    "A **loss** is a counter of something that was there and is missing now, or comes late or\n"
    "poorer than it could; the Status page shows those that are not 0. Where only some values of\n"
    "a label are losses in all their series, they are marked.\n"
    "\n"
    "With `service::telemetry::metrics::spans: true`, `/metrics/spans` at the same address serves\n"
    "`spanprof_span_cpu_seconds_total` by `service_name` and `span_name`, see [api.md](api.md).\n";

struct reference {
    struct buf *out;
    char area[STAT_TEXT_MAX]; /* being written; "" before the first */
    char next[STAT_TEXT_MAX]; /* the least that comes after it; "" = none */
    int outcome;
};

/* The folder of the source that declares it. The compiler may know sources by a longer path. */
static void area_of(const struct metric *metric, char area[STAT_TEXT_MAX])
{
    size_t root = sizeof(__FILE__) - sizeof("base/stats_text.c");
    const char *path = metric->file, *end;
    if (!strncmp(path, __FILE__, root))
        path += root;
    end = strrchr(path, '/');
    snprintf(area, STAT_TEXT_MAX, "%.*s", end ? (int)(end - path) : 1, end ? path : ".");
}

static const char *unit_of(const struct metric *metric)
{
    static const char *const units[] = {"bytes", "nanoseconds", "seconds", "hz"};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        const char *found = strstr(metric->name, units[i]);
        size_t len = strlen(units[i]);
        if (found && found[-1] == '_' && (!found[len] || !strcmp(found + len, "_total")))
            return units[i];
    }
    return "";
}

/* Each series with this value of the label counts a loss. */
static bool is_loss(const struct metric *metric, unsigned which, unsigned value)
{
    unsigned n2 = metric->label[1].n ? metric->label[1].n : 1;
    for (unsigned i = 0; i < metric->n; i++)
        if ((which ? i % n2 : i / n2) == value &&
            !((metric->losses | metric->absent) & STAT_BIT(i)))
            return false;
    return true;
}

/* `label`: `value`, `value` */
static int write_label(struct buf *out, const struct metric *metric, unsigned which)
{
    const struct stat_label *label = &metric->label[which];
    bool marked = metric->losses && metric->losses != UINT64_MAX;
    int outcome = buf_printf(out, "%s`%s`:", which ? "; " : "", label->name);
    const char *comma = "";
    for (unsigned i = 0; i < label->n && !outcome; i++) {
        if (!stat_has_value(metric, which, i))
            continue;
        outcome = buf_printf(out, "%s `%s`%s", comma, label->values[i],
                             marked && is_loss(metric, which, i) ? " (loss)" : "");
        comma = ",";
    }
    return outcome;
}

static int write_metric(struct buf *out, const struct metric *metric)
{
    int outcome = buf_printf(out, "| `%s` | %s | ", metric->name,
                             metric->kind == STAT_KIND_GAUGE ? "gauge"
                             : metric->losses == UINT64_MAX  ? "loss"
                                                             : "counter");
    for (unsigned i = 0; i < STAT_LABELS_MAX && metric->label[i].n && !outcome; i++)
        outcome = write_label(out, metric, i);
    if (!outcome)
        outcome = buf_printf(out, " | %s | ", unit_of(metric));
    for (const char *c = metric->help; *c && !outcome; c++)
        outcome = *c == '|'    ? buf_append(out, "\\|", 2)
                  : *c == '\n' ? buf_append(out, " ", 1)
                               : buf_append(out, c, 1);
    return outcome ? outcome : buf_append(out, " |\n", 3);
}

static void find_next_area(void *context, const struct metric *metric)
{
    struct reference *reference = context;
    char area[STAT_TEXT_MAX];
    area_of(metric, area);
    if (strcmp(area, reference->area) > 0 &&
        (!*reference->next || strcmp(area, reference->next) < 0))
        memcpy(reference->next, area, sizeof(area));
}

static void write_if_of_area(void *context, const struct metric *metric)
{
    struct reference *reference = context;
    char area[STAT_TEXT_MAX];
    area_of(metric, area);
    if (!reference->outcome && !strcmp(area, reference->area))
        reference->outcome = write_metric(reference->out, metric);
}

int stats_markdown(struct buf *out)
{
    struct reference reference = {.out = out};
    stats_assert_sound();
    reference.outcome = buf_append(out, introduction, sizeof(introduction) - 1);
    int error = stats_each_metric(find_next_area, &reference);
    while (!error && !reference.outcome && *reference.next) {
        memcpy(reference.area, reference.next, sizeof(reference.area));
        *reference.next = '\0';
        reference.outcome = buf_printf(out,
                                       "\n## %s\n\n"
                                       "| Metric | Type | Labels | Unit | Meaning |\n"
                                       "|---|---|---|---|---|\n",
                                       reference.area);
        error = stats_each_metric(write_if_of_area, &reference);
        if (!error)
            error = stats_each_metric(find_next_area, &reference);
    }
    return error ? error : reference.outcome;
}
