/* SPDX-License-Identifier: Apache-2.0 */
/* A ring buffer of entries of any length; the oldest are overwritten. Pages never written cost no
 * memory. */
#include "store/pending_profiles/recent_spans.h"
#include "base/map.h"
#include "base/stats.h"
#include <errno.h>
#include <stdlib.h>

STAT_GAUGE(remembered, "spanprof_recent_spans",
           "Spans remembered for profiles of others that may come after them.");

struct entry {
    struct profiles_ids ids;
    struct owner_mark mark;
    uint32_t size; /* of the whole entry */
    uint32_t kind, name_len, attributes_len;
    uint8_t texts[];
};

struct recent_spans {
    struct map by_ids;
    size_t max_bytes;
    size_t tail, head; /* start of the oldest entry; end of the latest */
    size_t wrap;       /* if wrapped: end of the entries from tail on */
    bool wrapped;
    size_t count;
    uint8_t *bytes;
};

int recent_spans_open(size_t max_bytes, struct recent_spans **result)
{
    struct recent_spans *spans = calloc(1, sizeof(*spans));
    uint8_t *bytes = calloc(1, max_bytes);
    if (!spans || !bytes) {
        free(spans);
        free(bytes);
        return -ENOMEM;
    }
    spans->max_bytes = max_bytes;
    spans->bytes = bytes;
    MAP_INIT(&spans->by_ids, struct entry, ids);
    *result = spans;
    return 0;
}

void recent_spans_close(struct recent_spans *spans)
{
    if (!spans)
        return;
    map_close(&spans->by_ids);
    free(spans->bytes);
    free(spans);
}

static struct entry *entry_at(const struct recent_spans *spans, size_t offset)
{
    return (struct entry *)(void *)(spans->bytes + offset); /* sizes are multiples of 8 */
}

static void forget_oldest(struct recent_spans *spans)
{
    struct entry *entry = entry_at(spans, spans->tail);
    if (map_get(&spans->by_ids, &entry->ids) == entry) /* else a later entry replaced it */
        map_remove(&spans->by_ids, &entry->ids);
    spans->tail += entry->size;
    spans->count--;
    if (spans->wrapped && spans->tail == spans->wrap) {
        spans->tail = 0;
        spans->wrapped = false;
    }
}

static struct entry *make_room(struct recent_spans *spans, size_t size)
{
    for (;;) {
        if (!spans->count) {
            spans->tail = spans->head = 0;
            spans->wrapped = false;
        }
        size_t end = spans->wrapped ? spans->tail : spans->max_bytes;
        if (end - spans->head >= size)
            return entry_at(spans, spans->head);
        if (spans->wrapped) {
            forget_oldest(spans);
            continue;
        }
        spans->wrap = spans->head;
        spans->head = 0;
        spans->wrapped = true;
    }
}

int recent_spans_put(struct recent_spans *spans, const struct profiles_span *span,
                     const struct owner_mark *mark)
{
    size_t size = sizeof(struct entry) + span->name.len + span->attributes.len;
    size = (size + 7) & ~(size_t)7;
    if (size > spans->max_bytes)
        return 0;
    struct entry *entry = make_room(spans, size);
    *entry = (struct entry){.ids = span->ids,
                            .mark = *mark,
                            .size = (uint32_t)size,
                            .kind = span->kind,
                            .name_len = (uint32_t)span->name.len,
                            .attributes_len = (uint32_t)span->attributes.len};
    if (span->name.len)
        memcpy(entry->texts, span->name.data, span->name.len);
    if (span->attributes.len)
        memcpy(entry->texts + span->name.len, span->attributes.data, span->attributes.len);
    int error = map_put(&spans->by_ids, entry, NULL);
    if (error)
        return error;
    spans->head += size;
    spans->count++;
    stat_set(&remembered, (int64_t)spans->by_ids.count);
    return 0;
}

bool recent_spans_get(const struct recent_spans *spans, const struct profiles_ids *ids,
                      struct profiles_span *span, struct owner_mark *mark)
{
    const struct entry *entry = map_get(&spans->by_ids, ids);
    if (!entry)
        return false;
    *span = (struct profiles_span){
        .ids = entry->ids,
        .name = BYTES(entry->texts, entry->name_len),
        .kind = entry->kind,
        .attributes = BYTES(entry->texts + entry->name_len, entry->attributes_len)};
    *mark = entry->mark;
    return true;
}
