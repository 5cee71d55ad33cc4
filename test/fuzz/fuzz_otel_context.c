/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/contexts/otel_context.h"
#include "proto/pb.h"
#include <assert.h>
#include <resource.pb-c.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct otel_context context;
    if (otel_context_decode(BYTES(data, size), &context))
        return 0;
    /* what goes on is well-formed, and lies within the payload */
    assert(!pb_check(&opentelemetry__proto__resource__v1__resource__descriptor, context.resource));
    assert(context.n_keys <= OTEL_CONTEXT_KEYS_MAX);
    for (uint32_t i = 0; i < context.n_keys; i++) {
        assert(bytes_utf8_valid(context.keys[i]));
        assert(!context.keys[i].len || (context.keys[i].data >= data &&
                                        context.keys[i].data + context.keys[i].len <= data + size));
    }
    struct context_variable variable = {0};
    if (!nodejs_layout_enter(&context.nodejs, &variable) &&
        variable.nodejs_form != NODEJS_SLOT_IN_VARIABLE) {
        assert(variable.nodejs_slot >= 24 && variable.nodejs_slot <= 248);
        assert(variable.nodejs_slot % 8 == 0 && variable.nodejs_owner % 8 == 0);
        assert(variable.nodejs_owner <= 248);
        assert(!variable.nodejs_owner || variable.nodejs_form == NODEJS_SLOT_OF_OWNER);
    }
    return 0;
}
