/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_convert SIGNAL read|write: requests of OTLP/JSON to protobuf or back, for comparison with
 * another implementation. In: length (4 bytes, little-endian) and body, again and again. Out: a
 * byte of outcome (enum otlp_json_outcome), length, and the result, or what is wrong and where.
 */
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"

#include <stdio.h>
#include <stdlib.h>

#define LIMIT ((size_t)256 << 20)

static void put(int outcome, struct bytes body)
{
    uint32_t len = (uint32_t)body.len;
    putchar(outcome);
    fwrite(&len, sizeof(len), 1, stdout);
    if (body.len)
        fwrite(body.data, 1, body.len, stdout);
}

static void convert(const ProtobufCMessageDescriptor *descriptor, bool reads, struct bytes body)
{
    _cleanup_buf_ struct buf out = BUF_INIT(LIMIT);
    struct otlp_json_error error = {0};
    int outcome = reads ? otlp_json_read(descriptor, body, &out, &error)
                        : otlp_json_write(descriptor, body, &out);
    if (error.what && buf_printf(&out, "%s at %zu", error.what, error.offset))
        exit(1);
    put(outcome, buf_bytes(&out));
}

int main(int argc, char **argv)
{
    uint32_t len;
    size_t signal = 0;
    while (argc == 3 && signal < SIGNAL_COUNT && strcmp(argv[1], signal_names[signal]))
        signal++;
    if (argc != 3 || signal == SIGNAL_COUNT)
        return 2;
    while (fread(&len, sizeof(len), 1, stdin) == 1) {
        uint8_t *body = malloc(len + (size_t)1);
        if (!body || fread(body, 1, len, stdin) != len)
            return 1;
        convert(otlp_schema_request((enum signal)signal), !strcmp(argv[2], "read"),
                BYTES(body, len));
        free(body);
    }
    return 0;
}
