/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A span is encoded as the difference to earlier spans: its trace, its parent (longer, so mostly
 * earlier), its times, and its attributes, which refer to their first occurrence. The first span of
 * a trace is a difference to the previous trace, except in the first trace of a chunk. So a prefix,
 * and a chunk, can be decoded alone.
 */
#include "store/history/history_spans.h"
#include "store/history/history_contents.h"
#include <errno.h>
#include <stdlib.h>

enum trace_flag {
    TRACE_STARTS_CHUNK = 1 << 0, /* a chunk begins: its first span is encoded in full */
    TRACE_FLAGS = 1
};

enum flag {
    FLAG_ERROR = 1 << 0,
    FLAG_LOCAL_ROOT = 1 << 1,
    FLAG_PARENT = 1 << 2,
    FLAG_PARENT_BEFORE = 1 << 3, /* the parent is an earlier span of the trace */
    FLAG_ATTRIBUTES = 1 << 4,
    FLAG_ATTRIBUTES_BEFORE = 1 << 5, /* as an earlier span's: their offset in the body */
};

/* Decoding */

struct decoding {
    struct blob_reader in;
    struct bytes body; /* empty: attributes cannot be looked up */
    const struct history_block_spans *spans;
    size_t left; /* spans of the current trace, including this one */
    bool starts_chunk;
    uint64_t period_ns, base_unix_ns;
};

static bool is_first(const struct decoding *decoding)
{
    return !decoding->spans->trace_left;
}

static void get_trace(struct decoding *decoding, size_t total, struct history_block_span *span)
{
    struct blob_reader *in = &decoding->in;
    decoding->starts_chunk = false;
    decoding->left = decoding->spans->trace_left;
    if (!is_first(decoding)) {
        memcpy(span->trace_id, span[-1].trace_id, 16);
        return;
    }
    uint64_t head = blob_get_number(in), n = head >> TRACE_FLAGS;
    blob_get_fixed(in, span->trace_id, 16);
    decoding->starts_chunk = head & TRACE_STARTS_CHUNK;
    decoding->left = n;
    in->bad |=
        !n || n > total - decoding->spans->n || (!decoding->starts_chunk && !decoding->spans->n);
}

static void get_ids(struct decoding *decoding, uint64_t flags, struct history_block_span *span)
{
    const struct history_block_spans *spans = decoding->spans;
    struct blob_reader *in = &decoding->in;
    blob_get_fixed(in, span->span_id, 8);
    if (!(flags & FLAG_PARENT))
        return;
    if (!(flags & FLAG_PARENT_BEFORE)) {
        blob_get_fixed(in, span->parent_id, 8);
        return;
    }
    uint64_t distance = blob_get_number(in);
    if (distance && !is_first(decoding) && distance <= spans->n - spans->trace_from)
        memcpy(span->parent_id, (span - distance)->span_id, 8);
    else
        in->bad = true;
}

/* The span that its times are a difference to; NULL: none. */
static const struct history_block_span *decoding_before(const struct decoding *decoding,
                                                        const struct history_block_span *span)
{
    if (!is_first(decoding))
        return span - 1;
    return decoding->starts_chunk ? NULL : &decoding->spans->spans[decoding->spans->trace_from];
}

static void get_times(struct decoding *decoding, struct history_block_span *span)
{
    struct blob_reader *in = &decoding->in;
    const struct history_block_span *from = decoding_before(decoding, span);
    uint64_t end = from ? from->start_unix_ns + from->duration_ns : decoding->base_unix_ns;
    uint64_t duration = blob_get_number(in);
    if (from) {
        in->bad |= duration > from->duration_ns;
        duration = from->duration_ns - duration;
    }
    end += (uint64_t)blob_get_signed(in);
    span->duration_ns = duration;
    span->start_unix_ns = end - duration;
    span->longest_ns = is_first(decoding) ? duration : span[-1].longest_ns;
    in->bad |= end < duration || (decoding->spans->n && span->longest_ns > span[-1].longest_ns);
}

static struct bytes attributes_before(struct decoding *decoding)
{
    struct bytes body = decoding->body;
    uint64_t at = blob_get_number(&decoding->in);
    if (!body.data)
        return body;
    if (at >= (size_t)(decoding->in.left.data - body.data)) {
        decoding->in.bad = true;
        return body;
    }
    struct blob_reader in = {.left = BYTES(body.data + at, body.len - at)};
    struct bytes attributes = blob_get_bytes(&in);
    decoding->in.bad |= in.bad;
    return attributes;
}

static void get_attributes(struct decoding *decoding, uint64_t flags,
                           struct history_block_span *span)
{
    struct bytes attributes;
    if (!(flags & FLAG_ATTRIBUTES))
        return;
    if (flags & FLAG_ATTRIBUTES_BEFORE)
        attributes = attributes_before(decoding);
    else
        attributes = blob_get_bytes(&decoding->in);
    if (decoding->in.bad || !decoding->body.data)
        return;
    span->attributes_at = (uint32_t)(attributes.data - decoding->body.data);
    span->attributes_len = (uint32_t)attributes.len;
}

static bool get_span(struct decoding *decoding, size_t total, struct history_block_span *span)
{
    struct blob_reader *in = &decoding->in;
    *span = (struct history_block_span){0};
    get_trace(decoding, total, span);
    if (in->bad)
        return false;
    uint64_t flags = blob_get_number(in);
    span->error = flags & FLAG_ERROR;
    span->local_root = flags & FLAG_LOCAL_ROOT;
    get_ids(decoding, flags, span);
    span->series = (int64_t)blob_get_number(in);
    in->bad |= span->series < 0 || span->series > INT64_MAX / 2;
    get_times(decoding, span);
    span->samples = blob_get_number(in);
    if (span->samples)
        span->cpu_ns = span->samples * decoding->period_ns + (uint64_t)blob_get_signed(in);
    get_attributes(decoding, flags, span);
    return !in->bad;
}

static int make_room(struct history_block_spans *spans, size_t want)
{
    size_t cap = spans->cap ? spans->cap * 2 : 64;
    if (spans->n < spans->cap)
        return 0;
    if (cap > want)
        cap = want;
    struct history_block_span *larger = realloc(spans->spans, cap * sizeof(*larger));
    if (!larger)
        return -ENOMEM;
    spans->spans = larger;
    spans->cap = cap;
    return 0;
}

static void take_span(struct history_block_spans *spans, const struct decoding *decoding)
{
    if (!spans->trace_left)
        spans->trace_from = spans->n;
    spans->trace_left = decoding->left - 1;
    spans->n++;
}

/* Decodes to the end of the available bytes; in.bad: the end is inside a span. */
static int get_spans(struct history_block_spans *spans, struct decoding *decoding, size_t total,
                     size_t want)
{
    size_t before = decoding->in.left.len;
    while (spans->n < want && !decoding->in.bad) {
        int error = make_room(spans, want);
        if (error)
            return error;
        if (!get_span(decoding, total, &spans->spans[spans->n]))
            break;
        take_span(spans, decoding);
        spans->offset += before - decoding->in.left.len;
        before = decoding->in.left.len;
    }
    return 0;
}

static void get_head(struct decoding *decoding)
{
    decoding->period_ns = blob_get_number(&decoding->in);
    decoding->base_unix_ns = blob_get_number(&decoding->in);
}

int history_spans_decode(struct history_block_spans *spans, struct bytes body, bool is_whole,
                         size_t total, size_t want)
{
    struct decoding decoding = {.in = {.left = body}, .body = body, .spans = spans};
    if (total > HISTORY_BLOCK_SPANS_MAX || body.len > UINT32_MAX || spans->offset > body.len)
        return -EUCLEAN;
    if (want > total)
        want = total;
    get_head(&decoding);
    if (spans->offset)
        decoding.in.left = BYTES(body.data + spans->offset, body.len - spans->offset);
    else if (!decoding.in.bad)
        spans->offset = body.len - decoding.in.left.len;
    int error = get_spans(spans, &decoding, total, want);
    return !error && decoding.in.bad && is_whole ? -EUCLEAN : error;
}

int history_spans_decode_chunk(struct history_block_spans *spans, struct bytes head,
                               struct bytes chunk, size_t n)
{
    struct decoding decoding = {.in = {.left = head}, .spans = spans};
    if (n > HISTORY_BLOCK_SPANS_MAX)
        return -EUCLEAN;
    spans->n = spans->offset = spans->trace_from = spans->trace_left = 0;
    get_head(&decoding);
    if (decoding.in.bad)
        return -EUCLEAN;
    decoding.in.left = chunk;
    int error = get_spans(spans, &decoding, n, n);
    return !error && decoding.in.bad ? -EUCLEAN : error;
}

struct bytes history_span_attributes(const struct history_block_span *span, struct bytes body)
{
    if (span->attributes_at > body.len || span->attributes_len > body.len - span->attributes_at)
        return BYTES(NULL, 0);
    return BYTES(body.data + span->attributes_at, span->attributes_len);
}

void history_spans_close(struct history_block_spans *spans)
{
    free(spans->spans);
    *spans = (struct history_block_spans){0};
}

/* Order */

struct sorted_span {
    uint8_t trace_id[16];
    uint64_t longest_ns, duration_ns;
    uint32_t index;
};

static int compare_traces(const void *left, const void *right)
{
    const struct sorted_span *a = left, *b = right;
    int order = memcmp(a->trace_id, b->trace_id, 16);
    if (order || a->duration_ns == b->duration_ns)
        return order;
    return a->duration_ns > b->duration_ns ? -1 : 1;
}

static int spans_compare(const void *left, const void *right, void *spans)
{
    const struct sorted_span *a = left, *b = right;
    const struct history_block_span *of = spans;
    if (a->longest_ns != b->longest_ns)
        return a->longest_ns > b->longest_ns ? -1 : 1;
    int order = compare_traces(a, b);
    return order ? order : memcmp(of[a->index].span_id, of[b->index].span_id, 8);
}

static void sorted_span_sort(struct sorted_span *sorted, size_t n, struct history_block_span *spans)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(sorted[i].trace_id, spans[i].trace_id, 16);
        sorted[i].duration_ns = spans[i].duration_ns;
        sorted[i].index = (uint32_t)i;
    }
    qsort(sorted, n, sizeof(*sorted), compare_traces);
    for (size_t i = 0; i < n; i++) {
        bool same = i && !memcmp(sorted[i].trace_id, sorted[i - 1].trace_id, 16);
        sorted[i].longest_ns = same ? sorted[i - 1].longest_ns : sorted[i].duration_ns;
    }
    qsort_r(sorted, n, sizeof(*sorted), spans_compare, spans);
}

int history_spans_sort(struct history_block_span *spans, size_t n, uint32_t *places)
{
    if (!n)
        return 0;
    struct sorted_span *sorted = malloc(n * sizeof(*sorted));
    struct history_block_span *copy = malloc(n * sizeof(*copy));
    if (sorted && copy) {
        sorted_span_sort(sorted, n, spans);
        memcpy(copy, spans, n * sizeof(*copy));
    }
    for (size_t i = 0; i < n && sorted && copy; i++) {
        spans[i] = copy[sorted[i].index];
        spans[i].longest_ns = sorted[i].longest_ns;
        if (places)
            places[sorted[i].index] = (uint32_t)i;
    }
    int error = sorted && copy ? 0 : -ENOMEM;
    free(sorted);
    free(copy);
    return error;
}

/* Encoding */

struct encoding {
    struct blob_writer *out;
    const struct history_block_span *spans;
    struct bytes attributes;
    struct history_chunks *chunks;
    size_t n, trace_from, body_at; /* offset of the body in `out` */
    uint64_t period_ns, base_unix_ns;
    struct history_contents ids, contents;
};

struct references {      /* 0 = none */
    uint32_t parent;     /* distance back */
    uint32_t attributes; /* in the body */
};

static void ids_of(const struct history_block_span *span, const uint8_t span_id[8], uint8_t ids[24])
{
    memcpy(ids, span->trace_id, 16);
    memcpy(ids + 16, span_id, 8);
}

static int find_parent(struct encoding *encoding, uint32_t index, struct references *references)
{
    const struct history_block_span *span = &encoding->spans[index];
    uint32_t found = index;
    uint8_t ids[24];
    if (!bytes_zero(span->parent_id, 8)) {
        ids_of(span, span->parent_id, ids);
        if (history_contents_find(&encoding->ids, BYTES(ids, 24), &found))
            references->parent = index - found; /* a parent that follows later is not known yet */
    }
    ids_of(span, span->span_id, ids);
    int outcome = history_contents_put(&encoding->ids, BYTES(ids, 24), index, &found);
    return outcome < 0 ? outcome : 0;
}

static uint64_t flags_of(const struct history_block_span *span, const struct references *references)
{
    uint64_t flags = 0;
    flags |= span->error ? FLAG_ERROR : 0;
    flags |= span->local_root ? FLAG_LOCAL_ROOT : 0;
    if (!bytes_zero(span->parent_id, 8))
        flags |= FLAG_PARENT | (references->parent ? FLAG_PARENT_BEFORE : 0);
    if (span->attributes_len)
        flags |= FLAG_ATTRIBUTES | (references->attributes ? FLAG_ATTRIBUTES_BEFORE : 0);
    return flags;
}

static void put_ids(struct blob_writer *out, const struct history_block_span *span, uint64_t flags,
                    const struct references *references)
{
    blob_put_fixed(out, span->span_id, 8);
    if (flags & FLAG_PARENT_BEFORE)
        blob_put_number(out, references->parent);
    else if (flags & FLAG_PARENT)
        blob_put_fixed(out, span->parent_id, 8);
}

static bool is_same_trace(const struct history_block_span *a, const struct history_block_span *b)
{
    return !memcmp(a->trace_id, b->trace_id, 16);
}

static void put_times(struct encoding *encoding, uint32_t index,
                      const struct history_block_span *from)
{
    const struct history_block_span *span = &encoding->spans[index];
    uint64_t end_before = from ? from->start_unix_ns + from->duration_ns : encoding->base_unix_ns;
    uint64_t end = span->start_unix_ns + span->duration_ns;
    blob_put_number(encoding->out,
                    from ? from->duration_ns - span->duration_ns : span->duration_ns);
    blob_put_signed(encoding->out, (int64_t)(end - end_before));
}

static uint32_t encoding_here(const struct encoding *encoding)
{
    return (uint32_t)(encoding->out->buf.len - encoding->body_at);
}

static int put_attributes(struct encoding *encoding, uint64_t flags, struct bytes attributes,
                          const struct references *references)
{
    uint32_t known, at = encoding_here(encoding);
    if (flags & FLAG_ATTRIBUTES_BEFORE)
        blob_put_number(encoding->out, references->attributes);
    else if (flags & FLAG_ATTRIBUTES)
        blob_put_bytes(encoding->out, attributes);
    if (!(flags & FLAG_ATTRIBUTES) || flags & FLAG_ATTRIBUTES_BEFORE)
        return 0;
    int outcome = history_contents_put(&encoding->contents, attributes, at, &known);
    return outcome < 0 ? outcome : 0;
}

static int put_span(struct encoding *encoding, uint32_t index,
                    const struct history_block_span *from)
{
    struct blob_writer *out = encoding->out;
    const struct history_block_span *span = &encoding->spans[index];
    struct bytes attributes = history_span_attributes(span, encoding->attributes);
    struct references references = {0};
    int error = find_parent(encoding, index, &references);
    if (error)
        return error;
    if (span->attributes_len)
        history_contents_find(&encoding->contents, attributes, &references.attributes);
    uint64_t flags = flags_of(span, &references);
    blob_put_number(out, flags);
    put_ids(out, span, flags, &references);
    blob_put_number(out, (uint64_t)span->series);
    put_times(encoding, index, from);
    blob_put_number(out, span->samples);
    if (span->samples)
        blob_put_signed(out, (int64_t)(span->cpu_ns - span->samples * encoding->period_ns));
    return put_attributes(encoding, flags, attributes, &references);
}

static bool begins_chunk(const struct encoding *encoding, size_t from)
{
    const struct history_chunks *chunks = encoding->chunks;
    return !chunks->n || from - chunks->of[chunks->n - 1].first_span >= HISTORY_CHUNK_SPANS;
}

static int put_trace(struct encoding *encoding, size_t from, size_t end)
{
    const struct history_block_span *spans = encoding->spans;
    bool starts_chunk = begins_chunk(encoding, from);
    if (starts_chunk)
        encoding->chunks->of[encoding->chunks->n++] = (struct history_chunk){
            .first_span = (uint32_t)from, .spans_at = encoding_here(encoding)};
    blob_put_number(encoding->out, (uint64_t)(end - from) << TRACE_FLAGS |
                                       (starts_chunk ? TRACE_STARTS_CHUNK : 0));
    blob_put_fixed(encoding->out, spans[from].trace_id, 16);
    int error =
        put_span(encoding, (uint32_t)from, starts_chunk ? NULL : &spans[encoding->trace_from]);
    for (size_t i = from + 1; i < end && !error; i++)
        error = put_span(encoding, (uint32_t)i, &spans[i - 1]);
    encoding->trace_from = from;
    return error;
}

/* Any value is correct; a value near the true period makes the encoded numbers small. */
static uint64_t likely_period(const struct history_block_span *spans, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (spans[i].samples)
            return spans[i].cpu_ns / spans[i].samples;
    return 0;
}

static int put_traces(struct encoding *encoding, size_t n)
{
    int error = 0;
    for (size_t from = 0, end; from < n && !error; from = end) {
        for (end = from + 1;
             end < n && is_same_trace(&encoding->spans[from], &encoding->spans[end]);)
            end++;
        error = put_trace(encoding, from, end);
    }
    return error;
}

int history_spans_encode(struct blob_writer *out, const struct history_block_span *spans, size_t n,
                         struct bytes attributes, struct history_chunks *chunks)
{
    struct encoding encoding = {.out = out,
                                .spans = spans,
                                .attributes = attributes,
                                .chunks = chunks,
                                .body_at = out->buf.len,
                                .period_ns = likely_period(spans, n)};
    *chunks = (struct history_chunks){0};
    if (n)
        encoding.base_unix_ns = spans[0].start_unix_ns + spans[0].duration_ns;
    history_contents_open(&encoding.ids);
    history_contents_open(&encoding.contents);
    blob_put_number(out, encoding.period_ns);
    blob_put_number(out, encoding.base_unix_ns);
    int error = put_traces(&encoding, n);
    chunks->of[chunks->n] = (struct history_chunk){(uint32_t)n, encoding_here(&encoding), 0};
    history_contents_close(&encoding.ids);
    history_contents_close(&encoding.contents);
    return error ? error : out->error;
}
