/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The encoding of BLOB columns: little-endian base-128 numbers, byte strings prefixed with their
 * length, fixed fields. The file may be damaged, so a reader accepts any bytes: on the first
 * missing or malformed item it sets `bad` and returns zeros from then on. Thread: the owner's.
 */
#include "base/buf.h"

struct blob_writer {
    struct buf buf;
    int error; /* the first -ENOMEM; later puts do nothing */
};

void blob_put_number(struct blob_writer *out, uint64_t number);
void blob_put_signed(struct blob_writer *out, int64_t number); /* small magnitudes stay short */
void blob_put_fixed(struct blob_writer *out, const void *data, size_t size);
void blob_put_bytes(struct blob_writer *out, struct bytes bytes);
void blob_writer_closep(struct blob_writer *out);

#define _cleanup_blob_ __attribute__((cleanup(blob_writer_closep)))

struct blob_reader {
    struct bytes left;
    bool bad;
};

uint64_t blob_get_long_number(struct blob_reader *in);

static inline uint64_t blob_get_number(struct blob_reader *in)
{
    if (!in->left.len || *in->left.data >= 0x80 || in->bad)
        return blob_get_long_number(in);
    in->left.len--; /* most numbers fit in one byte */
    return *in->left.data++;
}

uint32_t blob_get_number32(struct blob_reader *in); /* bad if larger */

static inline int64_t blob_get_signed(struct blob_reader *in)
{
    uint64_t twice = blob_get_number(in);
    return (int64_t)(twice & 1 ? ~(twice >> 1) : twice >> 1);
}

void blob_get_fixed(struct blob_reader *in, void *data, size_t size);
struct bytes blob_get_bytes(struct blob_reader *in); /* borrowed */
