/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names with CPU time come from groups. Most spans have no CPU time of their own (the span of a
 * request often only waits for its children), so the names of the latest traces are appended.
 */
#include "store/query/history_reader.h"
#include <errno.h>

#define TRACES_MAX 500

static const enum history_group groups_by[] = {
    [HISTORY_SERVICES] = HISTORY_BY_SERVICE, [HISTORY_SPAN_NAMES] = HISTORY_BY_SPAN_NAME,
    [HISTORY_THREADS] = HISTORY_BY_THREAD,   [HISTORY_CONTAINERS] = HISTORY_BY_CONTAINER,
    [HISTORY_HOSTS] = HISTORY_BY_HOST,
};

static void texts_add(struct bytes *texts, size_t *n, struct bytes text)
{
    if (!text.len)
        return;
    for (size_t i = 0; i < *n; i++)
        if (bytes_equal(texts[i], text))
            return;
    texts[(*n)++] = text;
}

int history_texts(struct history_reader *reader, const struct history_filter *filter,
                  enum history_text text, struct arena *arena, struct bytes **texts, size_t *n)
{
    struct history_groups groups;
    struct history_traces traces = {0};
    *n = 0;
    int error = history_groups(reader, filter, groups_by[text], 0, arena, &groups);
    if (!error && (text == HISTORY_SERVICES || text == HISTORY_SPAN_NAMES))
        error = history_traces(reader, filter, HISTORY_LATEST, TRACES_MAX, arena, &traces);
    if (error)
        return error;
    *texts = arena_alloc(arena, (groups.n + traces.n) * sizeof(**texts));
    if (!*texts)
        return -ENOMEM;
    for (size_t i = 0; i < groups.n; i++)
        texts_add(*texts, n, groups.series[i].name);
    for (size_t i = 0; i < traces.n; i++)
        texts_add(*texts, n,
                  text == HISTORY_SERVICES ? traces.traces[i].service : traces.traces[i].name);
    return 0;
}
