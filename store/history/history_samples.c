/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding: a context, then its groups, then their times; each is a difference to the previous one.
 * The first context of a chunk or of the tail is encoded in full.
 */
#include "store/history/history_samples.h"
#include <errno.h>
#include <stdlib.h>

enum context_flag {
    CONTEXT_BLOCK_SPAN = 1 << 0, /* its ids are those of a span in this block */
    CONTEXT_JOINED = 1 << 1,
    CONTEXT_TRACE = 1 << 2,
    CONTEXT_ROOT_IS_PARENT = 1 << 2, /* with CONTEXT_BLOCK_SPAN: root = the span's parent */
    CONTEXT_SAME_TRACE = 1 << 3,     /* as the context before */
    CONTEXT_SPAN = 1 << 4,
    CONTEXT_ROOT = 1 << 5,
    CONTEXT_SAME_ROOT = 1 << 6, /* as the context before; with CONTEXT_ROOT: is its own span id */
    CONTEXT_STARTS_CHUNK = 1 << 7, /* encoded in full: a chunk or the tail begins */
    CONTEXT_FLAGS = 8
};

enum group_flag {
    GROUP_PERIOD = 1 << 0, /* differs from the previous group */
    GROUP_VALUES = 1 << 1, /* a value per sample, different from the period */
    GROUP_FLAGS = 2
};

#define ATTRIBUTES_NONE  0
#define ATTRIBUTES_NEW   1
#define ATTRIBUTES_KNOWN 2 /* and the index of the earlier one */

static bool is_id(int64_t id)
{
    return id >= 0 && id < INT64_MAX / 2;
}

/* Decoding */

int history_samples_open(struct history_samples *groups, struct bytes body,
                         const struct history_block_span *spans, size_t n_spans)
{
    *groups = (struct history_samples){.spans = spans, .n_spans = n_spans, .in = {.left = body}};
    groups->base_unix_ns = blob_get_number(&groups->in);
    groups->samples_left = blob_get_number(&groups->in);
    groups->group.context.span = HISTORY_NO_SPAN;
    bool bad = groups->in.bad || groups->samples_left > HISTORY_BLOCK_SAMPLES_MAX;
    return bad ? -EUCLEAN : 0;
}

void history_samples_open_chunk(struct history_samples *groups, struct bytes chunk,
                                const struct history_block_span *spans, size_t first_span,
                                size_t n_spans)
{
    *groups = (struct history_samples){.spans = spans,
                                       .first_span = first_span,
                                       .n_spans = n_spans,
                                       .is_chunk = true,
                                       .in = {.left = chunk},
                                       .samples_left = HISTORY_BLOCK_SAMPLES_MAX};
    groups->group.context.span = HISTORY_NO_SPAN;
}

void history_samples_close(struct history_samples *groups)
{
    free(groups->attributes);
    *groups = (struct history_samples){0};
}

static const struct history_block_span *span_of(const struct history_samples *groups,
                                                const struct history_context *context)
{
    size_t index = context->span - groups->first_span;
    bool known = context->span != HISTORY_NO_SPAN && context->span >= groups->first_span &&
                 index < groups->n_spans;
    return known && groups->spans ? &groups->spans[index] : NULL;
}

static void get_block_span(struct history_samples *groups, struct history_context *context)
{
    uint64_t further = blob_get_number32(&groups->in);
    uint64_t span = context->span == HISTORY_NO_SPAN ? further : context->span + further;
    if (span < groups->first_span || span - groups->first_span >= groups->n_spans) {
        groups->in.bad = true;
        return;
    }
    context->span = (uint32_t)span;
    const struct history_block_span *of = span_of(groups, context);
    if (!of) {
        memset(context->trace_id, 0, 16);
        memset(context->span_id, 0, 8);
        return;
    }
    memcpy(context->trace_id, of->trace_id, 16);
    memcpy(context->span_id, of->span_id, 8);
}

static void get_ids(struct history_samples *groups, uint64_t flags, struct history_context *context)
{
    context->span = HISTORY_NO_SPAN;
    if (flags & CONTEXT_TRACE)
        blob_get_fixed(&groups->in, context->trace_id, 16);
    else if (!(flags & CONTEXT_SAME_TRACE))
        memset(context->trace_id, 0, 16);
    if (flags & CONTEXT_SPAN)
        blob_get_fixed(&groups->in, context->span_id, 8);
    else
        memset(context->span_id, 0, 8);
}

static void get_root(struct history_samples *groups, uint64_t flags,
                     struct history_context *context)
{
    bool root = flags & CONTEXT_ROOT, same = flags & CONTEXT_SAME_ROOT;
    bool parent = flags & CONTEXT_BLOCK_SPAN && flags & CONTEXT_ROOT_IS_PARENT;
    const struct history_block_span *span = span_of(groups, context);
    if (parent && span)
        memcpy(context->local_root_id, span->parent_id, 8);
    else if (root && same)
        memcpy(context->local_root_id, context->span_id, 8);
    else if (root)
        blob_get_fixed(&groups->in, context->local_root_id, 8);
    else if (parent || !same)
        memset(context->local_root_id, 0, 8);
}

static void begin_anew(struct history_samples *groups)
{
    groups->group.context = (struct history_context){.span = HISTORY_NO_SPAN};
    groups->group.period_ns = 0;
    groups->n_attributes = 0;
}

static void get_context(struct history_samples *groups)
{
    struct history_context *context = &groups->group.context;
    uint64_t head = blob_get_number(&groups->in), n = head >> CONTEXT_FLAGS;
    if (!n || n > groups->samples_left)
        groups->in.bad = true;
    groups->groups_left = (uint32_t)n;
    if (head & CONTEXT_STARTS_CHUNK)
        begin_anew(groups);
    context->matched = head & CONTEXT_JOINED;
    if (head & CONTEXT_BLOCK_SPAN)
        get_block_span(groups, context);
    else
        get_ids(groups, head, context);
    get_root(groups, head, context);
    groups->group.series = groups->group.stack = 0;
    groups->group.tid = 0;
}

static int history_samples_remember(struct history_samples *groups, struct bytes attributes)
{
    if (groups->n_attributes == groups->cap_attributes) {
        size_t cap = groups->cap_attributes ? groups->cap_attributes * 2 : 32;
        struct bytes *larger = realloc(groups->attributes, cap * sizeof(*larger));
        if (!larger)
            return -ENOMEM;
        groups->attributes = larger;
        groups->cap_attributes = cap;
    }
    groups->attributes[groups->n_attributes++] = attributes;
    return 0;
}

static int get_attributes(struct history_samples *groups, struct bytes *attributes)
{
    uint64_t which = blob_get_number(&groups->in);
    *attributes = BYTES(NULL, 0);
    if (which == ATTRIBUTES_NONE)
        return 0;
    if (which == ATTRIBUTES_NEW) {
        *attributes = blob_get_bytes(&groups->in);
        return groups->in.bad ? -EUCLEAN : history_samples_remember(groups, *attributes);
    }
    if (which - ATTRIBUTES_KNOWN >= groups->n_attributes)
        return -EUCLEAN;
    *attributes = groups->attributes[which - ATTRIBUTES_KNOWN];
    return 0;
}

struct history_group_times history_times_of(const struct history_samples *groups,
                                            const struct history_sample_group *group)
{
    return (struct history_group_times){.in = {.left = group->samples},
                                        .left = group->n,
                                        .time_unix_ns = groups->base_unix_ns,
                                        .period_ns = group->period_ns,
                                        .uniform = group->uniform};
}

bool history_times_next(struct history_group_times *times, uint64_t *time_unix_ns,
                        uint64_t *value_ns)
{
    uint64_t after;
    if (!times->left)
        return false;
    times->left--;
    bool wraps = __builtin_mul_overflow(blob_get_number(&times->in), HISTORY_TICK_NS, &after);
    wraps |= __builtin_add_overflow(times->time_unix_ns, after, &times->time_unix_ns);
    *time_unix_ns = times->time_unix_ns;
    *value_ns = times->uniform ? times->period_ns : blob_get_number(&times->in);
    times->in.bad |= wraps;
    return !times->in.bad;
}

/* Skips the group's samples to the next group, and sums them up. */
static int get_samples(struct history_samples *groups)
{
    struct history_sample_group *group = &groups->group;
    uint64_t time, value;
    group->samples = groups->in.left;
    group->value_ns = 0;
    struct history_group_times times = history_times_of(groups, group);
    while (history_times_next(&times, &time, &value))
        times.in.bad |= __builtin_add_overflow(group->value_ns, value, &group->value_ns);
    if (times.in.bad)
        return -EUCLEAN;
    groups->in = times.in;
    group->samples.len -= times.in.left.len;
    groups->samples_left -= group->n;
    return 0;
}

static int64_t blob_reader_further(struct blob_reader *in, int64_t before)
{
    return (int64_t)((uint64_t)before + (uint64_t)blob_get_signed(in));
}

static int get_group(struct history_samples *groups)
{
    struct history_sample_group *group = &groups->group;
    struct blob_reader *in = &groups->in;
    group->series = blob_reader_further(in, group->series);
    int64_t tid = blob_reader_further(in, group->tid);
    group->tid = (uint32_t)tid;
    group->stack = blob_reader_further(in, group->stack);
    int error = get_attributes(groups, &group->attributes);
    if (error)
        return error;
    uint64_t head = blob_get_number(in), n = head >> GROUP_FLAGS;
    if (head & GROUP_PERIOD)
        group->period_ns = blob_get_number(in);
    if (in->bad || !n || n > groups->samples_left || tid < 0 || tid > UINT32_MAX ||
        !is_id(group->series) || !is_id(group->stack))
        return -EUCLEAN;
    group->n = (uint32_t)n;
    group->uniform = !(head & GROUP_VALUES);
    groups->groups_left--;
    return get_samples(groups);
}

int history_samples_next(struct history_samples *groups, const struct history_sample_group **group)
{
    if (!groups->groups_left && (groups->is_chunk ? !groups->in.left.len : !groups->samples_left))
        return 0;
    if (!groups->groups_left)
        get_context(groups);
    if (groups->in.bad)
        return -EUCLEAN;
    int error = get_group(groups);
    if (error)
        return error;
    *group = &groups->group;
    return 1;
}

/* Encoding */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Samples without a trace come last. */
static int compare_traces(const uint8_t a[16], const uint8_t b[16])
{
    int order = memcmp(a, b, 16);
    if (order && (bytes_zero(a, 16) || bytes_zero(b, 16)))
        return -order;
    return order;
}

static int compare_contexts(const struct history_context *a, const struct history_context *b)
{
    int order = compare_numbers(a->span, b->span); /* HISTORY_NO_SPAN comes last */
    if (!order)
        order = compare_traces(a->trace_id, b->trace_id);
    if (!order)
        order = memcmp(a->span_id, b->span_id, 8);
    if (!order)
        order = memcmp(a->local_root_id, b->local_root_id, 8);
    return order ? order : a->matched - b->matched;
}

static int compare_groups(const struct history_sample *a, const struct history_sample *b)
{
    int order = compare_contexts(&a->context, &b->context);
    if (!order)
        order = compare_numbers((uint64_t)a->series, (uint64_t)b->series);
    if (!order)
        order = compare_numbers(a->tid, b->tid);
    if (!order)
        order = compare_numbers((uint64_t)a->stack, (uint64_t)b->stack);
    if (!order)
        order = compare_numbers(a->attributes, b->attributes);
    return order ? order : compare_numbers(a->period_ns, b->period_ns);
}

static int compare_samples(const void *a, const void *b)
{
    const struct history_sample *x = a, *y = b;
    int order = compare_groups(x, y);
    return order ? order : compare_numbers(x->time_unix_ns, y->time_unix_ns);
}

struct encoding {
    struct blob_writer *out;
    const struct history_block_span *spans;
    const struct bytes *attributes;
    uint32_t *written;  /* per attributes: 1-based order in which they were written */
    uint32_t n_written; /* total number of written attributes */
    uint32_t before;    /* number written before the current chunk */
    uint64_t base_unix_ns;
    uint64_t period_ns; /* of the previous group */
    struct history_chunks *chunks;
    size_t n_chunks; /* chunks begun; the tail counts as one */
    size_t body_at;  /* offset of the body in `out` */
};

static const uint8_t no_id[16];

static uint64_t ids_flags(const struct history_context *context,
                          const struct history_context *before)
{
    uint64_t flags = 0;
    if (!memcmp(context->trace_id, before->trace_id, 16))
        flags |= CONTEXT_SAME_TRACE;
    else if (memcmp(context->trace_id, no_id, 16) != 0)
        flags |= CONTEXT_TRACE;
    if (memcmp(context->span_id, no_id, 8) != 0)
        flags |= CONTEXT_SPAN;
    return flags;
}

static uint64_t root_flags(const struct encoding *encoding, const struct history_context *context,
                           const struct history_context *before)
{
    const uint8_t *root = context->local_root_id;
    if (!memcmp(root, no_id, 8))
        return 0;
    if (!memcmp(root, before->local_root_id, 8))
        return CONTEXT_SAME_ROOT;
    if (!memcmp(root, context->span_id, 8))
        return CONTEXT_ROOT | CONTEXT_SAME_ROOT;
    if (context->span != HISTORY_NO_SPAN &&
        !memcmp(root, encoding->spans[context->span].parent_id, 8))
        return CONTEXT_ROOT_IS_PARENT;
    return CONTEXT_ROOT;
}

static uint64_t context_flags(const struct encoding *encoding,
                              const struct history_context *context,
                              const struct history_context *before)
{
    uint64_t flags = context->matched ? CONTEXT_JOINED : 0;
    flags |= context->span != HISTORY_NO_SPAN ? CONTEXT_BLOCK_SPAN : ids_flags(context, before);
    return flags | root_flags(encoding, context, before);
}

/* True if `span` is the first of a chunk or of the tail. */
static bool begins_chunk(struct encoding *encoding, uint32_t span)
{
    struct history_chunks *chunks = encoding->chunks;
    size_t before = encoding->n_chunks;
    while (encoding->n_chunks <= chunks->n &&
           (span == HISTORY_NO_SPAN ||
            (encoding->n_chunks < chunks->n && span >= chunks->of[encoding->n_chunks].first_span)))
        chunks->of[encoding->n_chunks++].samples_at =
            (uint32_t)(encoding->out->buf.len - encoding->body_at);
    return encoding->n_chunks > before;
}

static void put_context(struct encoding *encoding, const struct history_context *context,
                        const struct history_context *before, uint64_t n_groups)
{
    static const struct history_context none = {.span = HISTORY_NO_SPAN};
    struct blob_writer *out = encoding->out;
    bool starts_chunk = begins_chunk(encoding, context->span);
    if (starts_chunk) {
        before = &none;
        encoding->period_ns = 0;
        encoding->before = encoding->n_written;
    }
    uint64_t flags =
        context_flags(encoding, context, before) | (starts_chunk ? CONTEXT_STARTS_CHUNK : 0);
    bool has_block_span = flags & CONTEXT_BLOCK_SPAN;
    blob_put_number(out, n_groups << CONTEXT_FLAGS | flags);
    if (has_block_span)
        blob_put_number(out, context->span - (before->span == HISTORY_NO_SPAN ? 0 : before->span));
    if (!has_block_span && flags & CONTEXT_TRACE)
        blob_put_fixed(out, context->trace_id, 16);
    if (flags & CONTEXT_SPAN)
        blob_put_fixed(out, context->span_id, 8);
    if ((flags & (CONTEXT_ROOT | CONTEXT_SAME_ROOT)) == CONTEXT_ROOT)
        blob_put_fixed(out, context->local_root_id, 8);
}

static void put_attributes(struct encoding *encoding, uint32_t number)
{
    if (!number) {
        blob_put_number(encoding->out, ATTRIBUTES_NONE);
        return;
    }
    uint32_t *written = &encoding->written[number - 1];
    if (*written > encoding->before) {
        blob_put_number(encoding->out, ATTRIBUTES_KNOWN + *written - encoding->before - 1);
        return;
    }
    *written = ++encoding->n_written;
    blob_put_number(encoding->out, ATTRIBUTES_NEW);
    blob_put_bytes(encoding->out, encoding->attributes[number - 1]);
}

static bool is_uniform(const struct history_sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (samples[i].value_ns != samples[i].period_ns)
            return false;
    return true;
}

static void put_samples(struct encoding *encoding, const struct history_sample *samples, size_t n,
                        bool uniform)
{
    uint64_t before = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t ticks = (samples[i].time_unix_ns - encoding->base_unix_ns) / HISTORY_TICK_NS;
        blob_put_number(encoding->out, ticks - before);
        if (!uniform)
            blob_put_number(encoding->out, samples[i].value_ns);
        before = ticks;
    }
}

static void put_group(struct encoding *encoding, const struct history_sample *samples, size_t n,
                      const struct history_sample *before)
{
    struct blob_writer *out = encoding->out;
    bool uniform = is_uniform(samples, n), other_period = samples->period_ns != encoding->period_ns;
    blob_put_signed(out, samples->series - before->series);
    blob_put_signed(out, (int64_t)samples->tid - (int64_t)before->tid);
    blob_put_signed(out, samples->stack - before->stack);
    put_attributes(encoding, samples->attributes);
    blob_put_number(out, (uint64_t)n << GROUP_FLAGS | (uniform ? 0 : GROUP_VALUES) |
                             (other_period ? GROUP_PERIOD : 0));
    if (other_period)
        blob_put_number(out, samples->period_ns);
    encoding->period_ns = samples->period_ns;
    put_samples(encoding, samples, n, uniform);
}

static size_t group_end(const struct history_sample *samples, size_t from, size_t n)
{
    size_t end = from + 1;
    while (end < n && !compare_groups(&samples[from], &samples[end]))
        end++;
    return end;
}

static size_t context_end(const struct history_sample *samples, size_t from, size_t n,
                          uint64_t *n_groups)
{
    size_t at = from;
    for (*n_groups = 0; at < n && !compare_contexts(&samples[from].context, &samples[at].context);
         ++*n_groups)
        at = group_end(samples, at, n);
    return at;
}

static void put_groups(struct encoding *encoding, const struct history_sample *samples, size_t n)
{
    static const struct history_sample none;
    const struct history_sample *before = &none;
    for (size_t i = 0, end; i < n; i = end) {
        end = group_end(samples, i, n);
        put_group(encoding, &samples[i], end - i, before);
        before = &samples[i];
    }
}

static uint64_t history_sample_earliest(const struct history_sample *samples, size_t n)
{
    uint64_t time = n ? UINT64_MAX : 0;
    for (size_t i = 0; i < n; i++)
        if (samples[i].time_unix_ns < time)
            time = samples[i].time_unix_ns;
    return time;
}

static void put_contexts(struct encoding *encoding, const struct history_sample *samples, size_t n)
{
    struct history_context before = {.span = HISTORY_NO_SPAN};
    for (size_t i = 0, end; i < n; i = end) {
        uint64_t n_groups;
        end = context_end(samples, i, n, &n_groups);
        put_context(encoding, &samples[i].context, &before, n_groups);
        put_groups(encoding, &samples[i], end - i);
        before = samples[i].context;
    }
    begins_chunk(encoding, HISTORY_NO_SPAN); /* chunks without samples end here */
}

int history_samples_encode(struct blob_writer *out, struct history_sample *samples, size_t n,
                           const struct history_block_span *spans, const struct bytes *attributes,
                           size_t n_attributes, struct history_chunks *chunks)
{
    struct encoding encoding = {.out = out,
                                .spans = spans,
                                .attributes = attributes,
                                .chunks = chunks,
                                .body_at = out->buf.len};
    encoding.written = calloc(n_attributes + 1, sizeof(*encoding.written));
    if (!encoding.written)
        return -ENOMEM;
    if (n)
        qsort(samples, n, sizeof(*samples), compare_samples);
    encoding.base_unix_ns = history_sample_earliest(samples, n);
    blob_put_number(out, encoding.base_unix_ns);
    blob_put_number(out, n);
    put_contexts(&encoding, samples, n);
    free(encoding.written);
    return out->error;
}
