/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span of a sample is that of its Link. Without a Link its attributes may name the span, by the
 * rules for program labels (labels.h), under their plain names or under the names that
 * OpenTelemetry's profiler uses.
 */
#include "receiver/intake/intake_profiles.h"
#include "base/clock.h"
#include "base/stats.h"
#include "proto/otlp/otlp_items.h"
#include "proto/otlp/otlp_profiles_links.h"
#include "receiver/intake/intake_body.h"
#include <errno.h>

STAT_COUNTER(samples_received, "spanprof_profile_samples_received_total",
             "Samples of profiles in accepted requests.");
enum not_joined { NOT_JOINED_TOO_LARGE, NOT_JOINED_TOO_MANY_SPANS, NOT_JOINED };

static const char *const not_joined_names[] = {
    [NOT_JOINED_TOO_LARGE] = "too_large", [NOT_JOINED_TOO_MANY_SPANS] = "too_many_spans"};
STAT_LOSSES(not_joined, "spanprof_profiles_not_joined_total",
            "Requests of profiles, or samples in them, for which no span was looked up.",
            STAT_LABEL("reason", not_joined_names, NOT_JOINED));

#define LABEL_PREFIX    "process.context.label."
#define LABEL_BYTES_MAX 127 /* of a key or value, as in labels of our own samples */
#define LABELS_MAX      4096

static struct bytes without_prefix(struct bytes key)
{
    size_t n = sizeof(LABEL_PREFIX) - 1;
    if (key.len > n && !memcmp(key.data, LABEL_PREFIX, n))
        return BYTES(key.data + n, key.len - n);
    return key;
}

static void put_label(struct buf *labels, struct bytes key, struct bytes value)
{
    uint8_t sizes[2] = {(uint8_t)key.len, (uint8_t)value.len};
    if (!key.len || key.len > LABEL_BYTES_MAX || value.len > LABEL_BYTES_MAX ||
        labels->len + sizeof(sizes) + key.len + value.len > LABELS_MAX)
        return;
    (void)buf_append(labels, sizes, sizeof(sizes)); /* there is room: see ids_of() */
    (void)buf_append_bytes(labels, key);
    (void)buf_append_bytes(labels, value);
}

static bool ids_of(void *context, const struct profiles_text *texts, size_t n,
                   struct profiles_ids *ids)
{
    _cleanup_buf_ struct buf labels = BUF_INIT(0);
    struct label_ids found;
    if (buf_reserve(&labels, LABELS_MAX))
        return false;
    for (size_t i = 0; i < n; i++)
        put_label(&labels, without_prefix(texts[i].key), texts[i].value);
    if (!labels_ids(buf_bytes(&labels), context, &found))
        return false;
    memcpy(ids->trace_id, found.trace_id, sizeof(ids->trace_id));
    memcpy(ids->span_id, found.span_id, sizeof(ids->span_id));
    return true;
}

static int profiles_hold(struct store *store, struct bytes body, uint64_t n_items,
                         const struct label_names *names)
{
    struct profiles_links links = {0};
    struct pending_profiles *pending = store_pending_profiles(store);
    int outcome = pending_profiles_is_enabled(pending)
                      ? profiles_links_read(body, ids_of, (void *)(uintptr_t)names, &links)
                      : PROFILES_LINKS_OK;
    if (outcome) { /* not malformed: the request was checked */
        stat_add_of(&not_joined, NOT_JOINED_TOO_LARGE, 1);
        links.n_contexts = 0;
    }
    stat_add_of(&not_joined, NOT_JOINED_TOO_MANY_SPANS, (int64_t)links.n_passed_over);
    outcome = pending_profiles_put(pending, body, n_items, &links, clock_unix_ns());
    profiles_links_close(&links);
    return outcome;
}

int intake_profiles_run(struct intake_request *request, struct store *store,
                        const struct intake_signal_settings *settings)
{
    _cleanup_buf_ struct buf inflated = BUF_INIT(0);
    struct bytes body;
    int outcome = intake_body_read(request, &inflated, &body);
    if (outcome)
        return outcome < 0 ? outcome : 0;
    uint64_t n_items = otlp_items_count(SIGNAL_PROFILES, body);
    request->outcome = INTAKE_ACCEPTED;
    if (n_items == 0)
        return 0;
    outcome = profiles_hold(store, body, n_items, &settings->label_names);
    if (outcome == OTLP_TOO_BIG)
        return intake_refuse_entry(request);
    if (outcome == -EFBIG)
        return intake_refuse_large(request);
    if (outcome != OTLP_OK)
        return outcome == OTLP_MALFORMED ? -EPROTO : outcome;
    stat_add(&samples_received, (int64_t)n_items);
    return 0;
}
