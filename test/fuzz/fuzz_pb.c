/* SPDX-License-Identifier: Apache-2.0 */
/* What pb_check() passes, protobuf-c decodes within an arena; nothing else reaches it. The first
 * byte chooses the message. */
#include "process_context.pb-c.h"
#include "profiles_service.pb-c.h"
#include "proto/pb.h"
#include "rpc_status.pb-c.h"
#include "trace_service.pb-c.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const descriptors[] = {
    &opentelemetry__proto__collector__trace__v1__export_trace_service_request__descriptor,
    &opentelemetry__proto__collector__trace__v1__export_trace_service_response__descriptor,
    &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor,
    &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_response__descriptor,
    &opentelemetry__proto__processcontext__v1development__process_context__descriptor,
    &opentelemetry__proto__common__v1__key_value__descriptor,
    &spanprof__rpc__status__descriptor,
    &spanprof__rpc__retry_info__descriptor,
};

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes bytes, size_t limit)
{
    struct arena arena;
    ProtobufCMessage *message;
    int checked = pb_check(descriptor, bytes);
    arena_init(&arena, limit);
    int outcome = pb_unpack(descriptor, bytes, &arena, &message);
    require(checked == PB_OK || outcome == checked);
    require((message != NULL) == (outcome == PB_OK));
    if (limit > 1 << 20 && bytes.len <= 10000) /* there is memory enough */
        require(checked == PB_TOO_BIG || outcome != PB_TOO_BIG);
    arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *descriptor =
        descriptors[data[0] % (sizeof(descriptors) / sizeof(descriptors[0]))];
    struct bytes bytes = BYTES(data + 1, size - 1);
    unpack(descriptor, bytes, (size_t)8 << 20);
    unpack(descriptor, bytes, size * 16);
    return 0;
}
