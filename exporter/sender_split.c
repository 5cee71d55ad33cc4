/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/sender_split.h"
#include "proto/otlp/otlp_items.h"

bool sender_split_shrink(struct sender_split *slice, size_t message_size)
{
    if (slice->n == 1)
        return false;
    slice->too_big_size = message_size;
    slice->n = slice->n ? (slice->n + 1) / 2 : UINT64_MAX; /* set by sender_split_cut() */
    return true;
}

/* One large item may have made the slices small: they grow again while they stay below
 * too_big_size. */
bool sender_split_advance(struct sender_split *slice, size_t message_size)
{
    slice->at += slice->n;
    if (message_size < slice->too_big_size / 2)
        slice->n *= 2;
    return slice->n && slice->at < slice->total;
}

int sender_split_cut(struct sender_split *slice, enum signal signal, struct buf *body,
                     uint64_t *items)
{
    _cleanup_buf_ struct buf part = BUF_INIT(0);
    struct otlp_slice cut = {slice->at, slice->n};
    int outcome = otlp_items_slice(buf_bytes(body), &cut, &part, &slice->total);
    if (!outcome && slice->n > slice->total && slice->total > 1) { /* this cut only counted */
        cut.n = slice->n = (slice->total + 1) / 2;
        buf_clear(&part);
        outcome = otlp_items_slice(buf_bytes(body), &cut, &part, &slice->total);
    }
    if (outcome == OTLP_MALFORMED)
        slice->total = 0;
    if (outcome || sender_split_is_futile(slice))
        return outcome < 0 ? outcome : 0;
    *items = otlp_items_count(signal, buf_bytes(&part));
    buf_clear(body);
    return buf_append_bytes(body, buf_bytes(&part));
}

bool sender_split_is_futile(const struct sender_split *slice)
{
    return slice->n && slice->total <= 1;
}
