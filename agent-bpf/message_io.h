/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Fields of messages between processes of spanprof. Each kind of message has one function that
 * names its fields in the order of the wire. It runs in both directions: with io->out set it
 * appends the fields to the datagram, otherwise it reads them from the datagram. Limits and
 * contents are checked when reading.
 *
 * The first error stays in io->error. After it nothing more is written, and everything is read as
 * zero or empty, so it is checked once, at the end. Pure; thread: any.
 *
 * Format: integers little-endian in their size, bytes as u32 length + bytes, lists as u32 count +
 * elements.
 */
#include "base/arena.h"
#include "base/buf.h"

enum { MESSAGE_MALFORMED = 1 };

struct message_io {
    struct buf *out; /* NULL: reading */
    struct bytes in;
    size_t at; /* in `in` */
    struct arena *arena;
    int error; /* 0, MESSAGE_MALFORMED, BUF_FULL, negative errno */
};

bool io_is_reading(const struct message_io *io);
/* What must be true of a message that was read. */
void io_check(struct message_io *io, bool valid);
void io_u8(struct message_io *io, uint8_t *value);
void io_u32(struct message_io *io, uint32_t *value);
void io_u64(struct message_io *io, uint64_t *value);
/* Bytes of a size that both ends know. */
void io_fixed(struct message_io *io, uint8_t *data, size_t size);
/* The size of bytes that follow, or the number of elements: 0 after an error. */
uint32_t io_count(struct message_io *io, size_t count, size_t limit);
/* Read: borrowed from the datagram. */
void io_bytes(struct message_io *io, struct bytes *bytes, size_t limit);
/* Zeroed, from the arena; NULL after an error. Reading only. */
void *io_memory(struct message_io *io, size_t size);
/* The elements of a list, whose number comes first: when writing they are `elements`. After an
 * error *n is 0. */
void *io_list(struct message_io *io, uint32_t *n, uint32_t limit, void *elements,
              size_t element_size);
#define IO_LIST(io, list, n, limit) ((list) = io_list(io, &(n), limit, list, sizeof(*(list))))
/* A string without NUL inside; NULL is written as the empty one. Reading gives a copy that ends
 * with NUL. */
void io_string(struct message_io *io, const char **string, size_t limit);
