/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/message_io.h"
#include <assert.h>
#include <errno.h>

bool io_is_reading(const struct message_io *io)
{
    return !io->out;
}

/* What must be true of a message that was read. */
void io_check(struct message_io *io, bool valid)
{
    if (io_is_reading(io) && !io->error && !valid)
        io->error = MESSAGE_MALFORMED;
}

/* The next `size` bytes of the datagram, borrowed; NULL if there are not as many. */
static const uint8_t *io_read(struct message_io *io, size_t size)
{
    io_check(io, io->in.len - io->at >= size);
    if (io->error)
        return NULL;
    io->at += size;
    return io->in.data + io->at - size;
}

static void io_write(struct message_io *io, const void *data, size_t size)
{
    if (!io->error)
        io->error = buf_append(io->out, data, size);
}

static uint64_t io_int(struct message_io *io, uint64_t value, size_t size)
{
    if (io_is_reading(io)) {
        const uint8_t *in = io_read(io, size);
        value = 0;
        for (size_t i = 0; in && i < size; i++)
            value |= (uint64_t)in[i] << (8 * i);
    } else {
        uint8_t bytes[8];
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)(value >> (8 * i));
        io_write(io, bytes, size);
    }
    return value;
}

void io_u8(struct message_io *io, uint8_t *value)
{
    *value = (uint8_t)io_int(io, *value, 1);
}

void io_u32(struct message_io *io, uint32_t *value)
{
    *value = (uint32_t)io_int(io, *value, 4);
}

void io_u64(struct message_io *io, uint64_t *value)
{
    *value = io_int(io, *value, 8);
}

/* Bytes of a size that both ends know. */
void io_fixed(struct message_io *io, uint8_t *data, size_t size)
{
    if (!io_is_reading(io)) {
        io_write(io, data, size);
        return;
    }
    const uint8_t *in = io_read(io, size);
    if (in)
        memcpy(data, in, size);
}

/* The size of bytes that follow, or the number of elements: 0 after an error. */
uint32_t io_count(struct message_io *io, size_t count, size_t limit)
{
    uint32_t n = (uint32_t)io_int(io, count, 4);
    io_check(io, n <= limit);
    return io->error ? 0 : n;
}

void io_bytes(struct message_io *io, struct bytes *bytes, size_t limit)
{
    uint32_t size = io_count(io, bytes->len, limit);
    if (!io_is_reading(io)) {
        io_write(io, bytes->data, size);
        return;
    }
    const uint8_t *in = io_read(io, size);
    *bytes = in ? BYTES(in, size) : BYTES(NULL, 0);
}

/* Zeroed, from the arena; NULL after an error. Reading only. */
void *io_memory(struct message_io *io, size_t size)
{
    void *memory = io->error ? NULL : arena_zalloc(io->arena, size ? size : 1);
    if (!memory && !io->error)
        io->error = -ENOMEM;
    return memory;
}

/* The elements of a list, whose number comes first: when writing they are `elements`. After an
 * error *n is 0. */
void *io_list(struct message_io *io, uint32_t *n, uint32_t limit, void *elements,
              size_t element_size)
{
    assert(io_is_reading(io) || *n <= limit);
    *n = io_count(io, *n, limit);
    if (!io_is_reading(io))
        return elements;
    elements = io_memory(io, *n * element_size);
    if (!elements)
        *n = 0;
    return elements;
}

/* A string without NUL inside; NULL is written as the empty one. Reading gives a copy that ends
 * with NUL. */
void io_string(struct message_io *io, const char **string, size_t limit)
{
    const char *from = *string ? *string : "";
    struct bytes bytes = io_is_reading(io) ? BYTES(NULL, 0) : BYTES(from, strnlen(from, limit));
    io_bytes(io, &bytes, limit);
    if (!io_is_reading(io))
        return;
    io_check(io, !bytes.len || !memchr(bytes.data, 0, bytes.len));
    char *copy = io_memory(io, bytes.len + 1);
    if (copy && bytes.len)
        memcpy(copy, bytes.data, bytes.len);
    *string = copy ? copy : "";
}
