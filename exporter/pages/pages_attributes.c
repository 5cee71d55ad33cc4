/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter is not refused in advance: threads may set attributes with any key on their samples. But
 * if a filter finds nothing, and names an attribute that is not kept from spans, it most likely
 * means a span attribute.
 */
#include "exporter/pages/pages_attributes.h"
#include <stdio.h>

static const struct config_list *kept_of_spans(const struct config *config)
{
    static const struct config_list none = {.count = 0};
    const struct config_processor *join = config_find_processor(config, CONFIG_PROCESSOR_JOIN);
    return join ? &join->join.span_attributes : &none;
}

static bool is_kept(const struct config_list *kept, struct bytes key)
{
    for (size_t i = 0; i < kept->count; i++)
        if (bytes_is(key, kept->items[i]))
            return true;
    return false;
}

/* The list comes last: it may be cut. */
static void config_list_explain(const struct config_list *kept, struct bytes key, char *out,
                                size_t size)
{
    char shown[128];
    bytes_sanitize(key, shown, sizeof(shown));
    size_t len = (size_t)snprintf(
        out, size,
        "nothing is found by the attribute %s, which is not kept of spans: add it to "
        "processors::join::span_attributes for those to come; kept are ",
        shown);
    for (size_t i = 0; i < kept->count && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", i ? ", " : "", kept->items[i]);
    if (!kept->count)
        snprintf(out + len, size - len, "none");
}

void pages_attributes_explain(const struct config *config, struct pages_request *request)
{
    const struct config_list *kept = kept_of_spans(config);
    const struct history_filter *filter = request->empty;
    for (size_t i = 0; i < filter->n_attributes; i++) {
        if (is_kept(kept, filter->attributes[i].key))
            continue;
        config_list_explain(kept, filter->attributes[i].key, request->problem,
                            sizeof(request->problem));
        request->status = 400;
        return;
    }
}
