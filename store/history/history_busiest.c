/* SPDX-License-Identifier: Apache-2.0 */
#include "store/history/history_busiest.h"
#include <errno.h>
#include <stdlib.h>

#define PART_OF_TRACES 32 /* 1 of PART_OF_TRACES traces is written */
#define WRITTEN_MIN    8

int history_busiest_compare(const void *left, const void *right)
{
    const struct history_busy_trace *a = left, *b = right;
    if (a->cpu_ns != b->cpu_ns)
        return a->cpu_ns > b->cpu_ns ? -1 : 1;
    return memcmp(a->trace_id, b->trace_id, 16);
}

static size_t written_of(size_t n)
{
    size_t written = n / PART_OF_TRACES;
    if (written < WRITTEN_MIN)
        written = WRITTEN_MIN;
    if (written > HISTORY_BUSIEST_MAX)
        written = HISTORY_BUSIEST_MAX;
    return written < n ? written : n;
}

int history_busiest_encode(struct blob_writer *out, struct history_busy_trace *traces, size_t n)
{
    size_t written = written_of(n);
    uint64_t before = 0;
    if (n)
        qsort(traces, n, sizeof(*traces), history_busiest_compare);
    blob_put_number(out, (uint64_t)written << 1 | (written == n));
    for (size_t i = 0; i < written; i++) {
        uint64_t cpu_ns = traces[i].cpu_ns;
        blob_put_number(out, i ? before - cpu_ns : cpu_ns);
        blob_put_fixed(out, traces[i].trace_id, 16);
        before = cpu_ns;
    }
    return out->error;
}

int history_busiest_open(struct history_busiest *busiest, struct bytes body)
{
    *busiest = (struct history_busiest){.in = {.left = body}};
    uint64_t head = blob_get_number(&busiest->in);
    busiest->is_all = head & 1;
    busiest->left = head >> 1;
    return busiest->in.bad || busiest->left > HISTORY_BUSIEST_MAX ? -EUCLEAN : 0;
}

int history_busiest_next(struct history_busiest *busiest)
{
    struct history_busy_trace *trace = &busiest->trace;
    if (!busiest->left)
        return 0;
    busiest->left--;
    uint64_t number = blob_get_number(&busiest->in);
    busiest->in.bad |= busiest->has_begun && number > trace->cpu_ns;
    trace->cpu_ns = busiest->has_begun ? trace->cpu_ns - number : number;
    busiest->has_begun = true;
    blob_get_fixed(&busiest->in, trace->trace_id, 16);
    return busiest->in.bad ? -EUCLEAN : 1;
}
