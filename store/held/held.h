/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Profiles of others, held until the spans came that their samples name, or for wait_ns; then put
 * into the outbox, with what is known of the spans written on the samples. What is held, and which
 * of its spans came, lies in the database: a restart goes on with it.
 * A request whose spans all came before (recent_spans.h), or that names none, is not held.
 *
 * A span whose Resource says another process than the profile's (owner.h) is not written on it: the
 * samples keep their Link.
 *
 * Writer thread, within its transaction. Limits: max_bytes of requests, HELD_CONTEXTS_MAX spans
 * waited for; beyond, the oldest request leaves early. Errors: negative errno of db.h; they broke
 * the transaction, except -ENOSPC of held_put(): nothing was put.
 */
#include "proto/otlp/otlp_profiles_links.h"
#include "proto/otlp/otlp_spans.h"

#define HELD_CONTEXTS_MAX 65536

struct db;
struct held;
struct outbox;

struct held_settings {
    bool enabled; /* else nothing waits, and no span is remembered */
    uint64_t wait_ns;
    size_t max_bytes;
    size_t max_recent_bytes;            /* of spans that came */
    uint32_t destinations;              /* of the outbox */
    size_t max_body_bytes;              /* of a request in the outbox */
    const char *const *span_attributes; /* keys; NULL-terminated or NULL. Must outlive it. */
};

int held_open(struct db *db, struct outbox *outbox, const struct held_settings *settings,
              struct held **held);
void held_close(struct held *held); /* NULL is fine */
int held_reload(struct held *held); /* after a rolled-back transaction or a renewed database */
bool held_is_enabled(const struct held *held);

/* A checked request with n_items samples, and who they name. OTLP_TOO_BIG: nothing was put. */
int held_put(struct held *held, struct bytes body, uint64_t n_items,
             const struct profiles_links *links, uint64_t now_unix_ns);
int held_span(struct held *held, const struct otlp_span *span);
/* Marks those that have waited long enough; held_has_leaving(): the next flush puts something. */
void held_expire(struct held *held, uint64_t now_unix_ns);
bool held_has_leaving(const struct held *held);
/* Before each commit: requests that need not wait any longer go into the outbox. */
int held_flush(struct held *held);
