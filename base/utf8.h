/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Cuts a text to a number of bytes, between two characters. Thread: any; no state.
 */
#include "base/bytes.h"

/* Its beginning, of at most `max` bytes, without the beginning of a character at its end. What is
 * not UTF-8 elsewhere stays as it is. */
struct bytes utf8_cut(struct bytes text, size_t max);
