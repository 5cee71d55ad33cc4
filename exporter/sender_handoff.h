/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * While a sender has fetched all that was committed before, newly committed requests reach it in
 * memory (see store/outbox/outbox_handoff.h) and are fetched from there. Private to exporter/.
 * Thread: loop.
 */
#include <stddef.h>

struct sender;
struct sender_fetch;

/* Sets the bytes of the sender's requests. The handoff may hold the rest of SENDER_BYTES_MAX, up to
 * SENDER_HANDOFF_MAX. */
void sender_handoff_bytes(struct sender *sender, size_t bytes);
/* Call before a fetch. Takes requests from the handoff. If the handoff has a gap, the fetch reads
 * the store, and the handoff is opened unless there is a backlog, a failure or a lost ack. */
void sender_handoff_take(struct sender *sender, struct sender_fetch *fetch);
/* Call after a fetch. */
void sender_handoff_fetched(struct sender *sender, const struct sender_fetch *fetch);
