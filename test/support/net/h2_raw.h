/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * HTTP/2 frames written and read by hand, for tests that say what no good library would.
 */
#include "base/buf.h"

#define H2_RAW_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum {
    RAW_DATA = 0,
    RAW_HEADERS = 1,
    RAW_PRIORITY = 2,
    RAW_RST_STREAM = 3,
    RAW_SETTINGS = 4,
    RAW_PING = 6,
    RAW_GOAWAY = 7,
    RAW_WINDOW_UPDATE = 8,
    RAW_CONTINUATION = 9,
};
enum { RAW_END_STREAM = 1, RAW_ACK = 1, RAW_END_HEADERS = 4 };

void h2_raw_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream,
                  struct bytes payload);
/* One literal header, never indexed, in HPACK; name and value shorter than 16 KiB. */
void h2_raw_header(struct buf *block, const char *name, struct bytes value);
/* A block with method POST, path, content-type application/grpc and te. */
void h2_raw_request_block(struct buf *block, const char *path);

struct h2_raw_seen {
    uint8_t type;
    uint8_t flags;
    uint32_t stream;
    struct bytes payload;
};
/* Takes a whole frame off the front of in; false if there is none yet. */
bool h2_raw_next(struct bytes *in, struct h2_raw_seen *frame);
uint32_t h2_raw_u32(const uint8_t *bytes); /* big-endian */
