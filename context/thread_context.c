/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread's half of spanprof_context.h, in the ABI's swap-pointer style: of two records one is
 * active or none is; a change fills the other one and then swaps the pointer to it. A thread that
 * is stopped anywhere shows the old record or the new one, both whole. Only the thread itself
 * writes, and readers look at it only while it does not run: compiler fences are all the order that
 * is needed.
 *
 * The active record may be another writer's (a copy of this library that could not be merged): it
 * is read with the care of a stranger's and never written.
 */
#include "context/shared_state.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct thread {
    struct otel_thread_record *volatile *active;
    struct shared_records *own;
};

_Static_assert(offsetof(struct spanprof_context, trace_flags) == 25, "copied in one piece");
_Static_assert(offsetof(struct spanprof_context, attributes_size) == 26, "");
_Static_assert(offsetof(struct spanprof_context, attributes) == OTEL_THREAD_RECORD_HEAD, "");

/* The one place where TLS is touched, as a call that the compiler knows nothing about: glibc's
 * resolver for TLS descriptors before 2.40 may clobber vector registers, which a caller thinks are
 * kept. */
#if defined(__clang__)
#define OPAQUE __attribute__((noinline))
#else
#define OPAQUE __attribute__((noipa))
#endif
OPAQUE static struct thread this_thread(void)
{
    return (struct thread){(struct otel_thread_record *volatile *)&otel_thread_ctx_v1,
                           &spanprof_context_records_v1};
}

static void context_fence(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

static struct otel_thread_record *own_record(const struct thread *thread, unsigned i)
{
    return (struct otel_thread_record *)thread->own->records[i];
}

static bool is_own(const struct thread *thread, const struct otel_thread_record *record)
{
    return record == own_record(thread, 0) || record == own_record(thread, 1);
}

static struct otel_thread_record *spare_record(const struct thread *thread)
{
    return own_record(thread, *thread->active == own_record(thread, 0));
}

static bool thread_begin(const struct thread *thread)
{
    if (thread->own->busy)
        return false;
    thread->own->busy = 1;
    context_fence();
    return true;
}

static int thread_finish(const struct thread *thread, int result)
{
    context_fence();
    thread->own->busy = 0;
    return result;
}

static void swap_to(const struct thread *thread, struct otel_thread_record *record)
{
    context_fence();
    *thread->active = record;
}

/* Bytes of whole attributes at the front that fit into limit. */
static size_t whole_attributes(const uint8_t *attributes, size_t size, size_t limit)
{
    size_t end = 0;
    while (end + 2 <= size) {
        size_t next = end + 2 + attributes[end + 1];
        if (next > size || next > limit)
            break;
        end = next;
    }
    return end;
}

static void copy_active(const struct thread *thread, struct spanprof_context *context)
{
    const struct otel_thread_record *record = *thread->active;
    if (!record || record->valid != OTEL_THREAD_RECORD_VALID) {
        memset(context, 0, OTEL_THREAD_RECORD_HEAD);
        return;
    }
    size_t size = record->attributes_size;
    if (!is_own(thread, record))
        size = whole_attributes(record->attributes, size, sizeof(context->attributes));
    memcpy(context, record, OTEL_THREAD_RECORD_HEAD);
    memcpy(context->attributes, record->attributes, size);
    context->reserved = 0;
    context->attributes_size = (uint16_t)size;
}

static bool is_zero(const uint8_t *id, size_t n_words)
{
    uint64_t words[2] = {0};
    memcpy(words, id, n_words * 8);
    return !(words[0] | words[1]);
}

/* 1: both ids are there. 0: neither. -EINVAL: one of them. */
static int check_ids(const uint8_t *trace_id, const uint8_t *span_id)
{
    bool no_trace = is_zero(trace_id, 2), no_span = is_zero(span_id, 1);
    return no_trace != no_span ? -EINVAL : !no_trace;
}

static int set_ids(const struct thread *thread, const uint8_t *trace_id, const uint8_t *span_id,
                   uint8_t trace_flags)
{
    int ids = check_ids(trace_id, span_id);
    if (ids <= 0) {
        swap_to(thread, NULL);
        return ids;
    }
    struct otel_thread_record *record = spare_record(thread);
    memcpy(record->trace_id, trace_id, sizeof(record->trace_id));
    memcpy(record->span_id, span_id, sizeof(record->span_id));
    record->valid = OTEL_THREAD_RECORD_VALID;
    record->trace_flags = trace_flags;
    record->attributes_size = 0;
    swap_to(thread, record);
    return 0;
}

int spanprof_context_set(const uint8_t trace_id[16], const uint8_t span_id[8], uint8_t trace_flags)
{
    struct thread thread = this_thread();
    if (!thread_begin(&thread))
        return -EBUSY;
    return thread_finish(&thread, set_ids(&thread, trace_id, span_id, trace_flags));
}

int spanprof_context_clear(void)
{
    struct thread thread = this_thread();
    if (!thread_begin(&thread))
        return -EBUSY;
    swap_to(&thread, NULL);
    return thread_finish(&thread, 0);
}

int spanprof_context_enter(const uint8_t trace_id[16], const uint8_t span_id[8],
                           uint8_t trace_flags, struct spanprof_context *previous)
{
    struct thread thread = this_thread();
    bool begun = thread_begin(&thread);
    if (previous)
        copy_active(&thread, previous);
    if (!begun)
        return -EBUSY;
    return thread_finish(&thread, set_ids(&thread, trace_id, span_id, trace_flags));
}

int spanprof_context_attach(const struct spanprof_context *context)
{
    struct thread thread = this_thread();
    if (!thread_begin(&thread))
        return -EBUSY;
    int ids = check_ids(context->trace_id, context->span_id);
    if (ids > 0 && context->attributes_size > sizeof(context->attributes))
        ids = -EINVAL;
    if (ids <= 0) {
        swap_to(&thread, NULL);
        return thread_finish(&thread, ids);
    }
    struct otel_thread_record *record = spare_record(&thread);
    memcpy(record, context, OTEL_THREAD_RECORD_HEAD);
    memcpy(record->attributes, context->attributes, context->attributes_size);
    record->valid = OTEL_THREAD_RECORD_VALID;
    swap_to(&thread, record);
    return thread_finish(&thread, 0);
}

void spanprof_context_get(struct spanprof_context *context)
{
    struct thread thread = this_thread();
    bool begun =
        thread_begin(&thread); /* a handler must not use up both records while one is copied */
    copy_active(&thread, context);
    if (begun)
        thread_finish(&thread, 0);
}

static bool attribute_valid(int key, const void *value, size_t size)
{
    return key >= 0 && key < OTEL_THREAD_KEYS_MAX && size <= UINT8_MAX && (value || !size);
}

/* Where the attribute is; size if it is not there. */
static size_t find_attribute(const uint8_t *attributes, size_t size, int key)
{
    size_t at = 0;
    while (at < size && attributes[at] != key)
        at += 2 + (size_t)attributes[at + 1];
    return at < size ? at : size;
}

static void put_attribute(uint8_t *at, int key, const void *value, size_t size)
{
    at[0] = (uint8_t)key;
    at[1] = (uint8_t)size;
    if (size)
        memcpy(at + 2, value, size);
}

int spanprof_context_add(struct spanprof_context *context, int key, const void *value, size_t size)
{
    uint8_t *attributes = context->attributes;
    if (!attribute_valid(key, value, size) ||
        context->attributes_size > sizeof(context->attributes))
        return -EINVAL;
    if (whole_attributes(attributes, context->attributes_size, sizeof(context->attributes)) !=
        context->attributes_size)
        return -EINVAL;
    size_t end = context->attributes_size, at = find_attribute(attributes, end, key);
    size_t old_size = at < end ? 2 + (size_t)attributes[at + 1] : 0;
    if (end - old_size + 2 + size > sizeof(context->attributes))
        return -ENOSPC;
    memmove(attributes + at, attributes + at + old_size, end - at - old_size);
    end -= old_size;
    put_attribute(attributes + end, key, value, size);
    context->attributes_size = (uint16_t)(end + 2 + size);
    return 0;
}

/* A new attribute goes behind the active record's, where no reader looks before the size says so.
 */
static int append_attribute(struct otel_thread_record *record, int key, const void *value,
                            size_t size)
{
    size_t end = record->attributes_size;
    if (end + 2 + size > SPANPROF_CONTEXT_ATTRIBUTES_MAX)
        return -ENOSPC;
    put_attribute(record->attributes + end, key, value, size);
    context_fence();
    *(volatile uint16_t *)((uint8_t *)record +
                           offsetof(struct otel_thread_record, attributes_size)) =
        (uint16_t)(end + 2 + size);
    return 0;
}

/* A change in place could be read half written: a new context is built and swapped in. */
static int replace_attribute(const struct thread *thread, int key, const void *value, size_t size)
{
    struct otel_thread_record *record = spare_record(thread);
    struct spanprof_context *next =
        (void *)record; /* as a value: the same layout but for `valid` */
    copy_active(thread, next);
    int error = spanprof_context_add(next, key, value, size);
    if (error)
        return error;
    record->valid = OTEL_THREAD_RECORD_VALID;
    swap_to(thread, record);
    return 0;
}

int spanprof_context_set_attribute(int key, const void *value, size_t size)
{
    if (!attribute_valid(key, value, size))
        return -EINVAL;
    struct thread thread = this_thread();
    if (!thread_begin(&thread))
        return -EBUSY;
    struct otel_thread_record *record = *thread.active;
    if (!record || record->valid != OTEL_THREAD_RECORD_VALID)
        return thread_finish(&thread, -ENOENT);
    size_t end = record->attributes_size;
    if (is_own(&thread, record) && find_attribute(record->attributes, end, key) == end)
        return thread_finish(&thread, append_attribute(record, key, value, size));
    return thread_finish(&thread, replace_attribute(&thread, key, value, size));
}
