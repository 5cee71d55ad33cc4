/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stranger's profiles: their layout, the spans they name, and what is written on the samples of
 * those of even number: well-formed, larger than before, and with nothing more to join in it.
 */
#include "proto/otlp/otlp_items.h"
#include "proto/otlp/otlp_profiles_layout.h"
#include "proto/otlp/otlp_profiles_links.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool ids_of(void *context, const struct profiles_text *texts, size_t n,
                   struct profiles_ids *ids)
{
    (void)context;
    for (size_t i = 0; i < n; i++)
        if (bytes_from_hex(texts[i].value, ids->trace_id, 16)) {
            memset(ids->span_id, 5, 8);
            return true;
        }
    return false;
}

static void annotate(struct bytes request, const struct profiles_links *links)
{
    static const uint8_t attributes[] = {0x4a, 0x07, 0x0a, 0x01, 'k', 0x12, 0x02, 0x18, 0x07};
    struct profiles_span *list = calloc(links->n_contexts + 1, sizeof(*list));
    const struct profiles_span **spans = calloc(links->n_contexts + 1, sizeof(*spans));
    struct buf out = BUF_INIT(0);
    if (!list || !spans)
        abort();
    for (size_t i = 0; i < links->n_contexts; i += 2) {
        list[i] = (struct profiles_span){.ids = links->contexts[i].ids,
                                         .name = BYTES_LIT("GET /"),
                                         .kind = (uint32_t)i,
                                         .attributes = BYTES(attributes, sizeof(attributes))};
        spans[i] = &list[i];
    }
    const struct profiles_annotation annotation = {links->n_samples, links->contexts_of,
                                                   links->n_contexts, spans};
    if (profiles_annotate(request, &annotation, &out) != PROFILES_LINKS_OK)
        abort();
    struct profiles_links again;
    int outcome = otlp_items_check(SIGNAL_PROFILES, buf_bytes(&out));
    if (outcome == OTLP_MALFORMED || otlp_items_count(SIGNAL_PROFILES, buf_bytes(&out)) !=
                                         otlp_items_count(SIGNAL_PROFILES, request))
        abort();
    outcome = profiles_links_read(buf_bytes(&out), ids_of, NULL, &again);
    if (outcome == PROFILES_LINKS_MALFORMED)
        abort();
    for (size_t i = 0; outcome == PROFILES_LINKS_OK && i < again.n_samples; i++)
        if (links->contexts_of[i] % 2 == 1 && again.contexts_of[i])
            abort();
    profiles_links_close(&again);
    buf_close(&out);
    free(spans);
    free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *request = malloc(size + 1);
    enum profiles_layout layout;
    if (!request)
        abort();
    if (size)
        memcpy(request, data, size);
    bool says_version_1 = size && request[size - 1] & 1;
    if (profiles_layout_of(BYTES(request, size), says_version_1, &layout) == OTLP_OK &&
        (layout == PROFILES_TODAY || profiles_layout_renumber(request, size, layout) == OTLP_OK) &&
        otlp_items_check(SIGNAL_PROFILES, BYTES(request, size)) == OTLP_OK) {
        struct profiles_links links;
        if (profiles_links_read(BYTES(request, size), ids_of, NULL, &links) == PROFILES_LINKS_OK)
            annotate(BYTES(request, size), &links);
        profiles_links_close(&links);
    }
    free(request);
    return 0;
}
