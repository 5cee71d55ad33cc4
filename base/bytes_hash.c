/* SPDX-License-Identifier: Apache-2.0 */
/* The hashes of bytes.h: SipHash (Aumasson, Bernstein), FNV-1a (RFC 9923). */
#include "base/bytes.h"
#include <endian.h>

static uint64_t hash_rotl64(uint64_t value, unsigned n)
{
    return value << n | value >> (64 - n);
}

static uint64_t load_le64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static void sip_rounds(uint64_t v[4], int n_rounds)
{
    for (int i = 0; i < n_rounds; i++) {
        v[0] += v[1], v[2] += v[3];
        v[1] = hash_rotl64(v[1], 13) ^ v[0];
        v[3] = hash_rotl64(v[3], 16) ^ v[2];
        v[0] = hash_rotl64(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = hash_rotl64(v[1], 17) ^ v[2];
        v[3] = hash_rotl64(v[3], 21) ^ v[0];
        v[2] = hash_rotl64(v[2], 32);
    }
}

static void sip_absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
}

static void sip_start(uint64_t v[4], const uint8_t key[16])
{
    uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
    v[0] = k0 ^ UINT64_C(0x736f6d6570736575);
    v[1] = k1 ^ UINT64_C(0x646f72616e646f6d);
    v[2] = k0 ^ UINT64_C(0x6c7967656e657261);
    v[3] = k1 ^ UINT64_C(0x7465646279746573);
}

static void sip_input(uint64_t v[4], struct bytes in)
{
    size_t i = 0;
    for (; i + 8 <= in.len; i += 8)
        sip_absorb(v, load_le64(in.data + i));
    uint64_t last = (uint64_t)in.len << 56;
    for (unsigned shift = 0; i < in.len; i++, shift += 8)
        last |= (uint64_t)in.data[i] << shift;
    sip_absorb(v, last);
}

uint64_t bytes_siphash(struct bytes in, const uint8_t key[16])
{
    uint64_t v[4];
    sip_start(v, key);
    sip_input(v, in);
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void bytes_siphash128(struct bytes in, const uint8_t key[16], uint8_t out[16])
{
    uint64_t v[4], half;
    sip_start(v, key);
    v[1] ^= 0xee;
    sip_input(v, in);
    v[2] ^= 0xee;
    sip_rounds(v, 4);
    half = htole64(v[0] ^ v[1] ^ v[2] ^ v[3]);
    memcpy(out, &half, 8);
    v[1] ^= 0xdd;
    sip_rounds(v, 4);
    half = htole64(v[0] ^ v[1] ^ v[2] ^ v[3]);
    memcpy(out + 8, &half, 8);
}

#define WIDE(high, low) ((unsigned __int128)UINT64_C(high) << 64 | UINT64_C(low))

void fnv128_init(struct fnv128 *fnv)
{
    fnv->state = WIDE(0x6c62272e07bb0142, 0x62b821756295c58d);
}

void fnv128_add(struct fnv128 *fnv, const void *data, size_t size)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i < size; i++)
        fnv->state = (fnv->state ^ byte[i]) * WIDE(0x0000000001000000, 0x000000000000013b);
}

void fnv128_finish(const struct fnv128 *fnv, uint8_t out[16])
{
    for (unsigned i = 0; i < 16; i++)
        out[i] = (uint8_t)(fnv->state >> (120 - 8 * i));
}
