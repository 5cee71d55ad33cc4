/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses the message and the direction. Whatever text is read gives a message that
 * pb_check() passes, of at most four times its size, and whatever message is whole can be written;
 * both can be turned round again and then stay what they are.
 */
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"
#include "proto/pb.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT ((size_t)64 << 20)

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void turn_round(const ProtobufCMessageDescriptor *descriptor, struct bytes message)
{
    _cleanup_buf_ struct buf text = BUF_INIT(LIMIT), second = BUF_INIT(LIMIT);
    _cleanup_buf_ struct buf third = BUF_INIT(LIMIT), fourth = BUF_INIT(LIMIT);
    struct otlp_json_error error;
    require(otlp_json_write(descriptor, message, &text) == OTLP_JSON_OK);
    require(otlp_json_read(descriptor, buf_bytes(&text), &second, &error) == OTLP_JSON_OK);
    require(otlp_json_write(descriptor, buf_bytes(&second), &third) == OTLP_JSON_OK);
    require(otlp_json_read(descriptor, buf_bytes(&third), &fourth, &error) == OTLP_JSON_OK);
    require(bytes_equal(buf_bytes(&second), buf_bytes(&fourth)));
}

static void read_text(const ProtobufCMessageDescriptor *descriptor, struct bytes text)
{
    _cleanup_buf_ struct buf message = BUF_INIT(LIMIT);
    struct otlp_json_error error;
    int outcome = otlp_json_read(descriptor, text, &message, &error);
    require(outcome == OTLP_JSON_OK || outcome == OTLP_JSON_MALFORMED);
    require((outcome == OTLP_JSON_OK) == (error.what == NULL) && error.offset <= text.len);
    if (outcome != OTLP_JSON_OK)
        return;
    require(message.len <= 4 * text.len);
    require(pb_check(descriptor, buf_bytes(&message)) != PB_MALFORMED);
    turn_round(descriptor, buf_bytes(&message));
}

static void write_message(const ProtobufCMessageDescriptor *descriptor, struct bytes message)
{
    _cleanup_buf_ struct buf text = BUF_INIT(LIMIT);
    if (pb_check(descriptor, message) == PB_OK)
        turn_round(descriptor, message);
    else
        (void)otlp_json_write(descriptor, message, &text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    enum signal signal = (enum signal)(data[0] % SIGNAL_COUNT);
    const ProtobufCMessageDescriptor *descriptor =
        data[0] & 0x10 ? otlp_schema_response(signal) : otlp_schema_request(signal);
    struct bytes rest = BYTES(data + 1, size - 1);
    if (data[0] & 0x20)
        read_text(descriptor, rest);
    else
        write_message(descriptor, rest);
    return 0;
}
