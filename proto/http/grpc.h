/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * gRPC over HTTP/2 as text and bytes: message prefix, status, timeout, percent-encoding, error
 * details. Pure; thread: any. Source of the format: doc/PROTOCOL-HTTP2.md of gRPC;
 * google/rpc/status.proto and error_details.proto for the details.
 */
#include "base/buf.h"

enum grpc_status {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16,
    GRPC_STATUS_COUNT
};

const char *grpc_status_name(enum grpc_status status); /* "UNAVAILABLE" */
/* From the grpc-status trailer: decimal digits; anything else, or a code not in the list, is
 * UNKNOWN. */
enum grpc_status grpc_status_parse(struct bytes text);
/* For answers without grpc-status. */
enum grpc_status grpc_status_from_http(unsigned http_status);
enum grpc_status grpc_status_from_h2(uint32_t h2_error); /* as h2_handler.closed() reports it */

/* ---- messages ---- */
#define GRPC_PREFIX_SIZE 5
void grpc_prefix_write(uint8_t out[GRPC_PREFIX_SIZE], bool compressed, uint32_t size);

enum grpc_outcome {
    GRPC_READ_OK = 0,
    GRPC_READ_TOO_BIG = 1,   /* the announced size passes the limit: nothing of it was stored */
    GRPC_READ_TWICE = 2,     /* a second message in a unary call */
    GRPC_READ_BAD_FLAG = 3,  /* compressed flag neither 0 nor 1 */
    GRPC_READ_MISSING = 4,   /* ended without a message */
    GRPC_READ_TRUNCATED = 5, /* ended within one */
};

/* One message from a stream of pieces; memory grows with what has come, not with what is announced.
 */
struct grpc_reader {
    uint8_t prefix[GRPC_PREFIX_SIZE];
    uint8_t n_prefix;
    bool compressed;
    uint32_t size; /* announced; valid when n_prefix is 5 */
    struct buf message;
};
/* max_bytes > 0 */
void grpc_reader_init(struct grpc_reader *reader, size_t max_bytes);
void grpc_reader_close(struct grpc_reader *reader);
int grpc_reader_feed(struct grpc_reader *reader, struct bytes piece); /* grpc_outcome or -ENOMEM */
int grpc_reader_end(const struct grpc_reader *reader);                /* OK, MISSING, TRUNCATED */

/* ---- header values ---- */
/* 1 to 8 digits and one of H M S m u n; 0 or -EINVAL. */
int grpc_timeout_parse(struct bytes text, uint64_t *ns);
#define GRPC_TIMEOUT_TEXT 10
void grpc_timeout_format(uint64_t ns,
                         char out[GRPC_TIMEOUT_TEXT]); /* rounded up, the finest unit that fits */
/* grpc-message. Encoding leaves 0x20..0x7E but '%'. Decoding leaves invalid escapes as they are. */
int grpc_percent_encode(struct bytes text, struct buf *out);
int grpc_percent_decode(struct bytes text, struct buf *out);

/* ---- error details ---- */
#define GRPC_NO_RETRY_INFO UINT64_MAX
/* Appends a google.rpc.Status; with a RetryInfo detail unless retry_delay_ns is GRPC_NO_RETRY_INFO.
 */
int grpc_details_write(enum grpc_status status, struct bytes message, uint64_t retry_delay_ns,
                       struct buf *out);
/* Appends a google.rpc.RetryInfo. */
int grpc_retry_info_write(uint64_t retry_delay_ns, struct buf *out);
/* The delay of the first RetryInfo in a google.rpc.Status; GRPC_NO_RETRY_INFO if there is none or
 * the message is malformed. Negative delays count as 0. */
uint64_t grpc_details_retry_delay(struct bytes status_message);
/* The delay of a google.rpc.RetryInfo, 0 if it names none; GRPC_NO_RETRY_INFO if malformed. */
uint64_t grpc_retry_info_delay(struct bytes info);
/* code and message (borrowed) of a google.rpc.Status; false if malformed. */
bool grpc_details_read(struct bytes status_message, enum grpc_status *status,
                       struct bytes *message);
