/* SPDX-License-Identifier: Apache-2.0 */
#include "store/join/owner.h"
#include "base/cgroup.h"
#include "proto/otlp/otlp_spans.h"

#define CONTAINER_ID_SHORT  12 /* common length of a shortened container id */
#define PID_DIGITS_MAX      10
#define CONTAINER_ID_RANDOM 32 /* hex digits that an id begins with, at least */

enum weight {
    WEIGHT_SENDER = 32, /* the kernel's word */
    WEIGHT_PID = 16,
    WEIGHT_CONTAINER = 8,
    WEIGHT_POD = 4,
    WEIGHT_INSTANCE = 2,
    WEIGHT_SERVICE = 1
};

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
        .pod_uid = text_of(resource, "k8s.pod.uid"),
    };
    evidence->has_pid = otlp_resource_attribute(resource, "process.pid", &key_value) &&
                        otlp_key_value_int(key_value, &evidence->pid);
}

static size_t hex_digits(struct bytes text)
{
    size_t n = 0;
    while (n < text.len && ((text.data[n] >= '0' && text.data[n] <= '9') ||
                            (text.data[n] >= 'a' && text.data[n] <= 'f')))
        n++;
    return n;
}

/* A runtime made it at random; others are names that people choose, and guess. */
static bool is_random(struct bytes container_of_process)
{
    return hex_digits(container_of_process) >= CONTAINER_ID_RANDOM;
}

static bool claims_random(struct bytes container_of_span)
{
    return hex_digits(container_of_span) >= CONTAINER_ID_SHORT;
}

/* An id that the span claims and a name that the kernel says may be two words for one container. */
static bool comparable(struct bytes span, struct bytes process)
{
    return span.len && process.len && (is_random(process) || !claims_random(span));
}

/* Ids may be cut short, names not. */
static bool same_container(struct bytes a, struct bytes b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    return len == a.len && len == b.len
               ? bytes_equal(a, b)
               : claims_random(BYTES(a.data, len)) && !memcmp(a.data, b.data, len);
}

static bool equal_texts(struct bytes a, struct bytes b)
{
    return a.len && b.len && bytes_equal(a, b);
}

static bool differ(struct bytes a, struct bytes b)
{
    return a.len && b.len && !bytes_equal(a, b);
}

/* The top cgroup holds what nobody has put elsewhere, so there the user must be the same as well.
 */
static bool is_sender(const struct peer *sender, const struct process_facts *process)
{
    return sender->cgroup_id && sender->cgroup_id == process->cgroup_id &&
           (sender->cgroup_id != CGROUP_TOP_ID || sender->uid == process->uid);
}

/* What the kernel says of the process: container and pod. */
static int score_container(const struct owner_evidence *span, const struct process_facts *process)
{
    bool both = comparable(span->container_id, process->container_id);
    bool same = both && same_container(span->container_id, process->container_id);
    if ((both && !same) || differ(span->pod_uid, process->pod_uid))
        return OWNER_NOT;
    return (same ? WEIGHT_CONTAINER : 0) +
           (equal_texts(span->pod_uid, process->pod_uid) ? WEIGHT_POD : 0);
}

/* Publishers write each value as text. */
static void published_pid_read(struct bytes resource, struct owner_evidence *published)
{
    struct bytes text = text_of(resource, "process.pid");
    if (published->has_pid || !text.len || text.len > PID_DIGITS_MAX)
        return;
    published->pid = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return;
        published->pid = 10 * published->pid + (text.data[i] - '0');
    }
    published->has_pid = true;
}

/* Every container has its own process 1: such a number tells nothing without the container. A
 * process that was forked after its SDK was set up has the number of the one that set it up, in its
 * spans and in what it publishes: no contradiction, and no evidence. */
static int score_pid(const struct owner_evidence *span, const struct owner_evidence *published,
                     const struct process_facts *process, bool same_place)
{
    if (!span->has_pid || !process->pid)
        return 0;
    if (span->pid == process->pid)
        return WEIGHT_PID;
    if (span->pid == process->own_pid)
        return same_place ? WEIGHT_PID : 0;
    return same_place && published->has_pid && published->pid == span->pid ? 0 : OWNER_NOT;
}

/* Compares the span's service with the published one. score: so far; 0: no other evidence, so a
 * different service is a contradiction. */
static int score_service(const struct owner_evidence *span, const struct owner_evidence *published,
                         int score)
{
    if (equal_texts(span->instance_id, published->instance_id))
        score += WEIGHT_INSTANCE;
    else if (!score && differ(span->instance_id, published->instance_id))
        return OWNER_NOT;
    if (!span->service_name.len || !published->service_name.len)
        return score;
    if (bytes_equal(span->service_name, published->service_name) &&
        bytes_equal(span->service_namespace, published->service_namespace))
        return score + WEIGHT_SERVICE;
    return score ? score : OWNER_NOT;
}

static int score_claims(const struct owner_evidence *span, const struct owner_evidence *published,
                        const struct process_facts *process, bool same_cgroup)
{
    int container = score_container(span, process);
    if (container == OWNER_NOT)
        return OWNER_NOT;
    int pid = score_pid(span, published, process, same_cgroup || container >= WEIGHT_CONTAINER);
    return pid == OWNER_NOT ? OWNER_NOT : score_service(span, published, container + pid);
}

int owner_score(const struct owner_evidence *span, const struct peer *sender,
                const struct process_facts *process)
{
    struct owner_evidence published = {0};
    bool same_cgroup = is_sender(sender, process);
    if (process->resource.len)
        owner_evidence_of(process->resource, &published);
    published_pid_read(process->resource, &published);
    bool same_claim = equal_texts(span->instance_id, published.instance_id) ||
                      (is_random(process->container_id) &&
                       same_container(span->container_id, process->container_id));
    int score = score_claims(span, &published, process, same_cgroup);
    if (!same_cgroup && !same_claim && !sender->is_forwarder)
        return OWNER_UNPROVEN;
    return score == OWNER_NOT ? OWNER_NOT : score + (same_cgroup ? WEIGHT_SENDER : 0);
}

static uint64_t mark_text(struct bytes text, const uint8_t key[16])
{
    return text.len ? bytes_siphash(text, key) | 1 : 0;
}

void owner_mark_of(const struct owner_evidence *evidence, const uint8_t key[16],
                   struct owner_mark *mark)
{
    struct bytes container = evidence->container_id;
    if (claims_random(container))
        container.len = CONTAINER_ID_SHORT;
    mark->container = mark_text(container, key);
    mark->instance = mark_text(evidence->instance_id, key);
    mark->service = mark_text(evidence->service_name, key);
    if (mark->service && evidence->service_namespace.len)
        mark->service ^= mark_text(evidence->service_namespace, key) & ~UINT64_C(1);
}

static void claims_of(struct bytes container_id, struct bytes instance_id, const uint8_t key[16],
                      struct owner_mark *mark)
{
    const struct owner_evidence claims = {.container_id = container_id, .instance_id = instance_id};
    owner_mark_of(&claims, key, mark);
}

void owner_claims_of_span(struct bytes resource, const uint8_t key[16], struct owner_mark *mark)
{
    struct bytes container = text_of(resource, "container.id");
    claims_of(claims_random(container) ? container : BYTES(NULL, 0),
              text_of(resource, "service.instance.id"), key, mark);
}

void owner_claims_of_process(const struct process_facts *process, const uint8_t key[16],
                             struct owner_mark *mark)
{
    struct bytes container = process->container_id;
    claims_of(is_random(container) ? container : BYTES(NULL, 0),
              text_of(process->resource, "service.instance.id"), key, mark);
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
