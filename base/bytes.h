/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Borrowed byte ranges and the pure functions on them: text forms (hex, base64), hashes, UTF-8.
 * Thread: any; no state.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t len;
};

#define BYTES(pointer, size) ((struct bytes){(const uint8_t *)(pointer), (size)})
#define BYTES_STR(text)      BYTES((text), strlen(text))
#define BYTES_LIT(literal)   BYTES((literal), sizeof(literal) - 1)

static inline struct bytes bytes_skip(struct bytes bytes, size_t n) /* n <= bytes.len */
{
    return n ? BYTES(bytes.data + n, bytes.len - n) : bytes;
}

bool bytes_equal(struct bytes a, struct bytes b);
bool bytes_is(struct bytes a, const char *text);
bool bytes_zero(const void *data, size_t size); /* all bytes 0 */

/* Lower-case hex with NUL; out holds 2 * len + 1. */
void bytes_to_hex(struct bytes in, char *out);
/* Exactly size bytes from 2 * size hex digits of either case; false otherwise. */
bool bytes_from_hex(struct bytes hex, uint8_t *out, size_t size);

/* base64 of RFC 4648. url: the -_ alphabet. No padding is written; both forms are read.
 * Encoding: out holds 4 * ((len + 2) / 3) + 1, NUL-terminated, returns length. */
size_t bytes_to_base64(struct bytes in, bool url, char *out);
/* Decoding: out holds 3 * (len / 4) + 3; returns length, or -1 for malformed text. */
ptrdiff_t bytes_from_base64(struct bytes in, uint8_t *out);

bool bytes_utf8_valid(struct bytes text);
/* Text from strangers for logs and attributes: valid UTF-8, control characters and invalid bytes
 * become '?', cut at a character boundary to fit size - 1 bytes; NUL-terminated; returns length. */
size_t bytes_sanitize(struct bytes text, char *out, size_t size);

uint64_t bytes_siphash(struct bytes in, const uint8_t key[16]); /* SipHash-2-4 */
void bytes_siphash128(struct bytes in, const uint8_t key[16],
                      uint8_t out[16]); /* SipHash-2-4-128 */

struct fnv128 {
    unsigned __int128 state;
};
void fnv128_init(struct fnv128 *fnv); /* FNV-1a, 128 bits */
void fnv128_add(struct fnv128 *fnv, const void *data, size_t size);
void fnv128_finish(const struct fnv128 *fnv, uint8_t out[16]); /* big-endian */
