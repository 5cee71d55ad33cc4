/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_describe.h"
#include "base/clock.h"
#include <time.h>

static int put_range(const struct history_profile *profile, struct buf *text)
{
    time_t from = (time_t)(profile->from_unix_ns / NS_PER_SEC);
    time_t to = (time_t)(profile->to_unix_ns / NS_PER_SEC);
    struct tm tm;
    char begun[32], ended[32];
    const char *form = from / 86400 == to / 86400 ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S";
    if (!gmtime_r(&from, &tm) || !strftime(begun, sizeof(begun), "%Y-%m-%d %H:%M:%S", &tm) ||
        !gmtime_r(&to, &tm) || !strftime(ended, sizeof(ended), form, &tm))
        return 0; /* beyond the range of the calendar */
    return buf_printf(text, ", %s to %s UTC", begun, ended);
}

static int put_texts(const struct history_filter *filter, struct buf *text)
{
    const struct {
        const char *name;
        struct bytes value;
    } texts[] = {{"service", filter->service}, {"span", filter->span_name},
                 {"thread", filter->thread},   {"container", filter->container},
                 {"host", filter->host},       {"function", filter->function}};
    int error = 0;
    for (size_t i = 0; !error && i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].value.len)
            error = buf_printf(text, ", %s %.*s", texts[i].name, (int)texts[i].value.len,
                               (const char *)texts[i].value.data);
    return error;
}

static int put_attributes(const struct history_filter *filter, struct buf *text)
{
    int error = 0;
    for (size_t i = 0; !error && i < filter->n_attributes; i++) {
        const struct history_pair *pair = &filter->attributes[i];
        error = buf_append(text, ", ", 2);
        error = error ? error : buf_append(text, pair->key.data, pair->key.len);
        error = error ? error : buf_append(text, "=", 1);
        error = error ? error : buf_append(text, pair->value.data, pair->value.len);
    }
    return error;
}

static int put_durations(const struct history_filter *filter, struct buf *text)
{
    int error = 0;
    if (filter->min_duration_ns)
        error =
            buf_printf(text, ", traces of %.6g ms and more", (double)filter->min_duration_ns / 1e6);
    if (!error && filter->max_duration_ns)
        error =
            buf_printf(text, ", traces of %.6g ms and less", (double)filter->max_duration_ns / 1e6);
    return error;
}

static int put_ids(const struct history_filter *filter, struct buf *text)
{
    char trace_id[33], span_id[17];
    int error = 0;
    bytes_to_hex(BYTES(filter->trace_id, 16), trace_id);
    bytes_to_hex(BYTES(filter->span_id, 8), span_id);
    if (filter->by_trace)
        error = buf_printf(text, ", trace %s", trace_id);
    if (!error && filter->by_span)
        error = buf_printf(text, ", span %s%s", span_id, filter->alone ? " alone" : "");
    return error;
}

int pages_describe(const struct history_filter *filter, const struct history_profile *profile,
                   struct buf *text)
{
    int error = buf_printf(text, "%s%.3f s of CPU time, %llu samples",
                           profile->complete ? "" : "incomplete: not all was looked through; ",
                           (double)profile->cpu_ns / 1e9, (unsigned long long)profile->samples);
    error = error ? error : put_range(profile, text);
    error = error ? error : put_texts(filter, text);
    if (!error && filter->pid)
        error = buf_printf(text, ", pid %u", filter->pid);
    error = error ? error : put_attributes(filter, text);
    error = error ? error : put_durations(filter, text);
    return error ? error : put_ids(filter, text);
}
