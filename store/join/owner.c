/* SPDX-License-Identifier: Apache-2.0 */
#include "store/join/owner.h"
#include "proto/otlp/otlp_spans.h"

#define CONTAINER_ID_SHORT 12 /* common length of a shortened container id */

enum weight { WEIGHT_PID = 8, WEIGHT_CONTAINER = 4, WEIGHT_INSTANCE = 2, WEIGHT_SERVICE = 1 };

static struct bytes text_of(struct bytes resource, const char *key)
{
    struct bytes key_value, text;
    if (otlp_resource_attribute(resource, key, &key_value) &&
        otlp_key_value_string(key_value, &text))
        return text;
    return BYTES(NULL, 0);
}

void owner_evidence_of(struct bytes resource, struct owner_evidence *evidence)
{
    struct bytes key_value;
    *evidence = (struct owner_evidence){
        .container_id = text_of(resource, "container.id"),
        .instance_id = text_of(resource, "service.instance.id"),
        .service_name = text_of(resource, "service.name"),
        .service_namespace = text_of(resource, "service.namespace"),
    };
    evidence->has_pid = otlp_resource_attribute(resource, "process.pid", &key_value) &&
                        otlp_key_value_int(key_value, &evidence->pid);
}

static bool same_container(struct bytes a, struct bytes b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    return len == a.len && len == b.len ? bytes_equal(a, b)
                                        : len >= CONTAINER_ID_SHORT && !memcmp(a.data, b.data, len);
}

static int score_pid(const struct owner_evidence *span, const struct process_facts *process)
{
    if (span->pid != process->pid && span->pid != process->own_pid)
        return OWNER_NOT;
    if (!span->container_id.len || !process->container_id.len)
        return WEIGHT_PID;
    return same_container(span->container_id, process->container_id) ? WEIGHT_PID + WEIGHT_CONTAINER
                                                                     : OWNER_NOT;
}

/* Compares the span's service with the published one. score: so far; 0: no other evidence, so a
 * different service is a contradiction. */
static int score_service(const struct owner_evidence *span, const struct owner_evidence *process,
                         int score)
{
    if (span->instance_id.len && process->instance_id.len) {
        if (bytes_equal(span->instance_id, process->instance_id))
            score += WEIGHT_INSTANCE;
        else if (!score)
            return OWNER_NOT;
    }
    if (span->service_name.len && process->service_name.len) {
        if (bytes_equal(span->service_name, process->service_name) &&
            bytes_equal(span->service_namespace, process->service_namespace))
            score += WEIGHT_SERVICE;
        else if (!score)
            return OWNER_NOT;
    }
    return score;
}

int owner_score(const struct owner_evidence *span, const struct process_facts *process)
{
    struct owner_evidence published;
    int score = span->has_pid && process->pid ? score_pid(span, process) : OWNER_OPEN;
    if (score == OWNER_NOT || !process->resource.len)
        return score;
    owner_evidence_of(process->resource, &published);
    return score_service(span, &published, score);
}

static uint64_t mark_text(struct bytes text, const uint8_t key[16])
{
    return text.len ? bytes_siphash(text, key) | 1 : 0;
}

void owner_mark_of(const struct owner_evidence *evidence, const uint8_t key[16],
                   struct owner_mark *mark)
{
    struct bytes container = evidence->container_id;
    if (container.len > CONTAINER_ID_SHORT)
        container.len = CONTAINER_ID_SHORT;
    mark->container = mark_text(container, key);
    mark->instance = mark_text(evidence->instance_id, key);
    mark->service = mark_text(evidence->service_name, key);
    if (mark->service && evidence->service_namespace.len)
        mark->service ^= mark_text(evidence->service_namespace, key) & ~UINT64_C(1);
}

/* True: both parts are known and differ, and no stronger part agrees. *agreed: set if the parts are
 * equal. */
static bool part_contradicts(uint64_t a, uint64_t b, bool *agreed)
{
    if (!a || !b)
        return false;
    bool same = a == b, contradicts = !same && !*agreed;
    *agreed |= same;
    return contradicts;
}

bool owner_marks_contradict(const struct owner_mark *a, const struct owner_mark *b)
{
    bool agreed = false;
    return part_contradicts(a->container, b->container, &agreed) ||
           part_contradicts(a->instance, b->instance, &agreed) ||
           part_contradicts(a->service, b->service, &agreed);
}
