/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory knows who is waited for, the database the requests themselves: bodies are read again when
 * they leave. Requests that may leave do so before the commit of the batch that let them, so that a
 * span and the profile that it completes are one transaction.
 */
#include "base/utf8.h"
#include "proto/wire.h"
#include "store/db/db.h"
#include "store/held/held_parts.h"
#include "store/outbox/outbox.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define NAME_MAX_BYTES       1024
#define ATTRIBUTES_MAX_BYTES 4096 /* of a span, together */
#define SPAN_ATTRIBUTES      9    /* field of Span */

#define SPANS_STAT(variable, result)                                                               \
    STAT_COUNTER(variable, "spanprof_profile_spans_total", "result=\"" result "\"", HELD_SPANS_HELP)
SPANS_STAT(spans_joined, "joined");     /* it came while the profile waited */
SPANS_STAT(spans_known, "known");       /* it had come before */
SPANS_STAT(spans_foreign, "not_owner"); /* its Resource is another process's */

int held_no_memory(struct held *held)
{
    db_fail(held->db, -ENOMEM);
    return -ENOMEM;
}

/* ---- memory ---- */

static int chain(struct held *held, struct awaited *awaited)
{
    void *first;
    int error = map_put(&held->by_ids, awaited, &first);
    awaited->next = error ? NULL : first;
    return error;
}

static void unchain(struct held *held, struct awaited *awaited)
{
    struct awaited *first = map_get(&held->by_ids, &awaited->ids);
    struct awaited **at = &first;
    while (*at && *at != awaited)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = awaited->next;
    if (!first || map_put(&held->by_ids, first, NULL)) /* it takes the other's place */
        map_remove(&held->by_ids, &awaited->ids);
}

void held_free_request(struct held *held, struct request *request)
{
    for (uint32_t i = 0; i < request->n_awaited; i++) {
        unchain(held, &request->awaited[i]);
        free(request->awaited[i].facts);
    }
    list_remove(&request->age);
    list_remove(&request->leaving);
    held->n_requests--;
    held->n_awaited -= request->n_awaited;
    held->n_bytes -= request->n_bytes;
    free(request);
}

void held_free_all(struct held *held)
{
    struct list *link, *tmp;
    list_each(link, tmp, &held->ages)
        held_free_request(held, container_of(link, struct request, age));
}

struct request *held_new_request(struct held *held, size_t n_awaited)
{
    struct request *request = calloc(1, sizeof(*request) + n_awaited * sizeof(request->awaited[0]));
    if (!request)
        return NULL;
    list_append(&held->ages, &request->age);
    held->n_requests++;
    return request;
}

/* The next of the request's; chained when it is known whose it is. */
int held_add_awaited(struct held *held, struct request *request, const struct profiles_ids *ids,
                     struct bytes resource)
{
    struct awaited *awaited = &request->awaited[request->n_awaited];
    struct owner_evidence evidence;
    owner_evidence_of(resource, &evidence);
    owner_mark_of(&evidence, held->mark_key, &awaited->mark);
    awaited->ids = *ids;
    awaited->request = request;
    if (chain(held, awaited))
        return held_no_memory(held);
    request->n_awaited++;
    request->n_open++;
    held->n_awaited++;
    return 0;
}

static void let_go(struct held *held, struct request *request)
{
    if (!list_linked(&request->leaving))
        list_append(&held->leaving, &request->leaving);
}

void held_settle(struct held *held, struct awaited *awaited)
{
    awaited->settled = true;
    if (--awaited->request->n_open == 0)
        let_go(held, awaited->request);
}

int held_take_facts(struct held *held, struct awaited *awaited, const struct profiles_span *span)
{
    struct facts *facts = calloc(1, sizeof(*facts) + span->name.len + span->attributes.len);
    if (!facts)
        return held_no_memory(held);
    facts->span = *span;
    if (span->name.len)
        memcpy(facts->texts, span->name.data, span->name.len);
    if (span->attributes.len)
        memcpy(facts->texts + span->name.len, span->attributes.data, span->attributes.len);
    facts->span.name = BYTES(facts->texts, span->name.len);
    facts->span.attributes = BYTES(facts->texts + span->name.len, span->attributes.len);
    awaited->facts = facts;
    return 0;
}

/* ---- coming ---- */

static int make_room(struct held *held, size_t n_bytes, size_t n_awaited)
{
    struct list *link, *tmp;
    uint64_t bytes = held->n_bytes + n_bytes;
    size_t awaited = held->n_awaited + n_awaited;
    list_each(link, tmp, &held->ages)
    {
        struct request *request = container_of(link, struct request, age);
        if (bytes <= held->settings.max_bytes && awaited <= HELD_CONTEXTS_MAX)
            break;
        bytes -= request->n_bytes;
        awaited -= request->n_awaited;
        request->evicted = true;
        let_go(held, request);
    }
    return held_flush(held);
}

/* What came before. */
static int look_back(struct held *held, struct awaited *awaited)
{
    struct profiles_span span;
    struct owner_mark mark;
    if (!recent_spans_get(held->recent, &awaited->ids, &span, &mark))
        return 0;
    bool contradicts = owner_marks_contradict(&mark, &awaited->mark);
    int error = contradicts ? 0 : held_take_facts(held, awaited, &span);
    if (!error && !contradicts)
        error = held_save_facts(held, awaited);
    if (error)
        return error;
    stat_add(contradicts ? &spans_foreign : &spans_known, 1);
    held_settle(held, awaited);
    return 0;
}

static int hold(struct held *held, struct bytes body, uint64_t n_items,
                const struct profiles_links *links, uint64_t now_unix_ns)
{
    struct request *request = held_new_request(held, links->n_contexts);
    if (!request)
        return held_no_memory(held);
    request->received_unix_ns = now_unix_ns;
    request->n_items = n_items;
    request->n_bytes = body.len;
    held->n_bytes += body.len;
    int error = held_save(held, request, body, links);
    for (size_t i = 0; i < links->n_contexts && !error; i++)
        error = held_add_awaited(held, request, &links->contexts[i].ids,
                                 links->resources[links->contexts[i].resource]);
    for (size_t i = 0; i < request->n_awaited && !error; i++)
        error = look_back(held, &request->awaited[i]);
    return error;
}

int held_put(struct held *held, struct bytes body, uint64_t n_items,
             const struct profiles_links *links, uint64_t now_unix_ns)
{
    const struct held_settings *settings = &held->settings;
    if (!settings->enabled || !links->n_contexts || body.len > settings->max_bytes ||
        body.len > settings->max_body_bytes)
        return held_pass_through(held, body);
    int error = make_room(held, body.len, links->n_contexts);
    if (error)
        return error;
    error = outbox_take_room(held->outbox, body.len);
    return error ? error : hold(held, body, n_items, links, now_unix_ns);
}

void held_expire(struct held *held, uint64_t now_unix_ns)
{
    struct list *link, *tmp;
    list_each(link, tmp, &held->ages)
    {
        struct request *request = container_of(link, struct request, age);
        uint64_t since = request->received_unix_ns;
        uint64_t age = since < now_unix_ns ? now_unix_ns - since : since - now_unix_ns;
        if (age >= held->settings.wait_ns) /* also one of a future that a clock has left */
            let_go(held, request);
    }
}

/* ---- spans ---- */

static const struct owner_mark *mark_of(struct held *held, struct bytes resource)
{
    struct owner_evidence evidence;
    if (held->has_latest && bytes_equal(buf_bytes(&held->latest_resource), resource))
        return &held->latest_mark;
    owner_evidence_of(resource, &evidence);
    owner_mark_of(&evidence, held->mark_key, &held->latest_mark);
    buf_clear(&held->latest_resource);
    held->has_latest = buf_append_bytes(&held->latest_resource, resource) == 0;
    return &held->latest_mark;
}

static bool is_chosen(const struct held *held, struct bytes key)
{
    for (size_t i = 0; i < held->n_keys; i++)
        if (held->keys[i].len == key.len && bytes_equal(held->keys[i], key))
            return true;
    return false;
}

/* In one pass, for it is done for every span. */
static void choose_attributes(const struct held *held, const struct otlp_span *span,
                              struct buf *out)
{
    struct wire_reader reader = wire_read(span->raw);
    struct wire_field field;
    while (held->n_keys && wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == SPAN_ATTRIBUTES && field.type == WIRE_BYTES &&
            is_chosen(held, otlp_key_value_key(field.bytes)))
            (void)buf_append_bytes(out, field.raw); /* what does not fit is left out */
}

static int meet(struct held *held, struct awaited *awaited, const struct profiles_span *span,
                const struct owner_mark *mark)
{
    if (awaited->settled)
        return 0; /* the span was sent again */
    if (owner_marks_contradict(mark, &awaited->mark)) {
        stat_add(&spans_foreign, 1);
        held_settle(held, awaited);
        return 0;
    }
    int error = held_take_facts(held, awaited, span);
    error = error ? error : held_save_facts(held, awaited);
    if (error)
        return error;
    stat_add(&spans_joined, 1);
    held_settle(held, awaited);
    return 0;
}

int held_span(struct held *held, const struct otlp_span *span)
{
    struct buf attributes _cleanup_buf_ = BUF_INIT(ATTRIBUTES_MAX_BYTES);
    if (!held->settings.enabled || span->trace_id.len != 16 || span->span_id.len != 8)
        return 0;
    struct profiles_span facts = {.name = utf8_cut(span->name, NAME_MAX_BYTES), .kind = span->kind};
    memcpy(facts.ids.trace_id, span->trace_id.data, 16);
    memcpy(facts.ids.span_id, span->span_id.data, 8);
    choose_attributes(held, span, &attributes);
    facts.attributes = buf_bytes(&attributes);
    const struct owner_mark *mark = mark_of(held, span->resource);
    int error = recent_spans_put(held->recent, &facts, mark);
    if (error)
        return held_no_memory(held);
    struct awaited *awaited = map_get(&held->by_ids, &facts.ids);
    for (; awaited && !error; awaited = awaited->next)
        error = meet(held, awaited, &facts, mark);
    return error;
}

/* ---- opening ---- */

int held_reload(struct held *held)
{
    held_free_all(held);
    int error = held_load(held);
    held_update_gauges(held);
    return error;
}

int held_open(struct db *db, struct outbox *outbox, const struct held_settings *settings,
              struct held **result)
{
    struct held *held = calloc(1, sizeof(*held));
    if (!held)
        return -ENOMEM;
    held->db = db;
    held->outbox = outbox;
    held->settings = *settings;
    list_init(&held->ages);
    list_init(&held->leaving);
    MAP_INIT(&held->by_ids, struct awaited, ids);
    for (const char *const *key = settings->span_attributes; key && *key && held->n_keys < KEYS_MAX;
         key++)
        held->keys[held->n_keys++] = BYTES_STR(*key);
    int error = getrandom(held->mark_key, sizeof(held->mark_key), 0) < 0 ? -errno : 0;
    if (!error && settings->enabled)
        error = recent_spans_open(settings->max_recent_bytes, &held->recent);
    error = error ? error : held_prepare(held);
    error = error ? error : held_reload(held);
    if (error) {
        held_close(held);
        return error;
    }
    *result = held;
    return 0;
}

void held_close(struct held *held)
{
    if (!held)
        return;
    held_unprepare(held);
    held_free_all(held);
    map_close(&held->by_ids);
    recent_spans_close(held->recent);
    buf_close(&held->latest_resource);
    free(held);
}

bool held_has_leaving(const struct held *held)
{
    return !list_empty(&held->leaving);
}

bool held_is_enabled(const struct held *held)
{
    return held->settings.enabled;
}
