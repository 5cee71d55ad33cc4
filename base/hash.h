/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <stdint.h>

/* Fibonacci hashing: numbers that differ a little come far apart. The upper bits are the good ones:
 * shift the result down to as many bits as the table has. Not for input that somebody may choose
 * in order to make slots collide, unless the table bounds what a collision costs. */
static inline uint64_t hash_mix(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15);
}
