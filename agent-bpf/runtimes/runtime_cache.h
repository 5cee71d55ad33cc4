/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the readers of runtimes have read and decoded, so that it need not be read again: one cache
 * for all, bounded in bytes and divided among tenants (base/fair_share.h); of a tenant the least
 * recently used goes first. A value is bytes that its reader has made; the key says what of, and
 * has all that identifies it. Thread: the symbolizer's loop.
 */
#include "base/bytes.h"
#include <stdint.h>

struct runtime_cache;

struct runtime_cache_key { /* no padding */
    uint64_t words[4];     /* the reader's */
    uint64_t program;      /* of runtime_memory; 0: of a file */
    uint32_t runtime;      /* enum runtime */
    uint32_t kind;         /* the reader's */
};

/* bytes_max: of keys, values and what they take beside. 0, -ENOMEM, negative errno of getrandom().
 */
int runtime_cache_open(size_t bytes_max, struct runtime_cache **cache);
void runtime_cache_close(struct runtime_cache *cache); /* NULL is fine */
/* False: it is not there. *value: borrowed until the next put. */
bool runtime_cache_get(struct runtime_cache *cache, const struct runtime_cache_key *key,
                       struct bytes *value);
/* Copies the value; one that is larger than a quarter of all is left out. tenant: that of
 * runtime_memory. NULL cache is fine. */
void runtime_cache_put(struct runtime_cache *cache, uint64_t tenant,
                       const struct runtime_cache_key *key, struct bytes value);
