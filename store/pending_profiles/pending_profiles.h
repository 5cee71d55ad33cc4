/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Profiles of other profilers wait until the spans that their samples name have arrived, or for
 * wait_ns. Then they go into the outbox, with the facts of the spans added to the samples. The
 * waiting requests, and which of their spans have arrived, are in the database: a restart continues
 * with them. A request does not wait if all its spans arrived earlier (recent_spans.h), or if it
 * names no span.
 *
 * If the Resource of a span names another process than the profile's Resource (owner.h), its facts
 * are not added; the samples keep their Link.
 *
 * Writer thread, within its transaction. Limits: max_bytes of requests,
 * PENDING_PROFILES_CONTEXTS_MAX awaited spans; beyond them the oldest request goes to the outbox
 * early. PENDING_PROFILES_FACTS_MAX of names and attributes of spans; beyond it they are left out,
 * counted. Errors: negative errno of db.h; the transaction has failed, except for -ENOSPC of
 * pending_profiles_put(): nothing was put.
 */
#include "proto/otlp/otlp_profiles_links.h"
#include "proto/otlp/otlp_spans.h"

#define PENDING_PROFILES_CONTEXTS_MAX 65536
#define PENDING_PROFILES_RESOURCE_MAX 65536              /* a larger Resource counts as empty */
#define PENDING_PROFILES_FACTS_MAX    ((size_t)32 << 20) /* of spans that have arrived */
/* Of all that is in memory, without recent_spans.h. */
#define PENDING_PROFILES_MEMORY_MAX                                                                \
    (PENDING_PROFILES_FACTS_MAX + PENDING_PROFILES_CONTEXTS_MAX * (size_t)320)

struct db;
struct pending_profiles;
struct outbox;

struct pending_profiles_settings {
    bool enabled; /* false: no request waits, no span is remembered */
    uint64_t wait_ns;
    size_t max_bytes;
    size_t max_recent_bytes;            /* of recent_spans.h */
    uint32_t destinations;              /* outbox mask */
    size_t max_body_bytes;              /* limit of a request in the outbox */
    const char *const *span_attributes; /* keys; NULL-terminated or NULL. Must outlive it. */
};

int pending_profiles_open(struct db *db, struct outbox *outbox,
                          const struct pending_profiles_settings *settings,
                          struct pending_profiles **pending);
void pending_profiles_close(struct pending_profiles *pending); /* NULL is fine */
int pending_profiles_reload(
    struct pending_profiles *pending); /* after a rolled-back transaction or a renewed database */
bool pending_profiles_is_enabled(const struct pending_profiles *pending);

/* Adds a checked request with n_items samples. links: the spans that its samples name.
 * OTLP_TOO_BIG: nothing was put. */
int pending_profiles_put(struct pending_profiles *pending, struct bytes body, uint64_t n_items,
                         const struct profiles_links *links, uint64_t now_unix_ns);
int pending_profiles_span(struct pending_profiles *pending, const struct otlp_span *span);
/* Marks the requests that have waited for wait_ns. pending_profiles_has_leaving(): the next flush
 * puts a request into the outbox. */
void pending_profiles_expire(struct pending_profiles *pending, uint64_t now_unix_ns);
bool pending_profiles_has_leaving(const struct pending_profiles *pending);
/* Call it before each commit: puts the requests that have finished waiting into the outbox. */
int pending_profiles_flush(struct pending_profiles *pending);
