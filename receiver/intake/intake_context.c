/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zero flag byte may mean "not sampled" or "not written". A writer's flags are trusted if it
 * declares that it sets them, or once it has set the sampled flag. Labels and OBI's map have no
 * flags.
 */
#include "receiver/intake/intake_context.h"
#include "agent-bpf/drain/ring.h"
#include "agent-bpf/drain/task_name.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/stats.h"
#include "proto/otlp/otlp_spans.h"
#include <errno.h>
#include <stdlib.h>

STAT_COUNTERS(taken, "spanprof_intake_samples_total",
              "Samples taken, by the source of their context.",
              STAT_LABEL("context", context_source_names, CONTEXT_SOURCES));

enum unattributed { NONE_ACTIVE, UNREADABLE, NOT_ATTACHED, UNATTRIBUTED };

static const char *const unattributed_names[] = {
    [NONE_ACTIVE] = "none_active", [UNREADABLE] = "unreadable", [NOT_ATTACHED] = "not_attached"};
STAT_LOSSES(unattributed, "spanprof_samples_unattributed_total",
            "Samples without context from processes that publish one, by reason.",
            STAT_LABEL("reason", unattributed_names, UNATTRIBUTED));
STAT_LOSS(attributes_dropped, "spanprof_context_attributes_dropped_total",
          "Context attributes left out: unknown key, not UTF-8, or more than fit.");

enum task_outcome { TASK_NAMED, TASK_UNREADABLE, TASK_OUTCOMES };

static const char *const task_outcome_names[] = {
    [TASK_NAMED] = "named", [TASK_UNREADABLE] = "unreadable"};
STAT_COUNTERS(tasks, "spanprof_task_names_total",
              "Samples of threads that run a task of asyncio, by what became of its name.",
              STAT_LABEL("outcome", task_outcome_names, TASK_OUTCOMES));

#define FLAG_SLOTS   4096 /* writers that have set the sampled flag */
#define LABEL_PREFIX "process.context.label."

struct sample_context {
    struct label_names names;
    struct buf attributes;
    uint64_t sets_flags[FLAG_SLOTS];
};

int intake_context_open(const struct label_names *names, struct sample_context **contextp)
{
    struct sample_context *context = calloc(1, sizeof(*context));
    if (!context)
        return -ENOMEM;
    context->names = *names;
    context->attributes = BUF_INIT(SAMPLE_ATTRIBUTES_MAX);
    *contextp = context;
    return 0;
}

void intake_context_close(struct sample_context *context)
{
    if (!context)
        return;
    buf_close(&context->attributes);
    free(context);
}

/* ---- attributes ---- */

/* The key is copied to a C string: a key with a zero byte inside would become another key. */
static void sample_context_put(struct sample_context *context, const char *prefix, struct bytes key,
                               struct bytes value)
{
    char name[sizeof(LABEL_PREFIX) + UINT8_MAX];
    size_t len = strlen(prefix);
    bool fits = key.len > 0 && key.len <= UINT8_MAX && !memchr(key.data, 0, key.len) &&
                bytes_utf8_valid(key) && bytes_utf8_valid(value);
    if (fits) {
        memcpy(name, prefix, len);
        memcpy(name + len, key.data, key.len);
        name[len + key.len] = '\0';
        fits = otlp_attribute_string(&context->attributes, OTLP_SPAN_ATTRIBUTES, name, value) == 0;
    }
    stat_add(&attributes_dropped, !fits);
}

/* Entries are: key index u8, length u8, bytes. An incomplete entry ends the list; of a repeated
 * index the last entry counts. */
static void last_entries(struct bytes rest, const uint8_t *entries[256])
{
    memset(entries, 0, 256 * sizeof(*entries));
    while (rest.len >= 2 && rest.len >= 2u + rest.data[1]) {
        size_t size = 2u + rest.data[1];
        entries[rest.data[0]] = rest.data;
        rest = BYTES(rest.data + size, rest.len - size);
    }
}

static int put_indexed(struct sample_context *context, struct bytes attributes,
                       const struct process_details *details)
{
    const uint8_t *entries[256];
    int changed = 0;
    if (!attributes.len)
        return 0;
    last_entries(attributes, entries);
    for (size_t index = 0; index < 256; index++) {
        if (!entries[index])
            continue;
        bool known = index < details->n_keys;
        sample_context_put(context, "", known ? details->keys[index] : BYTES(NULL, 0),
                           BYTES(entries[index] + 2, entries[index][1]));
        changed = known ? changed : SAMPLE_CONTEXT_CHANGED;
    }
    return changed;
}

/* A text of the sampler's maximum length may have been cut within a character. */
static struct bytes whole_characters(struct bytes text)
{
    size_t len = text.len;
    if (len < CONTEXT_LABEL_MAX)
        return text;
    while (len > text.len - 4 && (text.data[len - 1] & 0xc0) == 0x80)
        len--;
    uint8_t first = text.data[len - 1];
    size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    return len - 1 + size > text.len ? BYTES(text.data, len - 1) : text;
}

static void put_labels(struct sample_context *context, struct bytes labels)
{
    struct bytes key, value;
    while (labels_next(&labels, &key, &value))
        if (!labels_is_id(key, value, &context->names))
            sample_context_put(context, LABEL_PREFIX, whole_characters(key),
                               whole_characters(value));
}

static void put_task(struct sample_context *context, const struct record_header *record)
{
    char name[TASK_NAME_SIZE];
    if (!record->task_size)
        return;
    size_t len = task_name(record_task(record), record->task_size, name);
    stat_add_of(&tasks, len ? TASK_NAMED : TASK_UNREADABLE, 1);
    if (len)
        sample_context_put(context, "", BYTES_STR(SAMPLE_TASK_KEY), BYTES(name, len));
}

/* ---- ids ---- */

static bool are_labels(const struct record_header *record)
{
    return context_source_form(record->attributes_source) == CONTEXT_FORM_LABELS;
}

static struct bytes attributes_of(const struct record_header *record)
{
    return BYTES(record_attributes(record), record->attributes_size);
}

/* A writer that has set the sampled flag once does write the flag byte. Zeros alone prove nothing:
 * older writers left the byte reserved. */
static bool sets_flags(struct sample_context *context, const struct record_header *record,
                       const struct process_details *details)
{
    if (!context_source_has_flags(record->context_source))
        return false;
    uint64_t who = (record->process_start_ns << 20 ^ record->pid) << 1 | 1;
    who ^= (uint64_t)record->context_source << 60;
    uint64_t *slot = &context->sets_flags[hash_mix(who) >> 52];
    if (record->trace_flags & 1)
        *slot = who;
    return details->sets_trace_flags || *slot == who;
}

/* The lower source number has precedence. */
static bool take_label_ids(const struct sample_context *context, const struct record_header *record,
                           struct sample *sample)
{
    struct label_ids ids;
    bool outranked = record->context_source && record->context_source < record->attributes_source;
    if (!are_labels(record) || outranked ||
        !labels_ids(attributes_of(record), &context->names, &ids))
        return false;
    sample->context_source = record->attributes_source;
    memcpy(sample->trace_id, ids.trace_id, sizeof(sample->trace_id));
    memcpy(sample->span_id, ids.span_id, sizeof(sample->span_id));
    memcpy(sample->local_root_id, ids.local_root_id, sizeof(sample->local_root_id));
    return true;
}

static void take_header_ids(struct sample_context *context, const struct record_header *record,
                            const struct process_details *details, struct sample *sample)
{
    sample->context_source =
        record->context_source < CONTEXT_SOURCES ? record->context_source : CONTEXT_NONE;
    sample->trace_flags = record->trace_flags;
    sample->flags_trusted = sets_flags(context, record, details);
    memcpy(sample->trace_id, record->trace_id, sizeof(sample->trace_id));
    memcpy(sample->span_id, record->span_id, sizeof(sample->span_id));
    memcpy(sample->local_root_id, record->local_root_id, sizeof(sample->local_root_id));
}

/* ---- counting ---- */

static void context_count(const struct record_header *record, const struct process_details *details,
                          uint8_t source)
{
    stat_add_of(&taken, source, 1);
    if (source || !details->publishes)
        return;
    stat_add_of(&unattributed,
                record->flags & RECORD_FLAG_CONTEXT_TORN   ? UNREADABLE
                : !(details->publishes & details->sources) ? NOT_ATTACHED
                                                           : NONE_ACTIVE,
                1);
}

int intake_context_fill(struct sample_context *context, const struct record_header *record,
                        const struct process_details *details, struct sample *sample)
{
    int changed = record->flags & RECORD_FLAG_CONTEXT_CHANGED ? SAMPLE_CONTEXT_CHANGED : 0;
    buf_clear(&context->attributes);
    if (!take_label_ids(context, record, sample))
        take_header_ids(context, record, details, sample);
    if (are_labels(record))
        put_labels(context, attributes_of(record));
    else if (context_source_form(record->attributes_source) == CONTEXT_FORM_INDEXED)
        changed |= put_indexed(context, attributes_of(record), details);
    put_task(context, record);
    sample->attributes = buf_bytes(&context->attributes);
    context_count(record, details, sample->context_source);
    return changed;
}
