/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handoff is opened before a read that may reach the end of the outbox, and stays open as long
 * as it has every commit since. It is closed during a backlog (it would overflow before it is used)
 * and while the backend fails (it would only cost memory); requests are then read from the store
 * when there is room. After a lost ack, the sender reads from the start of the outbox once nothing
 * is in flight.
 */
#include "exporter/sender_handoff.h"
#include "exporter/sender.h"
#include "exporter/sender_fetch.h"

void sender_handoff_bytes(struct sender *sender, size_t bytes)
{
    LOOP_THREAD(sender->host->settings.loop);
    size_t room = bytes < SENDER_BYTES_MAX ? SENDER_BYTES_MAX - bytes : 0;
    sender->bytes = bytes;
    outbox_handoff_limit(sender->handoff, room < SENDER_HANDOFF_MAX ? room : SENDER_HANDOFF_MAX);
}

void sender_handoff_take(struct sender *sender, struct sender_fetch *fetch)
{
    LOOP_THREAD(sender->host->settings.loop);
    if (!sender_fetch_take(fetch, sender->handoff) || sender_backlog_is_full(sender) ||
        sender_is_failing(sender))
        return;
    if (sender->acks.lost && sender->after_seq)
        return;
    sender->acks.lost = false;
    outbox_handoff_open(sender->handoff, &fetch->read);
    fetch->handoff = sender->handoff;
    if (!sender->after_seq)
        sender->file = fetch->read.file;
}

void sender_handoff_fetched(struct sender *sender, const struct sender_fetch *fetch)
{
    LOOP_THREAD(sender->host->settings.loop);
    int64_t seq = fetch->n ? fetch->seqs[fetch->n - 1] : 0;
    if (!fetch->handoff)
        return;
    if (fetch->more || sender->file != fetch->read.file)
        return outbox_handoff_close(fetch->handoff);
    outbox_handoff_has(fetch->handoff, &fetch->read,
                       seq > fetch->read.end_seq ? seq : fetch->read.end_seq);
}
