/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever stands in an environment: what is kept is a well-formed Resource of bounded size. */
#include "agent-bpf/contexts/environment.h"
#include "context/runtime.h"
#include "proto/pb.h"
#include <assert.h>
#include <resource.pb-c.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct environment *environment;
    int outcome = environment_parse(BYTES(data, size), &environment);
    assert(outcome >= 0);
    if (!environment)
        return 0;
    assert(environment->size <=
           sizeof(*environment) + ENVIRONMENT_BYTES_MAX + (size_t)2 * ENVIRONMENT_TEXT_MAX);
    assert(bytes_utf8_valid(environment->service_name));
    assert(bytes_utf8_valid(environment->platform_name));
    assert(!pb_check(&opentelemetry__proto__resource__v1__resource__descriptor,
                     environment->attributes));
    assert(environment->switched_on < RUNTIME_BIT(RUNTIMES));
    free(environment);
    return 0;
}
