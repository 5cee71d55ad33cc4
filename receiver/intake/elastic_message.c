/* SPDX-License-Identifier: Apache-2.0 */
/* Fields are written without padding or alignment, as the format requires. */
#include "receiver/intake/elastic_message.h"
#include <assert.h>

enum { TYPE_CORRELATION = 1, TYPE_REGISTRATION = 2 };
#define MINOR_VERSION 1 /* of both messages */

static size_t message_put(uint8_t *out, size_t at, const void *data, size_t size)
{
    if (size)
        memcpy(out + at, data, size);
    return at + size;
}

static size_t put_head(uint8_t *out, uint16_t type)
{
    uint16_t minor = MINOR_VERSION;
    size_t n = message_put(out, 0, &type, sizeof(type));
    return message_put(out, n, &minor, sizeof(minor));
}

size_t elastic_registration(uint8_t out[ELASTIC_MESSAGE_MAX], uint32_t samples_delay_ms,
                            struct bytes host_id)
{
    assert(host_id.len <= ELASTIC_HOST_ID_MAX);
    uint32_t len = (uint32_t)host_id.len;
    size_t n = put_head(out, TYPE_REGISTRATION);
    n = message_put(out, n, &samples_delay_ms, sizeof(samples_delay_ms));
    n = message_put(out, n, &len, sizeof(len));
    return message_put(out, n, host_id.data, host_id.len);
}

size_t elastic_correlation(uint8_t out[ELASTIC_MESSAGE_MAX],
                           const struct elastic_correlation *message)
{
    size_t n = put_head(out, TYPE_CORRELATION);
    n = message_put(out, n, message->trace_id, sizeof(message->trace_id));
    n = message_put(out, n, message->local_root_id, sizeof(message->local_root_id));
    n = message_put(out, n, message->stack_id, sizeof(message->stack_id));
    return message_put(out, n, &message->count, sizeof(message->count));
}
