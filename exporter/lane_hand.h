/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is committed while a lane has all that was before is handed to it in memory (see
 * store/outbox/outbox_hands.h), and fetched from there. Private to exporter/. Thread: loop.
 */
#include <stddef.h>

struct lane;
struct lane_fetch;

/* So many are in its requests: what is handed over waits within the same limit. */
void lane_hand_bytes(struct lane *lane, size_t bytes);
/* Before a fetch: takes what was handed over, else it is to be read, and the hand may be open. */
void lane_hand_take(struct lane *lane, struct lane_fetch *fetch);
/* After it. */
void lane_hand_tell(struct lane *lane, const struct lane_fetch *fetch);
