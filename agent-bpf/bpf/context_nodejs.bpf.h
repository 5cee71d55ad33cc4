/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * OpenTelemetry's context of Node.js (context/context_layout.h has the format's source). The
 * thread's variable leads to the slot of its isolate that holds the current async context, a Map of
 * JavaScript; there the publisher's AsyncLocalStorage is looked up, in one bucket; its value is an
 * object with the address of a record as in context_ids.bpf.h. Nothing of V8's is trusted: words
 * must have the tag that is due, counts must fit into the table, and a chain ends after
 * NODEJS_CHAIN_MAX entries. While the collector moves objects, and while a table is replaced, the
 * key may not be found, or an outdated table may: then there is no context, or a torn one.
 */
#include "agent-bpf/bpf/context_ids.bpf.h"

#define V8_TAG              1u
#define V8_MAP_TABLE        24 /* in a Map: its table, without pointer compression */
#define NODEJS_SLOT_MIN     24
#define NODEJS_TABLE_COUNTS 3 /* words in front of the buckets */
#define NODEJS_ENTRY_WORDS  3
#define NODEJS_LOAD         2 /* entries for each bucket */
#define NODEJS_BUCKETS_MAX  65536
#define NODEJS_CHAIN_MAX    16
#define NODEJS_VALID_OFFSET 24 /* in a record */

struct nodejs_thread {
    __u64 frame_slot; /* 0 = nothing to read, for now */
    __u64 key_handle;
    __u32 key_hash;
    __u8 record_slot;
    __u8 reserved[3];
    __u64 undefined;
};

struct nodejs_table { /* an OrderedHashMap */
    __u64 map;
    __u64 length; /* of the array that it is, in words behind this one */
    __u64 elements;
    __u64 deleted;
    __u64 buckets;
};

struct nodejs_entry {
    __u64 key;
    __u64 value;
    __u64 next; /* index of the next entry of this bucket; -1: none */
};

_Static_assert(sizeof(struct nodejs_thread) == 32, "the draft");
_Static_assert(sizeof(struct nodejs_table) == 40 && sizeof(struct nodejs_entry) == 24, "V8");

static __always_inline bool v8_is_object(__u64 word)
{
    return (word & 3) == V8_TAG;
}

/* A small integer; -1 also for a word that is none. */
static __always_inline __s64 v8_number(__u64 word)
{
    return (__u32)word ? -1 : (__s64)word >> 32;
}

static __always_inline long nodejs_word(__u64 *word, __u64 address)
{
    return bpf_probe_read_user(word, sizeof(*word), (void *)address);
}

/* Replaces *object by the object that lies in its word at `offset`. */
static __always_inline enum context_outcome nodejs_follow(__u64 *object, __u64 offset)
{
    if (nodejs_word(object, *object - V8_TAG + offset) || !v8_is_object(*object))
        return CONTEXT_TORN;
    return CONTEXT_FOUND;
}

static __always_inline bool nodejs_table_fits(const struct nodejs_table *table)
{
    __s64 elements = v8_number(table->elements), deleted = v8_number(table->deleted);
    __s64 buckets = v8_number(table->buckets);
    if (buckets <= 0 || buckets > NODEJS_BUCKETS_MAX || (buckets & (buckets - 1)))
        return false;
    if (elements < 0 || deleted < 0 || elements + deleted > buckets * NODEJS_LOAD)
        return false;
    return v8_number(table->length) >=
           NODEJS_TABLE_COUNTS + buckets + buckets * NODEJS_LOAD * NODEJS_ENTRY_WORDS;
}

/* The value of the key in the table; CONTEXT_ABSENT: it has none. */
static __always_inline enum context_outcome
nodejs_look_up(__u64 at, const struct nodejs_thread *thread, __u64 *value)
{
    struct nodejs_table table;
    struct nodejs_entry entry;
    __u64 key, head;
    if (nodejs_word(&key, thread->key_handle) || !v8_is_object(key) ||
        bpf_probe_read_user(&table, sizeof(table), (void *)at) || !nodejs_table_fits(&table))
        return CONTEXT_TORN;
    __u64 buckets = table.buckets >> 32, first = at + sizeof(table);
    if (nodejs_word(&head, first + (thread->key_hash & (buckets - 1)) * sizeof(head)))
        return CONTEXT_TORN;
    __u64 entries = first + buckets * sizeof(head);
    __u64 used = (table.elements >> 32) + (table.deleted >> 32);
    for (__u32 i = 0; i < NODEJS_CHAIN_MAX; i++) {
        __u64 index = head >> 32;
        if ((__u32)head == 0 && index == 0xffffffff)
            return CONTEXT_ABSENT;
        if ((__u32)head || index >= used ||
            bpf_probe_read_user(&entry, sizeof(entry), (void *)(entries + index * sizeof(entry))))
            return CONTEXT_TORN;
        if (entry.key == key) {
            *value = entry.value;
            return CONTEXT_FOUND;
        }
        head = entry.next;
    }
    return CONTEXT_TORN;
}

/* The object that the current async context has for the key. */
__noinline int nodejs_find_object(const struct nodejs_thread *thread, __u64 *object)
{
    if (!thread || !object)
        return CONTEXT_ABSENT;
    __u64 at;
    if (nodejs_word(&at, thread->frame_slot))
        return CONTEXT_TORN;
    if (at == thread->undefined)
        return CONTEXT_ABSENT;
    if (!v8_is_object(at) || nodejs_follow(&at, V8_MAP_TABLE))
        return CONTEXT_TORN;
    enum context_outcome outcome = nodejs_look_up(at - V8_TAG, thread, object);
    if (outcome)
        return outcome;
    if (*object == thread->undefined)
        return CONTEXT_ABSENT;
    return v8_is_object(*object) ? CONTEXT_FOUND : CONTEXT_TORN;
}

/*
 * The address of the object's record. 0 = none any more: its isolate ends. Writers that publish the
 * offset name that of Node.js 22; since 23 a word of V8's that is 0 lies there, and what is meant
 * lies behind it.
 */
static __always_inline enum context_outcome nodejs_record(const struct context_variable *variable,
                                                          __u8 in_variable, __u64 object,
                                                          __u64 *record)
{
    bool published = variable->nodejs_form != NODEJS_SLOT_IN_VARIABLE;
    __u64 slot = published ? variable->nodejs_slot : in_variable, at = object - V8_TAG + slot;
    if (slot < NODEJS_SLOT_MIN || slot % 8 || nodejs_word(record, at))
        return CONTEXT_TORN;
    if (published && !*record && nodejs_word(record, at + 8))
        return CONTEXT_TORN;
    bool of_owner = variable->nodejs_form == NODEJS_SLOT_OF_OWNER && *record;
    if (of_owner && (*record & 1 || nodejs_word(record, *record + variable->nodejs_owner)))
        return CONTEXT_TORN;
    return *record & 1 ? CONTEXT_TORN : *record ? CONTEXT_FOUND : CONTEXT_ABSENT;
}

/* address: of the thread's variable. A record that is not valid is of a span that has ended. */
__noinline int context_read_nodejs(struct build *build, const struct context_variable *variable,
                                   __u64 address)
{
    if (!build || !variable)
        return CONTEXT_ABSENT;
    struct nodejs_thread thread = {0};
    __u64 object = 0, record = 0;
    __u8 valid = 0;
    if (bpf_probe_read_user(&thread, sizeof(thread), (void *)address))
        return CONTEXT_TORN;
    int outcome = nodejs_find_object(&thread, &object);
    outcome = outcome ? outcome : nodejs_record(variable, thread.record_slot, object, &record);
    if (outcome)
        return outcome;
    if (bpf_probe_read_user(&valid, sizeof(valid), (void *)(record + NODEJS_VALID_OFFSET)))
        return CONTEXT_TORN;
    outcome = valid ? context_read_otel(build, record) : CONTEXT_ABSENT;
    if (outcome == CONTEXT_FOUND)
        build->header.context_source = CONTEXT_OTEL_NODEJS;
    if (outcome == CONTEXT_FOUND && build->header.attributes_source == CONTEXT_OTEL_THREAD)
        build->header.attributes_source = CONTEXT_OTEL_NODEJS;
    return outcome;
}
