/* SPDX-License-Identifier: Apache-2.0 */
#include "store/history/history_encode.h"
#include "store/history/history_busiest.h"
#include <errno.h>
#include <stdlib.h>

/* The end of the trace that begins at `from`, and the trace's CPU time. */
static size_t trace_end(const struct history_content *content, size_t from, uint64_t *cpu_ns)
{
    const struct history_block_span *spans = content->spans;
    size_t end = from;
    *cpu_ns = 0;
    for (; end < content->n_spans && !memcmp(spans[end].trace_id, spans[from].trace_id, 16); end++)
        if (__builtin_add_overflow(*cpu_ns, spans[end].samples ? spans[end].cpu_ns : 0, cpu_ns))
            *cpu_ns = UINT64_MAX;
    return end;
}

static uint64_t encode_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Which traces */

static size_t traces_of_spans(const struct history_content *content,
                              const struct history_chunks *chunks,
                              struct history_index_trace *traces)
{
    size_t n = 0;
    uint32_t chunk = 0;
    uint64_t cpu_ns;
    for (size_t i = 0; i < content->n_spans; i = trace_end(content, i, &cpu_ns)) {
        while (chunk + 1 < chunks->n && i >= chunks->of[chunk + 1].first_span)
            chunk++;
        memcpy(traces[n].trace_id, content->spans[i].trace_id, 16);
        traces[n++].where = (struct history_where){.chunk = chunk};
    }
    return n;
}

/* samples are sorted, so the samples of a trace are adjacent. */
static size_t traces_of_tail(const struct history_content *content,
                             struct history_index_trace *traces)
{
    size_t n = 0;
    for (size_t i = 0; i < content->n_samples; i++) {
        const struct history_context *context = &content->samples[i].context;
        if (context->span != HISTORY_NO_SPAN || bytes_zero(context->trace_id, 16) ||
            (n && !memcmp(traces[n - 1].trace_id, context->trace_id, 16)))
            continue;
        memcpy(traces[n].trace_id, context->trace_id, 16);
        traces[n++].where = (struct history_where){.chunk = HISTORY_NO_CHUNK, .tail = true};
    }
    return n;
}

static int encode_index(struct blob_writer *out, const struct history_content *content,
                        const struct history_chunks *chunks)
{
    struct history_index_trace *traces =
        malloc((content->n_spans + content->n_samples + 1) * sizeof(*traces));
    if (!traces)
        return -ENOMEM;
    size_t n = traces_of_spans(content, chunks, traces);
    n += traces_of_tail(content, traces + n);
    int error = history_index_encode(out, chunks, traces, n);
    free(traces);
    return error;
}

/* How much CPU time they have */

static int encode_busiest(struct blob_writer *out, const struct history_content *content,
                          const struct history_totals *totals)
{
    struct history_busy_trace *traces = malloc((content->n_spans + 1) * sizeof(*traces));
    uint64_t cpu_ns;
    size_t n = 0;
    if (!traces)
        return -ENOMEM;
    for (size_t i = 0, end; i < content->n_spans; i = end) {
        const uint8_t *id = content->spans[i].trace_id;
        end = trace_end(content, i, &cpu_ns);
        if (!cpu_ns)
            continue;
        memcpy(traces[n].trace_id, id, 16);
        traces[n++].cpu_ns = encode_add(cpu_ns, history_totals_get(totals, id));
    }
    int error = history_busiest_encode(out, traces, n);
    free(traces);
    return error;
}

static bool has_root(const struct history_content *content, size_t from, size_t end)
{
    for (; from < end; from++)
        if (content->spans[from].local_root)
            return true;
    return false;
}

void history_encode_total(struct history_totals *totals, const struct history_content *content)
{
    uint64_t cpu_ns;
    history_totals_age(totals);
    for (size_t i = 0, end; i < content->n_spans; i = end) {
        const uint8_t *id = content->spans[i].trace_id;
        end = trace_end(content, i, &cpu_ns);
        if (cpu_ns)
            history_totals_set(totals, id, encode_add(cpu_ns, history_totals_get(totals, id)),
                               has_root(content, i, end));
    }
}

int history_encode(struct blob_writer parts[HISTORY_PARTS], const struct history_content *content,
                   const struct history_totals *totals)
{
    struct history_chunks chunks;
    int error = history_spans_encode(&parts[HISTORY_PART_SPANS], content->spans, content->n_spans,
                                     content->span_attributes, &chunks);
    if (!error)
        error = history_samples_encode(
            &parts[HISTORY_PART_SAMPLES], content->samples, content->n_samples, content->spans,
            content->sample_attributes, content->n_sample_attributes, &chunks);
    if (!error)
        error = encode_index(&parts[HISTORY_PART_TRACES], content, &chunks);
    return error ? error : encode_busiest(&parts[HISTORY_PART_BUSIEST], content, totals);
}
