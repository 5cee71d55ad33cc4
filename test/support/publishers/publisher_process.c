/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/publishers/publisher_process.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PAGE         4096u
#define PAYLOAD_MAX  4096u
#define RESOURCE_TAG 0x0a /* ProcessContext.resource, Resource.attributes, KeyValue.key, ... */
#define PAIR_TAG     0x12 /* ProcessContext.attributes, KeyValue.value */
#define ARRAY_TAG    0x2a /* AnyValue.array_value */

struct text {
    uint8_t data[PAYLOAD_MAX];
    size_t size;
};

static volatile struct otel_process_header *header;
static struct text payloads[2]; /* the one shown, and the one being built */
static unsigned shown;

static void put(struct text *out, uint8_t tag, const void *data, size_t size)
{
    if (size >= 1u << 14 || out->size + size + 4 > sizeof(out->data))
        abort();
    out->data[out->size++] = tag;
    if (size >= 0x80)
        out->data[out->size++] = (uint8_t)(size | 0x80);
    out->data[out->size++] = (uint8_t)(size >= 0x80 ? size >> 7 : size);
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void put_pair(struct text *out, uint8_t tag, const char *key, const struct text *value)
{
    struct text pair = {.size = 0};
    put(&pair, RESOURCE_TAG, key, strlen(key));
    put(&pair, PAIR_TAG, value->data, value->size);
    put(out, tag, pair.data, pair.size);
}

static void put_text_pair(struct text *out, uint8_t tag, const char *key, const char *value)
{
    struct text any = {.size = 0};
    put(&any, 0x0a, value, strlen(value));
    put_pair(out, tag, key, &any);
}

static void build(struct text *out, const struct publisher_process *process)
{
    struct text resource = {.size = 0}, array = {.size = 0}, keys = {.size = 0};
    out->size = 0;
    if (process->service)
        put_text_pair(&resource, RESOURCE_TAG, "service.name", process->service);
    put(out, RESOURCE_TAG, resource.data, resource.size);
    put_text_pair(out, PAIR_TAG, OTEL_THREAD_SCHEMA_KEY, process->schema);
    for (unsigned i = 0; i < process->n_keys; i++) {
        struct text any = {.size = 0};
        put(&any, 0x0a, process->keys[i], strlen(process->keys[i]));
        put(&array, 0x0a, any.data, any.size);
    }
    put(&keys, ARRAY_TAG, array.data, array.size);
    put_pair(out, PAIR_TAG, OTEL_THREAD_KEY_MAP_KEY, &keys);
}

static uint64_t boot_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool name_mapping(void)
{
    return !prctl(0x53564d41 /* PR_SET_VMA */, 0, header, PAGE, OTEL_PROCESS_NAME);
}

static void *map_header(enum publisher_mapping mapping)
{
    if (mapping == PUBLISHER_MAPPING_ANON)
        return mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = memfd_create(OTEL_PROCESS_NAME, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, PAGE))
        abort();
    void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    return at;
}

static void show(unsigned which)
{
    shown = which;
    header->payload = (uint64_t)payloads[which].data;
    header->payload_size = (uint32_t)payloads[which].size;
    atomic_thread_fence(memory_order_seq_cst);
    header->published_at_ns = boot_ns();
}

volatile struct otel_process_header *
publisher_process_publish(const struct publisher_process *process, enum publisher_mapping mapping)
{
    header = map_header(mapping);
    if ((void *)header == MAP_FAILED || madvise((void *)header, PAGE, MADV_DONTFORK))
        abort();
    memcpy((void *)header->signature, OTEL_PROCESS_SIGNATURE, 8);
    header->version = OTEL_PROCESS_VERSION;
    build(&payloads[0], process);
    show(0);
    if (mapping != PUBLISHER_MAPPING_MEMFD && !name_mapping() && mapping == PUBLISHER_MAPPING_ANON)
        return NULL;
    return header;
}

void publisher_process_update(const struct publisher_process *process)
{
    build(&payloads[!shown], process);
    header->published_at_ns = 0;
    atomic_thread_fence(memory_order_seq_cst);
    show(!shown);
    name_mapping(); /* fails where it cannot be named: the call itself is the signal */
}
