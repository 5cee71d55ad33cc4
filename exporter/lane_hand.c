/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand is opened before a read that may be the last one, and stays open as long as nothing is
 * missed. In a backlog it would be full before its turn came, and while the backend fails what it
 * holds would only take memory: then it is closed, and each request read when there is room for it.
 * A mark that was lost is found by reading from the beginning, once nothing is under way.
 */
#include "exporter/lane_hand.h"
#include "exporter/lane.h"
#include "exporter/lane_fetch.h"

void lane_hand_bytes(struct lane *lane, size_t bytes)
{
    size_t room = bytes < LANE_BYTES_MAX ? LANE_BYTES_MAX - bytes : 0;
    lane->bytes = bytes;
    outbox_hand_limit(lane->hand, room < LANE_HAND_MAX ? room : LANE_HAND_MAX);
}

void lane_hand_take(struct lane *lane, struct lane_fetch *fetch)
{
    if (!lane_fetch_take(fetch, lane->hand) || lane->more || lane->failing)
        return;
    if (lane->marks.lost && lane->after_seq)
        return;
    lane->marks.lost = false;
    outbox_hand_open(lane->hand, &fetch->read);
    fetch->hand = lane->hand;
    if (!lane->after_seq)
        lane->file = fetch->read.file;
}

void lane_hand_tell(struct lane *lane, const struct lane_fetch *fetch)
{
    int64_t seq = fetch->n ? fetch->seqs[fetch->n - 1] : 0;
    if (!fetch->hand)
        return;
    if (fetch->more || lane->file != fetch->read.file)
        return outbox_hand_close(fetch->hand);
    outbox_hand_has(fetch->hand, &fetch->read,
                    seq > fetch->read.end_seq ? seq : fetch->read.end_seq);
}
