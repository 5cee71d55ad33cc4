/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of a BPF ring buffer's memory (kernel: kernel/bpf/ringbuf.c, uapi linux/bpf.h): a page
 * that begins with the consumer's position and is ours to write, a page with the producer's, and
 * the data mapped twice in a row, so that a record never wraps. A record: 8 bytes of header (length
 * with two flags in the upper bits, page offset), then the data, all in multiples of 8.
 *
 * libbpf's reader polls and stops at a record that is being written; we drain to a position.
 */
#include "agent-bpf/drain/ring.h"
#include "base/clock.h"
#include "base/thread_owner.h"
#include <errno.h>
#include <linux/bpf.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct ring {
    size_t size;
    size_t page;
    _Atomic uint64_t *consumer;
    void *producer_map; /* producer's page and twice the data */
    const _Atomic uint64_t *producer;
    const uint8_t *data;
    struct thread_owner owner; /* the loop */
};

int ring_open(int map_fd, size_t size_bytes, struct ring **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size_bytes < page || (size_bytes & (size_bytes - 1)))
        return -EINVAL;
    struct ring *ring = calloc(1, sizeof(*ring));
    if (!ring)
        return -ENOMEM;
    *ring = (struct ring){.size = size_bytes, .page = page};
    void *consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
    int error = consumer == MAP_FAILED ? -errno : 0;
    void *producer = MAP_FAILED;
    if (!error) {
        ring->consumer = consumer;
        producer = mmap(NULL, page + 2 * size_bytes, PROT_READ, MAP_SHARED, map_fd, (off_t)page);
        error = producer == MAP_FAILED ? -errno : 0;
    }
    if (error) {
        ring_close(ring);
        return error;
    }
    ring->producer_map = producer;
    ring->producer = producer;
    ring->data = (const uint8_t *)producer + page;
    *out = ring;
    return 0;
}

void ring_close(struct ring *ring)
{
    if (!ring)
        return;
    if (ring->consumer)
        munmap((void *)ring->consumer, ring->page);
    if (ring->producer_map)
        munmap(ring->producer_map, ring->page + 2 * ring->size);
    free(ring);
}

uint64_t ring_position(const struct ring *ring)
{
    OWNER_THREAD(&ring->owner);
    return atomic_load_explicit(ring->producer, memory_order_acquire);
}

/* Bytes of a stack's copy and what goes before it; 0: there is none; SIZE_MAX: it breaks the
 * layout.
 */
static size_t stack_size(const struct record_header *record, size_t left)
{
    if (!(record->flags & RECORD_FLAG_STACK))
        return 0;
    if (left < sizeof(struct record_stack))
        return SIZE_MAX;
    const struct record_stack *stack = record_stack(record);
    if (stack->size > RECORD_STACK_MAX || stack->size % 8)
        return SIZE_MAX;
    return sizeof(*stack) + stack->size;
}

_Bool ring_record_valid(const void *data, size_t size)
{
    const struct record_header *record = data;
    if (size < sizeof(*record) || record->size != size)
        return 0;
    if (record->kind < RECORD_CPU || record->kind > RECORD_EVENT)
        return 0;
    if (record->attributes_size > RECORD_MAX_ATTRIBUTES ||
        record->kernel_words > RECORD_MAX_KERNEL_FRAMES ||
        (size_t)record->user_words + record->list_words > RECORD_MAX_USER_WORDS ||
        record->end >= UNWIND_ENDS || record->task_size > sizeof(struct record_task) ||
        record->task_size % 8)
        return 0;
    size_t words = (size_t)record->kernel_words + record->user_words + record->list_words;
    size_t at =
        sizeof(*record) + record_padded(record->attributes_size) + 8 * words + record->task_size;
    return at <= size && size - at == stack_size(record, size - at);
}

/* The record's length word once it is written; the busy flag stays on if that takes too long. */
static uint32_t await_record(const _Atomic uint32_t *word)
{
    uint32_t length = atomic_load_explicit(word, memory_order_acquire);
    if (!(length & BPF_RINGBUF_BUSY_BIT))
        return length;
    uint64_t end = clock_monotonic_ns() + RING_SPIN_NS;
    do {
        sched_yield(); /* its writer may wait for this very CPU */
        length = atomic_load_explicit(word, memory_order_acquire);
    } while ((length & BPF_RINGBUF_BUSY_BIT) && clock_monotonic_ns() < end);
    return length;
}

static void ring_deliver(const uint8_t *data, uint32_t size, ring_record_fn call, void *context,
                         struct ring_counts *counts)
{
    const void *record = data;
    counts->bytes += size;
    if (!ring_record_valid(record, size)) {
        counts->malformed++;
        return;
    }
    counts->records++;
    call(context, record);
}

int ring_drain(struct ring *ring, uint64_t until, ring_record_fn call, void *context,
               struct ring_counts *counts)
{
    CLAIM_THREAD(&ring->owner);
    struct ring_counts own;
    counts = counts ? counts : &own;
    *counts = (struct ring_counts){0};
    uint64_t position = atomic_load_explicit(ring->consumer, memory_order_relaxed);
    uint64_t produced = ring_position(ring);
    if (until > produced)
        until = produced;
    while (position < until) {
        const uint8_t *at = ring->data + (position & (ring->size - 1));
        uint32_t word = await_record((const _Atomic uint32_t *)(const void *)at);
        if (word & BPF_RINGBUF_BUSY_BIT)
            return RING_BUSY;
        uint32_t size = word & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
        if (size > ring->size) { /* cannot be: no way to find the next one */
            counts->malformed++;
            atomic_store_explicit(ring->consumer, until, memory_order_release);
            return 0;
        }
        if (!(word & BPF_RINGBUF_DISCARD_BIT))
            ring_deliver(at + BPF_RINGBUF_HDR_SZ, size, call, context, counts);
        position += (size + BPF_RINGBUF_HDR_SZ + 7u) & ~UINT64_C(7);
        atomic_store_explicit(ring->consumer, position, memory_order_release);
    }
    return 0;
}
