/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is committed while a sender has all that was before is handed to it in memory (see
 * store/outbox/outbox_handoff.h), and fetched from there. Private to exporter/. Thread: loop.
 */
#include <stddef.h>

struct sender;
struct sender_fetch;

/* So many are in its requests: what is handed over waits within the same limit. */
void sender_handoff_bytes(struct sender *sender, size_t bytes);
/* Before a fetch: takes what was handed over, else it is to be read, and the handoff may be open.
 */
void sender_handoff_take(struct sender *sender, struct sender_fetch *fetch);
/* After it. */
void sender_handoff_fetched(struct sender *sender, const struct sender_fetch *fetch);
