/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/contexts/context_user.h"

extern _Thread_local void *otel_thread_ctx_v1;

static void *thread_symbol(void)
{
    return &otel_thread_ctx_v1;
}

const struct context_user context_user = {
    .publish = spanprof_context_publish,
    .update = spanprof_context_update,
    .withdraw = spanprof_context_withdraw,
    .key = spanprof_context_key,
    .enter = spanprof_context_enter,
    .attach = spanprof_context_attach,
    .clear = spanprof_context_clear,
    .get = spanprof_context_get,
    .set_attribute = spanprof_context_set_attribute,
    .thread_symbol = thread_symbol,
};
