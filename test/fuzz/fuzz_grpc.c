/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of messages gives the same outcome however the bytes are cut; the texts of headers and
 * the error details are read without harm. */
#include "proto/http/grpc.h"
#include <errno.h>
#include <stdlib.h>

enum { MESSAGE_MAX = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_in_pieces(struct grpc_reader *reader, struct bytes in, size_t piece)
{
    grpc_reader_init(reader, MESSAGE_MAX);
    for (size_t at = 0; at < in.len; at += piece) {
        size_t n = in.len - at < piece ? in.len - at : piece;
        int outcome = grpc_reader_feed(reader, BYTES(in.data + at, n));
        if (outcome)
            return outcome;
    }
    return grpc_reader_end(reader);
}

static void check_reader(struct bytes in, size_t piece)
{
    struct grpc_reader whole, cut;
    int expected = read_in_pieces(&whole, in, in.len + 1);
    if (read_in_pieces(&cut, in, piece) != expected || expected < 0)
        abort();
    if (expected == GRPC_READ_OK &&
        !bytes_equal(buf_bytes(&whole.message), buf_bytes(&cut.message)))
        abort();
    if (whole.message.len > MESSAGE_MAX || cut.message.len > MESSAGE_MAX)
        abort();
    grpc_reader_close(&whole);
    grpc_reader_close(&cut);
}

static void check_texts(struct bytes in)
{
    _cleanup_buf_ struct buf encoded = BUF_INIT(0), decoded = BUF_INIT(0);
    char text[GRPC_TIMEOUT_TEXT];
    uint64_t ns, again;
    (void)grpc_status_parse(in);
    if (!grpc_timeout_parse(in, &ns) && ns != UINT64_MAX) {
        grpc_timeout_format(ns, text);
        if (grpc_timeout_parse(BYTES_STR(text), &again) || again < ns)
            abort();
    }
    if (grpc_percent_encode(in, &encoded) || grpc_percent_decode(buf_bytes(&encoded), &decoded) ||
        !bytes_equal(in, buf_bytes(&decoded)))
        abort();
    buf_clear(&decoded);
    if (grpc_percent_decode(in, &decoded) || decoded.len > in.len)
        abort();
}

static void check_details(struct bytes in)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    enum grpc_status status, again;
    struct bytes message, same;
    uint64_t delay = grpc_details_retry_delay(in);
    if (!grpc_details_read(in, &status, &message))
        return;
    if (grpc_details_write(status, message, delay, &out) ||
        !grpc_details_read(buf_bytes(&out), &again, &same))
        abort();
    if (again != status || !bytes_equal(message, same) ||
        grpc_details_retry_delay(buf_bytes(&out)) != delay)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes in = BYTES(data + 1, size - 1);
    check_reader(in, 1 + data[0] % 16);
    check_texts(in);
    check_details(in);
    return 0;
}
