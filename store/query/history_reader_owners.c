/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample that has not joined its span carries ids that its process published, which may be
 * another tenant's. It counts in a trace only if its process has made the span, as the join found
 * for other samples of the span; or, while the span has not come, another span of the trace. Of a
 * trace without any span the samples are all that is known.
 */
#include "store/query/history_reader_state.h"
#include <errno.h>

struct owned_span {
    uint8_t span_id[8];
    uint32_t pid; /* 0 = not known */
};

struct owner_process {
    uint32_t pid;
};

void reader_owners_open(struct reader_owners *owners)
{
    MAP_INIT(&owners->spans, struct owned_span, span_id);
    MAP_INIT(&owners->processes, struct owner_process, pid);
    owners->any = false;
}

void reader_owners_close(struct reader_owners *owners)
{
    map_close(&owners->spans);
    map_close(&owners->processes);
}

static int owners_add_process(struct reader_owners *owners, struct arena *scratch, uint32_t pid)
{
    if (!pid || map_get(&owners->processes, &pid))
        return 0;
    struct owner_process *process = arena_zalloc(scratch, sizeof(*process));
    if (!process)
        return -ENOMEM;
    process->pid = pid;
    return map_put(&owners->processes, process, NULL);
}

int reader_owners_add(struct reader_owners *owners, struct history_reader *reader,
                      const struct history_block_span *span)
{
    struct reader_series *series;
    int error = reader_series(reader, span->series, &series);
    if (error)
        return error;
    owners->any = true;
    struct owned_span *owned = map_get(&owners->spans, span->span_id);
    if (!owned) {
        owned = arena_zalloc(&reader->scratch, sizeof(*owned));
        if (!owned)
            return -ENOMEM;
        memcpy(owned->span_id, span->span_id, 8);
        error = map_put(&owners->spans, owned, NULL);
    }
    if (series->facts.pid)
        owned->pid = series->facts.pid;
    return error ? error : owners_add_process(owners, &reader->scratch, series->facts.pid);
}

bool reader_owners_pass(const struct reader_owners *owners, const struct history_context *context,
                        uint32_t pid)
{
    if (context->matched || !owners->any)
        return true;
    const struct owned_span *owned = map_get(&owners->spans, context->span_id);
    return pid && (owned ? owned->pid == pid : map_get(&owners->processes, &pid) != NULL);
}
