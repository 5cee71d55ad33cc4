/* SPDX-License-Identifier: Apache-2.0 */
#include "store/history/history_block.h"
#include <errno.h>

static bool is_id(int64_t id)
{
    return id >= 0 && id < INT64_MAX / 2;
}

void history_series_encode(struct blob_writer *out, const struct history_series_facts *facts)
{
    const int64_t ids[] = {facts->resource, facts->service,   facts->span_name,
                           facts->thread,   facts->container, facts->executable};
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
        blob_put_number(out, (uint64_t)ids[i]);
    blob_put_number(out, facts->pid);
    blob_put_fixed(out, &facts->span_kind, 1);
    blob_put_fixed(out, &facts->sample_kind, 1);
    blob_put_fixed(out, &facts->context_source, 1);
}

int history_series_decode(struct bytes body, struct history_series_facts *facts)
{
    struct blob_reader in = {.left = body};
    int64_t *ids[] = {&facts->resource, &facts->service,   &facts->span_name,
                      &facts->thread,   &facts->container, &facts->executable};
    bool good = true;
    *facts = (struct history_series_facts){0};
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
        *ids[i] = (int64_t)blob_get_number(&in);
        good &= is_id(*ids[i]);
    }
    facts->pid = blob_get_number32(&in);
    blob_get_fixed(&in, &facts->span_kind, 1);
    blob_get_fixed(&in, &facts->sample_kind, 1);
    blob_get_fixed(&in, &facts->context_source, 1);
    if (good && !in.bad)
        return 0;
    *facts = (struct history_series_facts){0};
    return -EUCLEAN;
}
