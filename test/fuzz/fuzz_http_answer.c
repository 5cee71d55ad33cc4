/* SPDX-License-Identifier: Apache-2.0 */
/* An answer is the same however its bytes are cut, and what it means is found without harm. */
#include "exporter/otlp/otlp_http_answer.h"
#include <stdlib.h>

enum { BODY_MAX = 5000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed(struct http_answer *answer, struct bytes text, size_t piece)
{
    int outcome = HTTP_ANSWER_MORE;
    http_answer_begin(answer, BODY_MAX);
    while (outcome == HTTP_ANSWER_MORE && text.len) {
        struct bytes in = BYTES(text.data, text.len < piece ? text.len : piece);
        size_t n = in.len;
        outcome = http_answer_feed(answer, &in);
        text.data += n - in.len;
        text.len -= n - in.len;
    }
    return outcome == HTTP_ANSWER_MORE ? http_answer_end(answer) : outcome;
}

static void check_meaning(const struct http_answer *answer)
{
    for (enum signal signal = 0; signal < SIGNAL_COUNT; signal++) {
        struct export_result result;
        otlp_http_answer(signal, answer, UINT64_C(1794000000000000000), &result);
        bool ok = answer->status >= 200 && answer->status < 300;
        if ((result.verdict == EXPORT_OK) != ok || !bytes_utf8_valid(BYTES_STR(result.message)) ||
            (result.rejected && !ok))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_answer whole, cut;
    if (size < 1)
        return 0;
    struct bytes text = BYTES(data + 1, size - 1);
    int outcome = feed(&whole, text, text.len + 1);
    if (outcome < 0 || feed(&cut, text, 1u + data[0] % 64) != outcome)
        abort();
    if (outcome == HTTP_ANSWER_WHOLE) {
        if (whole.status != cut.status || whole.keeps_connection != cut.keeps_connection ||
            !bytes_equal(buf_bytes(&whole.body), buf_bytes(&cut.body)) ||
            whole.body.len > BODY_MAX || whole.status < 200 || whole.status > 599)
            abort();
        check_meaning(&whole);
    }
    http_answer_close(&whole);
    http_answer_close(&cut);
    return 0;
}
