/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/lane_slice.h"
#include "proto/otlp/otlp_items.h"

bool lane_slice_shrink(struct lane_slice *slice, size_t message_size)
{
    if (slice->n == 1)
        return false;
    slice->too_big_size = message_size;
    slice->n =
        slice->n ? (slice->n + 1) / 2 : UINT64_MAX; /* of a whole: as lane_slice_cut() sees */
    return true;
}

/* After a large item that made the slices small they grow again, if they promise to stay below. */
bool lane_slice_advance(struct lane_slice *slice, size_t message_size)
{
    slice->at += slice->n;
    if (message_size < slice->too_big_size / 2)
        slice->n *= 2;
    return slice->n && slice->at < slice->total;
}

int lane_slice_cut(struct lane_slice *slice, enum signal signal, struct buf *body, uint64_t *items)
{
    _cleanup_buf_ struct buf part = BUF_INIT(0);
    struct otlp_slice cut = {slice->at, slice->n};
    int outcome = otlp_items_slice(buf_bytes(body), &cut, &part, &slice->total);
    if (!outcome && slice->n > slice->total && slice->total > 1) { /* that was to count them */
        cut.n = slice->n = (slice->total + 1) / 2;
        buf_clear(&part);
        outcome = otlp_items_slice(buf_bytes(body), &cut, &part, &slice->total);
    }
    if (outcome == OTLP_MALFORMED)
        slice->total = 0;
    if (outcome || lane_slice_is_vain(slice))
        return outcome < 0 ? outcome : 0;
    *items = otlp_items_count(signal, buf_bytes(&part));
    buf_clear(body);
    return buf_append_bytes(body, buf_bytes(&part));
}

bool lane_slice_is_vain(const struct lane_slice *slice)
{
    return slice->n && slice->total <= 1;
}
