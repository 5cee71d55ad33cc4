/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/grpc/grpc_answer.h"
#include "proto/http/grpc.h"
#include <assert.h>
#include <stdio.h>

static int append_base64(struct buf *out, struct bytes in)
{
    int error = buf_reserve(out, 4 * ((in.len + 2) / 3) + 1);
    if (!error)
        out->len += bytes_to_base64(in, false, (char *)out->data + out->len);
    return error;
}

/* Clients read the retry delay from the status details or from a trailer that holds only RetryInfo.
 */
static int retry_texts(const struct otlp_answer *answer, struct buf *details, struct buf *info)
{
    _cleanup_buf_ struct buf message = BUF_INIT(0);
    int error = grpc_details_write(answer->grpc, BYTES_STR(answer->message), answer->retry_delay_ns,
                                   &message);
    error = error ? error : append_base64(details, buf_bytes(&message));
    buf_clear(&message);
    error = error ? error : grpc_retry_info_write(answer->retry_delay_ns, &message);
    return error ? error : append_base64(info, buf_bytes(&message));
}

void grpc_answer_error(struct h2_stream *stream, const struct otlp_answer *answer)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0), details = BUF_INIT(0), info = BUF_INIT(0);
    char code[4];
    size_t n = 4;
    bool retry = answer->retry_delay_ns != GRPC_NO_RETRY_INFO;
    assert(answer->message);
    snprintf(code, sizeof(code), "%u", (unsigned)answer->grpc % 100);
    int error = grpc_percent_encode(BYTES_STR(answer->message), &text);
    if (!error && retry)
        error = retry_texts(answer, &details, &info);
    if (error)
        return h2_reset(stream, H2_INTERNAL_ERROR);
    struct h2_header headers[8] = {
        H2_HEADER(":status", "200"),
        H2_HEADER("content-type", "application/grpc"),
        H2_HEADER("grpc-status", code),
        {"grpc-message", buf_bytes(&text), false},
    };
    if (answer->grpc == GRPC_UNIMPLEMENTED)
        headers[n++] = H2_HEADER("grpc-accept-encoding", "identity,gzip,zstd");
    if (retry) {
        headers[n++] = (struct h2_header){"grpc-status-details-bin", buf_bytes(&details), false};
        headers[n++] = (struct h2_header){"google.rpc.retryinfo-bin", buf_bytes(&info), false};
    }
    h2_respond(stream, &(struct h2_response){.headers = headers, .n_headers = n});
}
