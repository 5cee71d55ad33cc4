/* SPDX-License-Identifier: Apache-2.0 */
/* The labels of a record: what they say stays within them, and an id is never zero by accident. */
#include "agent-bpf/drain/labels.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count_ids(struct bytes rest, const struct label_names *names)
{
    const uint8_t *end = rest.data + rest.len;
    struct bytes key, value;
    size_t n = 0;
    while (labels_next(&rest, &key, &value)) {
        assert(key.data + key.len == value.data && value.data + value.len <= end);
        assert(rest.data + rest.len == end);
        n += labels_is_id(key, value, names);
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const traces[] = {"t", "both", NULL};
    static const char *const spans[] = {"s", "both", NULL};
    static const struct label_names names = {traces, spans};
    struct label_ids ids, again;
    struct bytes labels = BYTES(data, size);
    bool named = labels_ids(labels, &names, &ids);
    assert(named == !bytes_zero(&ids, sizeof(ids)));
    assert(!named || count_ids(labels, &names) > 0);
    assert(labels_ids(labels, &names, &again) == named && !memcmp(&ids, &again, sizeof(ids)));
    return 0;
}
