/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of V8 are read as another process would read them: an address that is none is an error
 * then, not the end of the program.
 */
#include "context/node/frames.h"
#include "context/context_layout.h"
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TAG             1u
#define ISOLATE_BYTES   8192 /* that are searched */
#define REFERENCE_BYTES 256
#define OBJECT_HEADER   24 /* nothing of the program's lies in front */
#define OBJECT_BYTES    248
#define CHAIN_MAX       16
#define BUCKETS_MAX     65536

/* Functions of V8, exported by every Node. Local<T> is a pointer to a word, as napi_value is. */
#define CURRENT_ISOLATE "_ZN2v87Isolate10GetCurrentEv"
#define IDENTITY_HASH   "_ZN2v86Object15GetIdentityHashEv"

typedef void *current_isolate(void);
typedef int identity_hash(void *object);

_Thread_local struct otel_nodejs_thread otel_thread_ctx_nodejs_v1
    __attribute__((visibility("default"), tls_model("global-dynamic")));

struct table { /* an OrderedHashMap */
    uint64_t map, length, elements, deleted, buckets;
};

struct entry {
    uint64_t key, value, next;
};

static bool read_words(uint64_t address, void *out, size_t size)
{
    struct iovec here = {out, size}, there = {(void *)(uintptr_t)address, size};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

static bool is_object(uint64_t word)
{
    return (word & 3) == TAG;
}

static uint64_t word_of(napi_value value)
{
    return *(const uint64_t *)value;
}

/* The value that the frame, a Map, has for the key. */
static bool frame_value(uint64_t frame, uint64_t key, uint32_t hash, uint64_t *value)
{
    struct table table;
    struct entry entry;
    uint64_t at, head;
    if (!is_object(frame) || !read_words(frame - TAG + OTEL_NODEJS_MAP_TABLE, &at, sizeof(at)) ||
        !is_object(at) || !read_words(at - TAG, &table, sizeof(table)))
        return false;
    uint64_t buckets = table.buckets >> 32, first = at - TAG + sizeof(table);
    if ((uint32_t)table.buckets || !buckets || buckets > BUCKETS_MAX || (buckets & (buckets - 1)))
        return false;
    if (!read_words(first + (hash & (buckets - 1)) * sizeof(head), &head, sizeof(head)))
        return false;
    for (int i = 0; i < CHAIN_MAX && !(uint32_t)head; i++) {
        uint64_t index = head >> 32;
        if (index >= buckets * 2 ||
            !read_words(first + buckets * sizeof(head) + index * sizeof(entry), &entry,
                        sizeof(entry)))
            return false;
        if (entry.key == key) {
            *value = entry.value;
            return true;
        }
        head = entry.next;
    }
    return false;
}

/* ---- places ---- */

static uint64_t find_slot(uint64_t isolate, uint64_t key, uint32_t hash, uint64_t value)
{
    for (uint64_t at = isolate; at < isolate + ISOLATE_BYTES; at += sizeof(uint64_t)) {
        uint64_t word, found;
        if (!read_words(at, &word, sizeof(word)))
            return 0;
        if (frame_value(word, key, hash, &found) && found == value)
            return at;
    }
    return 0;
}

static uint8_t find_record(uint64_t object, const void *record)
{
    for (uint64_t offset = OBJECT_HEADER; offset <= OBJECT_BYTES; offset += sizeof(uint64_t)) {
        uint64_t word;
        if (read_words(object - TAG + offset, &word, sizeof(word)) &&
            word == (uint64_t)(uintptr_t)record)
            return (uint8_t)offset;
    }
    return 0;
}

/* The word that the garbage collector keeps for the reference. */
static uint64_t find_handle(napi_ref reference, uint64_t key)
{
    uint64_t at = (uint64_t)(uintptr_t)reference, end = at + REFERENCE_BYTES;
    for (; at < end; at += sizeof(uint64_t)) {
        uint64_t handle, word;
        if (read_words(at, &handle, sizeof(handle)) && handle && !(handle & 7) &&
            read_words(handle, &word, sizeof(word)) && word == key)
            return handle;
    }
    return 0;
}

/* All but the slot, which comes last. */
static bool find_others(struct frames *frames, napi_env env, napi_value key, napi_value value)
{
    struct otel_nodejs_thread *thread = &otel_thread_ctx_nodejs_v1;
    void *record;
    size_t size, offset;
    napi_value undefined, buffer;
    identity_hash *hash = (identity_hash *)dlsym(RTLD_DEFAULT, IDENTITY_HASH);
    if (!hash || napi_get_dataview_info(env, value, &size, &record, &buffer, &offset) != napi_ok ||
        napi_get_undefined(env, &undefined) != napi_ok ||
        napi_create_reference(env, key, 1, &frames->key) != napi_ok)
        return false;
    thread->als_hash = hash(key);
    thread->als_handle = find_handle(frames->key, word_of(key));
    thread->record_slot = find_record(word_of(value), record);
    thread->undefined = word_of(undefined);
    return thread->als_handle && thread->record_slot;
}

bool frames_find(struct frames *frames, napi_env env, napi_value key, napi_value value)
{
    current_isolate *isolate = (current_isolate *)dlsym(RTLD_DEFAULT, CURRENT_ISOLATE);
    frames_hide();
    frames->slot = 0;
    if (frames->key)
        napi_delete_reference(env, frames->key);
    frames->key = NULL;
    if (isolate && find_others(frames, env, key, value))
        frames->slot = find_slot((uint64_t)(uintptr_t)isolate(), word_of(key),
                                 (uint32_t)otel_thread_ctx_nodejs_v1.als_hash, word_of(value));
    return frames->slot;
}

void frames_show(const struct frames *frames)
{
    *(volatile uint64_t *)&otel_thread_ctx_nodejs_v1.cped_slot = frames->slot;
}

void frames_hide(void)
{
    *(volatile uint64_t *)&otel_thread_ctx_nodejs_v1.cped_slot = 0;
}

const void *frames_record(void)
{
    const struct otel_nodejs_thread *thread = &otel_thread_ctx_nodejs_v1;
    uint64_t frame, key, value, record;
    if (!thread->cped_slot || !read_words(thread->cped_slot, &frame, sizeof(frame)) ||
        frame == thread->undefined || !read_words(thread->als_handle, &key, sizeof(key)) ||
        !frame_value(frame, key, (uint32_t)thread->als_hash, &value) ||
        value == thread->undefined ||
        !read_words(value - TAG + thread->record_slot, &record, sizeof(record)))
        return NULL;
    return (const void *)(uintptr_t)record;
}
