/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A connection of ours that is fed strangers' bytes, in pieces, over a socket pair. What it answers
 * is read and thrown away.
 */
#include "base/bytes.h"
#include "base/loop.h"

/* Writes bytes to fd while the loop turns, piece by piece, and reads what comes back. Then a last
 * few rounds. */
void h2_fuzz_feed(struct loop *loop, int fd, struct bytes bytes, size_t piece);
