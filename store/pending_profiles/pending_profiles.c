/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory has the awaited spans, the database the requests: a body is read again when its request
 * goes to the outbox. Requests that have finished waiting go to the outbox before the commit of the
 * same batch, so a span and the profile that it completes are in one transaction.
 */
#include "base/stats.h"
#include "base/utf8.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include "store/db/db.h"
#include "store/pending_profiles/pending_profiles_state.h"
#include "store/outbox/outbox.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define NAME_MAX_BYTES       1024
#define ATTRIBUTES_MAX_BYTES 4096 /* sum over a span's attributes */

int pending_profiles_no_memory(struct pending_profiles *pending)
{
    db_fail(pending->db, -ENOMEM);
    return -ENOMEM;
}

STAT_LOSS(
    facts_cut, "spanprof_pending_profiles_facts_cut_total",
    "Spans whose names and attributes are not added to profiles of others that wait for them, "
    "because there were too many.");

/* ---- memory ---- */

static int pending_profiles_chain(struct pending_profiles *pending, struct awaited *awaited)
{
    void *first;
    int error = map_put(&pending->by_ids, awaited, &first);
    awaited->next = error ? NULL : first;
    return error;
}

static void pending_profiles_unchain(struct pending_profiles *pending, struct awaited *awaited)
{
    struct awaited *first = map_get(&pending->by_ids, &awaited->ids);
    struct awaited **at = &first;
    while (*at && *at != awaited)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = awaited->next;
    if (!first || map_put(&pending->by_ids, first, NULL)) /* it replaces the other entry */
        map_remove(&pending->by_ids, &awaited->ids);
}

void pending_profiles_free_request(struct pending_profiles *pending, struct request *request)
{
    for (uint32_t i = 0; i < request->n_awaited; i++) {
        struct awaited *awaited = &request->awaited[i];
        pending_profiles_unchain(pending, awaited);
        pending->fact_bytes -= awaited->facts ? awaited->facts->bytes : 0;
        free(awaited->facts);
    }
    list_remove(&request->age);
    list_remove(&request->leaving);
    assert(pending->n_requests > 0 && pending->n_awaited >= request->n_awaited);
    assert(pending->n_bytes >= request->n_bytes);
    pending->n_requests--;
    pending->n_awaited -= request->n_awaited;
    pending->n_bytes -= request->n_bytes;
    free(request);
}

void pending_profiles_free_all(struct pending_profiles *pending)
{
    struct list *link, *tmp;
    list_each(link, tmp, &pending->ages)
        pending_profiles_free_request(pending, container_of(link, struct request, age));
}

struct request *pending_profiles_new_request(struct pending_profiles *pending, size_t n_awaited)
{
    struct request *request = calloc(1, sizeof(*request) + n_awaited * sizeof(request->awaited[0]));
    if (!request)
        return NULL;
    list_append(&pending->ages, &request->age);
    pending->n_requests++;
    return request;
}

void pending_profiles_mark(const struct pending_profiles *pending, struct bytes resource,
                           struct owner_mark *mark)
{
    bool too_long = resource.len > PENDING_PROFILES_RESOURCE_MAX;
    struct owner_evidence evidence;
    owner_evidence_of(too_long ? BYTES(NULL, 0) : resource, &evidence);
    owner_mark_of(&evidence, pending->mark_key, mark);
}

/* Adds the next awaited span of the request, and chains it. */
int pending_profiles_add_awaited(struct pending_profiles *pending, struct request *request,
                                 const struct profiles_ids *ids, const struct owner_mark *mark)
{
    struct awaited *awaited = &request->awaited[request->n_awaited];
    awaited->mark = *mark;
    awaited->ids = *ids;
    awaited->request = request;
    if (pending_profiles_chain(pending, awaited))
        return pending_profiles_no_memory(pending);
    request->n_awaited++;
    request->n_open++;
    pending->n_awaited++;
    assert(request->n_open <= request->n_awaited && request->n_awaited <= pending->n_awaited);
    return 0;
}

static void let_go(struct pending_profiles *pending, struct request *request)
{
    if (!list_linked(&request->leaving))
        list_append(&pending->leaving, &request->leaving);
}

void pending_profiles_settle(struct pending_profiles *pending, struct awaited *awaited)
{
    assert(!awaited->settled && awaited->request->n_open > 0);
    awaited->settled = true;
    if (--awaited->request->n_open == 0)
        let_go(pending, awaited->request);
}

int pending_profiles_take_facts(struct pending_profiles *pending, struct awaited *awaited,
                                const struct profiles_span *span)
{
    struct bytes name = span->name, attributes = span->attributes;
    bool fits = pending->fact_bytes + name.len + attributes.len <= PENDING_PROFILES_FACTS_MAX;
    stat_add(&facts_cut, !fits);
    if (!fits)
        name.len = attributes.len = 0;
    size_t bytes = sizeof(struct facts) + name.len + attributes.len;
    struct facts *facts = calloc(1, bytes);
    if (!facts)
        return pending_profiles_no_memory(pending);
    facts->span = *span;
    facts->bytes = bytes;
    pending->fact_bytes += bytes;
    if (name.len)
        memcpy(facts->texts, name.data, name.len);
    if (attributes.len)
        memcpy(facts->texts + name.len, attributes.data, attributes.len);
    facts->span.name = BYTES(facts->texts, name.len);
    facts->span.attributes = BYTES(facts->texts + name.len, attributes.len);
    awaited->facts = facts;
    return 0;
}

/* ---- arriving requests ---- */

static int make_room(struct pending_profiles *pending, size_t n_bytes, size_t n_awaited)
{
    struct list *link, *tmp;
    uint64_t bytes = pending->n_bytes + n_bytes;
    size_t awaited = pending->n_awaited + n_awaited;
    list_each(link, tmp, &pending->ages)
    {
        struct request *request = container_of(link, struct request, age);
        if (bytes <= pending->settings.max_bytes && awaited <= PENDING_PROFILES_CONTEXTS_MAX)
            break;
        bytes -= request->n_bytes;
        awaited -= request->n_awaited;
        request->evicted = true;
        let_go(pending, request);
    }
    return pending_profiles_flush(pending);
}

/* Looks for a span that arrived earlier. */
static int look_back(struct pending_profiles *pending, struct awaited *awaited)
{
    struct profiles_span span;
    struct owner_mark mark;
    if (!recent_spans_get(pending->recent, &awaited->ids, &span, &mark))
        return 0;
    bool contradicts = owner_marks_contradict(&mark, &awaited->mark);
    int error = contradicts ? 0 : pending_profiles_take_facts(pending, awaited, &span);
    if (!error && !contradicts)
        error = pending_profiles_save_facts(pending, awaited);
    if (error)
        return error;
    pending_profiles_count_span(contradicts ? PROFILE_SPAN_NOT_OWNER : PROFILE_SPAN_KNOWN);
    pending_profiles_settle(pending, awaited);
    return 0;
}

/* Contexts of one Resource are adjacent. */
static int await_contexts(struct pending_profiles *pending, struct request *request,
                          const struct profiles_links *links)
{
    uint32_t resource = UINT32_MAX;
    struct owner_mark mark;
    int error = 0;
    for (size_t i = 0; i < links->n_contexts && !error; i++) {
        const struct profiles_context *context = &links->contexts[i];
        if (context->resource != resource)
            pending_profiles_mark(pending, links->resources[context->resource], &mark);
        resource = context->resource;
        error = pending_profiles_add_awaited(pending, request, &context->ids, &mark);
    }
    return error;
}

static int pending_profiles_hold(struct pending_profiles *pending, struct bytes body,
                                 uint64_t n_items, const struct profiles_links *links,
                                 uint64_t now_unix_ns)
{
    struct request *request = pending_profiles_new_request(pending, links->n_contexts);
    if (!request)
        return pending_profiles_no_memory(pending);
    request->received_unix_ns = now_unix_ns;
    request->n_items = n_items;
    request->n_bytes = body.len;
    pending->n_bytes += body.len;
    int error = pending_profiles_save(pending, request, body, links);
    if (!error)
        error = await_contexts(pending, request, links);
    for (size_t i = 0; i < request->n_awaited && !error; i++)
        error = look_back(pending, &request->awaited[i]);
    return error;
}

int pending_profiles_put(struct pending_profiles *pending, struct bytes body, uint64_t n_items,
                         const struct profiles_links *links, uint64_t now_unix_ns)
{
    WRITER_THREAD(pending->db);
    const struct pending_profiles_settings *settings = &pending->settings;
    if (!settings->enabled || !links->n_contexts || body.len > settings->max_bytes ||
        body.len > settings->max_body_bytes)
        return pending_profiles_pass_through(pending, body);
    int error = make_room(pending, body.len, links->n_contexts);
    if (error)
        return error;
    error = outbox_take_room(pending->outbox, body.len);
    return error ? error : pending_profiles_hold(pending, body, n_items, links, now_unix_ns);
}

void pending_profiles_expire(struct pending_profiles *pending, uint64_t now_unix_ns)
{
    WRITER_THREAD(pending->db);
    struct list *link, *tmp;
    list_each(link, tmp, &pending->ages)
    {
        struct request *request = container_of(link, struct request, age);
        uint64_t since = request->received_unix_ns;
        uint64_t age = since < now_unix_ns ? now_unix_ns - since : since - now_unix_ns;
        if (age >= pending->settings.wait_ns) /* also if the clock was set back */
            let_go(pending, request);
    }
}

/* ---- spans ---- */

/* Of the latest Resource, because the next span mostly has the same. */
static const struct owner_mark *mark_of(struct pending_profiles *pending,
                                        const struct otlp_span *span)
{
    if (!span->resource_number || span->resource_number != pending->latest_resource)
        pending_profiles_mark(pending, span->resource, &pending->latest_mark);
    pending->latest_resource = span->resource_number;
    return &pending->latest_mark;
}

static bool is_chosen(const struct pending_profiles *pending, struct bytes key)
{
    for (size_t i = 0; i < pending->n_keys; i++)
        if (pending->keys[i].len == key.len && bytes_equal(pending->keys[i], key))
            return true;
    return false;
}

/* One pass over the attributes, because this runs for every span. */
static void choose_attributes(const struct pending_profiles *pending, const struct otlp_span *span,
                              struct buf *out)
{
    struct wire_reader reader = wire_read(span->raw);
    struct wire_field field;
    while (pending->n_keys && wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == OTLP_SPAN_ATTRIBUTES && field.type == WIRE_BYTES &&
            is_chosen(pending, otlp_key_value_key(field.bytes)))
            (void)buf_append_bytes(out, field.raw); /* an attribute that does not fit is left out */
}

static int pending_profiles_meet(struct pending_profiles *pending, struct awaited *awaited,
                                 const struct profiles_span *span, const struct owner_mark *mark)
{
    if (awaited->settled)
        return 0; /* the span was sent again */
    if (owner_marks_contradict(mark, &awaited->mark)) {
        pending_profiles_count_span(PROFILE_SPAN_NOT_OWNER);
        pending_profiles_settle(pending, awaited);
        return 0;
    }
    int error = pending_profiles_take_facts(pending, awaited, span);
    error = error ? error : pending_profiles_save_facts(pending, awaited);
    if (error)
        return error;
    pending_profiles_count_span(PROFILE_SPAN_JOINED);
    pending_profiles_settle(pending, awaited);
    return 0;
}

int pending_profiles_span(struct pending_profiles *pending, const struct otlp_span *span)
{
    WRITER_THREAD(pending->db);
    struct buf attributes _cleanup_buf_ = BUF_INIT(ATTRIBUTES_MAX_BYTES);
    if (!pending->settings.enabled || span->trace_id.len != 16 || span->span_id.len != 8)
        return 0;
    struct profiles_span facts = {.name = utf8_cut(span->name, NAME_MAX_BYTES), .kind = span->kind};
    memcpy(facts.ids.trace_id, span->trace_id.data, 16);
    memcpy(facts.ids.span_id, span->span_id.data, 8);
    choose_attributes(pending, span, &attributes);
    facts.attributes = buf_bytes(&attributes);
    const struct owner_mark *mark = mark_of(pending, span);
    int error = recent_spans_put(pending->recent, &facts, mark);
    if (error)
        return pending_profiles_no_memory(pending);
    struct awaited *awaited = map_get(&pending->by_ids, &facts.ids);
    for (; awaited && !error; awaited = awaited->next)
        error = pending_profiles_meet(pending, awaited, &facts, mark);
    return error;
}

/* ---- opening ---- */

int pending_profiles_reload(struct pending_profiles *pending)
{
    WRITER_THREAD(pending->db);
    pending_profiles_free_all(pending);
    int error = pending_profiles_load(pending);
    pending_profiles_update_gauges(pending);
    return error;
}

int pending_profiles_open(struct db *db, struct outbox *outbox,
                          const struct pending_profiles_settings *settings,
                          struct pending_profiles **result)
{
    struct pending_profiles *pending = calloc(1, sizeof(*pending));
    if (!pending)
        return -ENOMEM;
    pending->db = db;
    pending->outbox = outbox;
    pending->settings = *settings;
    list_init(&pending->ages);
    list_init(&pending->leaving);
    MAP_INIT(&pending->by_ids, struct awaited, ids);
    for (const char *const *key = settings->span_attributes;
         key && *key && pending->n_keys < KEYS_MAX; key++)
        pending->keys[pending->n_keys++] = BYTES_STR(*key);
    int error = getrandom(pending->mark_key, sizeof(pending->mark_key), 0) < 0 ? -errno : 0;
    if (!error && settings->enabled)
        error = recent_spans_open(settings->max_recent_bytes, &pending->recent);
    error = error ? error : pending_profiles_prepare(pending);
    error = error ? error : pending_profiles_reload(pending);
    if (error) {
        pending_profiles_close(pending);
        return error;
    }
    *result = pending;
    return 0;
}

void pending_profiles_close(struct pending_profiles *pending)
{
    if (!pending)
        return;
    pending_profiles_unprepare(pending);
    pending_profiles_free_all(pending);
    map_close(&pending->by_ids);
    recent_spans_close(pending->recent);
    free(pending);
}

bool pending_profiles_has_leaving(const struct pending_profiles *pending)
{
    WRITER_THREAD(pending->db);
    return !list_empty(&pending->leaving);
}

bool pending_profiles_is_enabled(const struct pending_profiles *pending)
{
    return pending->settings.enabled;
}
