/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Growable bytes with a limit. Thread: its owner's.
 * Outcomes: 0; BUF_FULL when limit_bytes would be passed; -ENOMEM. On failure nothing was appended.
 */
#include "base/bytes.h"

enum { BUF_FULL = 1 };

struct buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t limit_bytes; /* 0 = none */
};

#define BUF_INIT(limit) ((struct buf){.limit_bytes = (limit)})

int buf_reserve(struct buf *buf, size_t more); /* room for `more` bytes behind len */
int buf_append(struct buf *buf, const void *data, size_t size);
int buf_append_bytes(struct buf *buf, struct bytes bytes);
int buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *buf, size_t size); /* drops from the front */
void buf_clear(struct buf *buf);                /* keeps the memory */
void buf_close(struct buf *buf);                /* may be called twice */
void buf_closep(struct buf *buf);               /* for __attribute__((cleanup)) */
struct bytes buf_bytes(const struct buf *buf);  /* borrowed: valid until the next change */
/* Hands the memory to the caller, who frees it with free(). */
uint8_t *buf_release(struct buf *buf, size_t *len);

#define _cleanup_buf_ __attribute__((cleanup(buf_closep)))
