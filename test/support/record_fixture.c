/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/record_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define PAGE 4096u

static uint64_t tagged(uint64_t address, enum record_frame_kind kind)
{
    return (uint64_t)kind << RECORD_FRAME_SHIFT | (address & RECORD_FRAME_MASK);
}

const struct record_header *record_make(struct record_made *made, const struct record_parts *parts)
{
    struct record_header head = parts->head;
    size_t words = parts->n_kernel + parts->n_user;
    head.kind = head.kind ? head.kind : RECORD_CPU;
    head.time_ns = head.time_ns ? head.time_ns : RECORD_T0;
    head.attributes_size = (uint16_t)parts->attributes.len;
    head.kernel_words = (uint16_t)parts->n_kernel;
    head.user_words = (uint16_t)parts->n_user;
    size_t frames_at = sizeof(head) + record_padded(parts->attributes.len);
    head.size = (uint32_t)(frames_at + 8 * words + parts->stack.len);
    head.flags |= parts->stack.len ? RECORD_FLAG_STACK : 0;

    memset(made, 0, sizeof(*made));
    memcpy(made->bytes, &head, sizeof(head));
    if (parts->attributes.len)
        memcpy(made->bytes + sizeof(head), parts->attributes.data, parts->attributes.len);
    for (size_t i = 0; i < words; i++) {
        uint64_t word = i < parts->n_kernel
                            ? tagged(parts->kernel[i], FRAME_KERNEL)
                            : tagged(parts->user[i - parts->n_kernel], FRAME_NATIVE);
        if (i == parts->n_kernel ||
            (i > parts->n_kernel && i - parts->n_kernel == parts->interrupted))
            word |= RECORD_FRAME_EXACT;
        memcpy(made->bytes + frames_at + 8 * i, &word, sizeof(word));
    }
    if (parts->stack.len)
        memcpy(made->bytes + frames_at + 8 * words, parts->stack.data, parts->stack.len);
    assert_true(ring_record_valid(made->bytes, head.size));
    return (const struct record_header *)(const void *)made->bytes;
}

void record_ring_open(struct record_ring *ring)
{
    size_t size = 2 * PAGE + 2 * RECORD_RING_SIZE;
    *ring = (struct record_ring){.fd = memfd_create("ring", MFD_CLOEXEC)};
    assert_true(ring->fd >= 0);
    assert_int_equal(ftruncate(ring->fd, (off_t)size), 0);
    ring->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
    assert_true(ring->memory != MAP_FAILED);
}

void record_ring_close(struct record_ring *ring)
{
    munmap(ring->memory, 2 * PAGE + 2 * RECORD_RING_SIZE);
    close(ring->fd);
}

static void write_twice(struct record_ring *ring, uint64_t at, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++) { /* the kernel maps the data twice in a row */
        size_t to = 2 * PAGE + ((at + i) & (RECORD_RING_SIZE - 1));
        memcpy(&ring->memory[to], (const uint8_t *)data + i, 1);
        memcpy(&ring->memory[to + RECORD_RING_SIZE], (const uint8_t *)data + i, 1);
    }
}

void record_ring_put(struct record_ring *ring, const struct record_header *record)
{
    uint32_t header[2] = {record->size, 0};
    write_twice(ring, ring->produced, header, sizeof(header));
    write_twice(ring, ring->produced + sizeof(header), record, record->size);
    ring->produced += sizeof(header) + record->size;
    assert_true(ring->produced - record_ring_consumed(ring) <= RECORD_RING_SIZE);
    __atomic_store_n((uint64_t *)(void *)(ring->memory + PAGE), ring->produced, __ATOMIC_RELEASE);
}

uint64_t record_ring_consumed(const struct record_ring *ring)
{
    return __atomic_load_n((const uint64_t *)(const void *)ring->memory, __ATOMIC_ACQUIRE);
}
