/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's half of spanprof_context.h.
 *
 * No pthread_atfork(): its handlers go with the library that registered them, while the state
 * stays. The pid says it all: a lock held by another pid, or a mapping published by one, is of
 * before a fork.
 */
#include "context/mapping.h"
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define KEY_MAX   255
#define VALUE_MAX 4096

/* Takes the lock; after a fork also from a thread that is not in this process. */
static struct shared_process *lock_process(void)
{
    struct shared_process *process = &spanprof_context_process_v1;
    int32_t pid = (int32_t)getpid(), holder = 0;
    while (!atomic_compare_exchange_strong(&process->lock, &holder, pid)) {
        if (holder && holder != pid)
            continue; /* and try once more, with that holder */
        holder = 0;
        sched_yield();
    }
    if (process->pid != pid) { /* MADV_DONTFORK has left the mapping with the parent */
        process->pid = pid;
        process->mapping = NULL;
        process->users = 0;
    }
    return process;
}

static int unlock_process(struct shared_process *process, int result)
{
    atomic_store(&process->lock, 0);
    return result;
}

static struct shared_table *active_table(struct shared_process *process)
{
    return &process->tables[process->active_table & 1];
}

static size_t entry_size(const uint8_t *entry, uint16_t *key_len)
{
    uint16_t value_len;
    memcpy(key_len, entry, 2);
    memcpy(&value_len, entry + 2, 2);
    return (size_t)4 + *key_len + value_len;
}

static void table_remove(struct shared_table *table, const char *key, size_t len)
{
    uint8_t *at = table->data, *end = table->data + table->size;
    while (at < end) {
        uint16_t key_len;
        size_t size = entry_size(at, &key_len);
        if (key_len == len && !memcmp(at + 4, key, len)) {
            memmove(at, at + size, (size_t)(end - at) - size);
            table->size -= (uint32_t)size;
            table->n_attributes--;
            return;
        }
        at += size;
    }
}

static int table_add(struct shared_table *table, const char *key, size_t key_size,
                     const char *value, size_t value_size)
{
    uint16_t key_len = (uint16_t)key_size, value_len = (uint16_t)value_size;
    uint8_t *at = table->data + table->size;
    if (table->n_attributes >= SPANPROF_RESOURCE_ATTRIBUTES_MAX ||
        4 + key_size + value_size > sizeof(table->data) - table->size)
        return -ENOSPC;
    memcpy(at, &key_len, 2);
    memcpy(at + 2, &value_len, 2);
    memcpy(at + 4, key, key_size);
    memcpy(at + 4 + key_size, value, value_size);
    table->size += (uint32_t)(4 + key_size + value_size);
    table->n_attributes++;
    return 0;
}

/* Length of a string within its limit; -EINVAL or -EILSEQ. */
static int text_len(const char *text, size_t least, size_t most)
{
    size_t len = text ? strnlen(text, most + 1) : 0;
    if (!text || len < least || len > most)
        return -EINVAL;
    return spanprof_context_utf8(text, len) ? (int)len : -EILSEQ;
}

static int table_apply(struct shared_table *table, const struct spanprof_attribute *attribute)
{
    int key_len = text_len(attribute->key, 1, KEY_MAX), value_len = 0;
    if (key_len < 0)
        return key_len;
    if (attribute->value)
        value_len = text_len(attribute->value, 0, VALUE_MAX);
    if (value_len < 0)
        return value_len;
    table_remove(table, attribute->key, (size_t)key_len);
    if (!attribute->value)
        return 0;
    return table_add(table, attribute->key, (size_t)key_len, attribute->value, (size_t)value_len);
}

/* Makes the table that is not active into the active one with these changes. It becomes the active
 * one by the caller. */
static int prepare_table(struct shared_process *process,
                         const struct spanprof_attribute *attributes, size_t n)
{
    const struct shared_table *before = active_table(process);
    struct shared_table *next = &process->tables[(process->active_table ^ 1) & 1];
    next->n_attributes = before->n_attributes;
    next->size = before->size;
    memcpy(next->data, before->data, before->size);
    int error = 0;
    for (size_t i = 0; i < n && !error; i++)
        error = table_apply(next, &attributes[i]);
    return error;
}

static void shared_process_publish(struct shared_process *process)
{
    uint32_t slot = process->active_slot ^ 1;
    uint8_t *out = spanprof_context_mapping_slot(process->mapping, slot & 1);
    size_t size =
        spanprof_context_payload(active_table(process), process->keys, process->n_keys, out);
    process->published_at_ns = spanprof_context_mapping_publish(process->mapping, slot & 1, size,
                                                                process->published_at_ns);
    process->active_slot = slot;
}

int spanprof_context_publish(const struct spanprof_attribute *attributes, size_t n)
{
    struct shared_process *process = lock_process();
    int error = prepare_table(process, attributes, n);
    if (!error && !process->mapping)
        error = spanprof_context_mapping_open(&process->mapping);
    if (error)
        return unlock_process(process, error);
    process->active_table ^= 1;
    process->users++;
    shared_process_publish(process);
    return unlock_process(process, 0);
}

int spanprof_context_update(const struct spanprof_attribute *attributes, size_t n)
{
    struct shared_process *process = lock_process();
    int error = process->mapping ? prepare_table(process, attributes, n) : -ENOENT;
    if (error)
        return unlock_process(process, error);
    process->active_table ^= 1;
    shared_process_publish(process);
    return unlock_process(process, 0);
}

int spanprof_context_withdraw(void)
{
    struct shared_process *process = lock_process();
    if (!process->mapping)
        return unlock_process(process, -ENOENT);
    if (--process->users)
        return unlock_process(process, 0);
    spanprof_context_mapping_close(process->mapping);
    process->mapping = NULL;
    struct shared_table *next = &process->tables[(process->active_table ^ 1) & 1];
    next->n_attributes = next->size = 0;
    process->active_table ^= 1;
    return unlock_process(process, 0);
}

/* Index of the key; *end: where the next one goes. */
static int find_key(const struct shared_process *process, const char *name, size_t len, size_t *end)
{
    size_t at = 0;
    for (uint32_t i = 0; i < process->n_keys; i++) {
        size_t key_len = process->keys[at];
        if (key_len == len && !memcmp(process->keys + at + 1, name, len))
            return (int)i;
        at += 1 + key_len;
    }
    *end = at;
    return -ENOENT;
}

int spanprof_context_key(const char *name)
{
    int len = text_len(name, 1, KEY_MAX);
    if (len < 0)
        return len;
    struct shared_process *process = lock_process();
    size_t end = 0;
    int index = find_key(process, name, (size_t)len, &end);
    if (index >= 0)
        return unlock_process(process, index);
    if (process->n_keys >= OTEL_THREAD_KEYS_MAX || end + 1 + (size_t)len > sizeof(process->keys))
        return unlock_process(process, -ENOSPC);
    process->keys[end] = (uint8_t)len;
    memcpy(process->keys + end + 1, name, (size_t)len);
    atomic_signal_fence(memory_order_seq_cst); /* the count last, for a fork in between */
    process->n_keys++;
    if (process->mapping)
        shared_process_publish(process);
    return unlock_process(process, (int)process->n_keys - 1);
}
