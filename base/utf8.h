/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Texts that have room for so many bytes: cut between characters. Thread: any; no state.
 */
#include "base/bytes.h"

/* Its beginning, of at most `max` bytes, without the beginning of a character at its end. What is
 * not UTF-8 elsewhere stays as it is. */
struct bytes utf8_cut(struct bytes text, size_t max);
