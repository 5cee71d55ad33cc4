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
 * Writer thread, within its transaction. Limits: max_bytes of requests,
 * PENDING_PROFILES_CONTEXTS_MAX spans waited for; beyond, the oldest request leaves early. Errors:
 * negative errno of db.h; they broke the transaction, except -ENOSPC of pending_profiles_put():
 * nothing was put.
 */
#include "proto/otlp/otlp_profiles_links.h"
#include "proto/otlp/otlp_spans.h"

#define PENDING_PROFILES_CONTEXTS_MAX 65536

struct db;
struct pending_profiles;
struct outbox;

struct pending_profiles_settings {
    bool enabled; /* else nothing waits, and no span is remembered */
    uint64_t wait_ns;
    size_t max_bytes;
    size_t max_recent_bytes;            /* of spans that came */
    uint32_t destinations;              /* of the outbox */
    size_t max_body_bytes;              /* of a request in the outbox */
    const char *const *span_attributes; /* keys; NULL-terminated or NULL. Must outlive it. */
};

int pending_profiles_open(struct db *db, struct outbox *outbox,
                          const struct pending_profiles_settings *settings,
                          struct pending_profiles **pending);
void pending_profiles_close(struct pending_profiles *pending); /* NULL is fine */
int pending_profiles_reload(
    struct pending_profiles *pending); /* after a rolled-back transaction or a renewed database */
bool pending_profiles_is_enabled(const struct pending_profiles *pending);

/* A checked request with n_items samples, and who they name. OTLP_TOO_BIG: nothing was put. */
int pending_profiles_put(struct pending_profiles *pending, struct bytes body, uint64_t n_items,
                         const struct profiles_links *links, uint64_t now_unix_ns);
int pending_profiles_span(struct pending_profiles *pending, const struct otlp_span *span);
/* Marks those that have waited long enough; pending_profiles_has_leaving(): the next flush puts
 * something. */
void pending_profiles_expire(struct pending_profiles *pending, uint64_t now_unix_ns);
bool pending_profiles_has_leaving(const struct pending_profiles *pending);
/* Before each commit: requests that need not wait any longer go into the outbox. */
int pending_profiles_flush(struct pending_profiles *pending);
