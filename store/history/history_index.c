/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces of a block are a sorted list of hashes of minimal width: a byte and a bit per trace,
 * where ids would take sixteen bytes. The locations of the traces precede the list in fields of
 * equal size, so a lookup that only tests membership skips them.
 */
#include "store/history/history_index.h"
#include "base/hash.h"
#include <errno.h>
#include <stdlib.h>

#define TRACES_SPARSITY 100 /* places per trace; 1 of TRACES_SPARSITY lookups is a false hit */

static uint64_t hash_of(const uint8_t trace_id[16])
{
    uint64_t halves[2];
    memcpy(halves, trace_id, sizeof(halves));
    uint64_t hash = hash_mix(halves[0] ^ (halves[1] << 32 | halves[1] >> 32));
    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

static uint64_t place_of(const uint8_t trace_id[16], uint64_t n)
{
    return (uint64_t)((unsigned __int128)hash_of(trace_id) * (n * TRACES_SPARSITY) >> 64);
}

/* Encoding */

struct entry {
    uint64_t place;
    uint32_t where;
};

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

static int compare_places(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return a->where < b->where ? -1 : a->where > b->where;
}

static size_t history_index_trace_unite(struct history_index_trace *traces, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(traces, n, sizeof(*traces), compare_ids);
    for (size_t i = 0; i < n; i++) {
        struct history_index_trace *last = kept ? &traces[kept - 1] : NULL;
        if (!last || memcmp(last->trace_id, traces[i].trace_id, 16) != 0) {
            traces[kept++] = traces[i];
            continue;
        }
        last->where.tail |= traces[i].where.tail;
        if (last->where.chunk == HISTORY_NO_CHUNK)
            last->where.chunk = traces[i].where.chunk;
    }
    return kept;
}

static uint32_t encode_where(const struct history_where *where)
{
    uint32_t chunk = where->chunk == HISTORY_NO_CHUNK ? 0 : where->chunk + 1;
    return chunk << 1 | where->tail;
}

static void put_chunks(struct blob_writer *out, const struct history_chunks *chunks)
{
    blob_put_number(out, chunks->n);
    blob_put_number(out, chunks->of[0].spans_at);
    blob_put_number(out, chunks->of[0].samples_at);
    for (size_t i = 0; i < chunks->n; i++) {
        const struct history_chunk *from = &chunks->of[i], *to = &chunks->of[i + 1];
        blob_put_number(out, to->first_span - from->first_span);
        blob_put_number(out, to->spans_at - from->spans_at);
        blob_put_number(out, to->samples_at - from->samples_at);
    }
}

static void put_entries(struct blob_writer *out, const struct entry *entries, size_t n,
                        size_t where_size)
{
    uint64_t before = 0;
    blob_put_number(out, n);
    blob_put_number(out, where_size);
    for (size_t i = 0; i < n; i++) {
        const uint8_t where[2] = {(uint8_t)entries[i].where, (uint8_t)(entries[i].where >> 8)};
        blob_put_fixed(out, where, where_size);
    }
    for (size_t i = 0; i < n; i++) {
        blob_put_number(out, entries[i].place - before);
        before = entries[i].place;
    }
}

int history_index_encode(struct blob_writer *out, const struct history_chunks *chunks,
                         struct history_index_trace *traces, size_t n)
{
    struct entry *entries = malloc((n + !n) * sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    n = history_index_trace_unite(traces, n);
    for (size_t i = 0; i < n; i++)
        entries[i] =
            (struct entry){place_of(traces[i].trace_id, n), encode_where(&traces[i].where)};
    if (n)
        qsort(entries, n, sizeof(*entries), compare_places);
    put_chunks(out, chunks);
    put_entries(out, entries, n, chunks->n < 127 ? 1 : 2);
    free(entries);
    return out->error;
}

/* Decoding */

static uint32_t blob_reader_further(struct blob_reader *in, uint32_t from)
{
    uint64_t more = blob_get_number(in);
    in->bad |= more > UINT32_MAX - from;
    return in->bad ? from : from + (uint32_t)more;
}

static void get_chunks(struct history_index *index)
{
    struct blob_reader *in = &index->places;
    struct history_chunk *chunk = index->chunks.of;
    uint64_t n = blob_get_number(in);
    in->bad |= n > HISTORY_CHUNKS_MAX;
    *chunk = (struct history_chunk){0, blob_get_number32(in), blob_get_number32(in)};
    for (index->chunks.n = 0; index->chunks.n < n && !in->bad; index->chunks.n++, chunk++) {
        chunk[1].first_span = blob_reader_further(in, chunk->first_span);
        chunk[1].spans_at = blob_reader_further(in, chunk->spans_at);
        chunk[1].samples_at = blob_reader_further(in, chunk->samples_at);
    }
    in->bad |= chunk->first_span > HISTORY_BLOCK_SPANS_MAX;
}

static void get_wheres(struct history_index *index)
{
    struct blob_reader *in = &index->places;
    index->left = index->n_traces = blob_get_number(in);
    index->where_size = blob_get_number(in);
    if (in->bad || index->where_size < 1 || index->where_size > 2 ||
        index->left > in->left.len / (index->where_size + 1)) {
        in->bad = true;
        return;
    }
    size_t len = (size_t)index->left * index->where_size;
    index->wheres = BYTES(in->left.data, len);
    in->left = BYTES(in->left.data + len, in->left.len - len);
}

int history_index_open(struct history_index *index, struct bytes body)
{
    index->places = (struct blob_reader){.left = body};
    index->place = 0;
    get_chunks(index);
    get_wheres(index);
    return index->places.bad ? -EUCLEAN : 0;
}

uint64_t history_index_place(const struct history_index *index, const uint8_t trace_id[16])
{
    return place_of(trace_id, index->n_traces);
}

static int get_where(struct history_index *index, struct history_where *where)
{
    const uint8_t *data = index->wheres.data;
    uint32_t number = data[0];
    if (index->where_size == 2)
        number |= (uint32_t)data[1] << 8;
    index->wheres = BYTES(data + index->where_size, index->wheres.len - index->where_size);
    where->tail = number & 1;
    where->chunk = number > 1 ? (number >> 1) - 1 : HISTORY_NO_CHUNK;
    return where->chunk == HISTORY_NO_CHUNK || where->chunk < index->chunks.n ? 0 : -EUCLEAN;
}

int history_index_next(struct history_index *index, uint64_t *place, struct history_where *where)
{
    if (!index->left)
        return 0;
    index->left--;
    bool wraps =
        __builtin_add_overflow(index->place, blob_get_number(&index->places), &index->place);
    *place = index->place;
    int error = get_where(index, where);
    if (index->places.bad || wraps)
        error = -EUCLEAN;
    return error ? error : 1;
}

bool history_index_may_have(struct bytes body, const uint8_t trace_id[16])
{
    struct history_index index;
    if (history_index_open(&index, body))
        return true;
    uint64_t place = place_of(trace_id, index.n_traces), at = 0;
    struct blob_reader *in = &index.places;
    for (bool first = true; index.left && !in->bad && (first || at < place); first = false) {
        at += blob_get_number(in);
        index.left--;
    }
    return in->bad || (index.n_traces && at == place);
}
