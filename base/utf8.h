/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Texts in UTF-8. Thread: any; no state. */
#include "base/bytes.h"

/* A text's beginning, of at most `max` bytes, without the beginning of a character at its end. What
 * is not UTF-8 elsewhere stays as it is. */
struct bytes utf8_cut(struct bytes text, size_t max);

#define UTF8_CHARACTER_MAX 4

/* A character's bytes; their number. What is no character, surrogates too, becomes a byte that
 * bytes_sanitize() does away with. */
size_t utf8_put(uint32_t character, uint8_t out[UTF8_CHARACTER_MAX]);
