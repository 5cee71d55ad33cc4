/* SPDX-License-Identifier: Apache-2.0 */
/* The hashes of bytes.h: SipHash (Aumasson, Bernstein), FNV-1a (RFC 9923), SHA-256 (FIPS 180-4). */
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

static const uint32_t sha_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t hash_rotr32(uint32_t value, unsigned n)
{
    return value >> n | value << (32 - n);
}

static void sha256_schedule(uint32_t w[64], const uint8_t block[64])
{
    for (int i = 0; i < 16; i++) {
        uint32_t word;
        memcpy(&word, block + 4 * i, 4);
        w[i] = be32toh(word);
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (hash_rotr32(a, 7) ^ hash_rotr32(a, 18) ^ a >> 3) +
               (hash_rotr32(b, 17) ^ hash_rotr32(b, 19) ^ b >> 10);
    }
}

static void sha256_block(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64], s[8];
    sha256_schedule(w, block);
    memcpy(s, state, sizeof(s));
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = s[7] +
                      (hash_rotr32(s[4], 6) ^ hash_rotr32(s[4], 11) ^ hash_rotr32(s[4], 25)) +
                      ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha_constants[i] + w[i];
        uint32_t t2 = (hash_rotr32(s[0], 2) ^ hash_rotr32(s[0], 13) ^ hash_rotr32(s[0], 22)) +
                      ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void sha256_init(struct sha256 *sha)
{
    *sha = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                     0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *sha, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size) {
        size_t used = sha->total_bytes % 64, n = 64 - used < size ? 64 - used : size;
        memcpy(sha->block + used, at, n);
        sha->total_bytes += n;
        at += n;
        size -= n;
        if (used + n == 64)
            sha256_block(sha->state, sha->block);
    }
}

void sha256_finish(struct sha256 *sha, uint8_t out[32])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t n_bits = htobe64(sha->total_bytes * 8);
    sha256_add(sha, padding, 1 + (119 - sha->total_bytes % 64) % 64);
    sha256_add(sha, &n_bits, sizeof(n_bits));
    for (int i = 0; i < 8; i++) {
        uint32_t word = htobe32(sha->state[i]);
        memcpy(out + 4 * i, &word, 4);
    }
}
