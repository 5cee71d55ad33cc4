/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* SHA-256 by GnuTLS, which uses the CPU's instructions for it. Thread: any. */
#include "base/bytes.h"
#include <assert.h>
#include <gnutls/crypto.h>

static inline void sha256_of(struct bytes in, uint8_t out[32])
{
    int error = gnutls_hash_fast(GNUTLS_DIG_SHA256, in.data, in.len, out);
    assert(!error);
    (void)error;
}
