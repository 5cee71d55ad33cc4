/* SPDX-License-Identifier: Apache-2.0 */
#include "store/join/ended_spans.h"
#include "base/cgroup.h"
#include "base/limits.h"
#include "store/join/span_time.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

LIMIT(ended, LIMIT_SERVICE, "spans without samples that have ended", .bytes = ENDED_SPANS_BYTES);

enum evidence { EVIDENCE_CGROUP = 1, EVIDENCE_CONTAINER, EVIDENCE_INSTANCE };
#define PART_OF_CLAIMS 0

/* What is hashed: a span, and one thing that tells who made it. */
struct made_by {
    uint64_t evidence; /* enum evidence */
    uint64_t who;      /* cgroup, or a mark of owner.h */
    uint64_t uid;      /* only at the top of the cgroup hierarchy */
    uint8_t trace_id[16], span_id[8];
};
_Static_assert(sizeof(struct made_by) == 48, "it is hashed as a whole, so it has no padding");

int ended_spans_open(struct ended_spans *spans)
{
    *spans = (struct ended_spans){.table = calloc(1, ENDED_SPANS_BYTES)};
    if (!spans->table)
        return -ENOMEM;
    if (getrandom(spans->hash_key, sizeof(spans->hash_key), 0) != sizeof(spans->hash_key))
        return -errno;
    return 0;
}

void ended_spans_close(struct ended_spans *spans)
{
    free(spans->table);
    spans->table = NULL;
}

static unsigned part_of(const struct ended_spans *spans, const struct made_by *made)
{
    if (made->evidence != EVIDENCE_CGROUP)
        return PART_OF_CLAIMS;
    struct bytes cgroup = BYTES((const uint8_t *)&made->who, sizeof(made->who));
    return 1 + (unsigned)(bytes_siphash(cgroup, spans->hash_key) % (ENDED_SPANS_PARTS - 1));
}

/* The place of the span, or NULL; *set: the ways that it may have. */
static struct ended_span *ended_span_find(const struct ended_spans *spans,
                                          const struct made_by *made, uint64_t *hash,
                                          struct ended_span **set)
{
    *hash = bytes_siphash(BYTES((const uint8_t *)made, sizeof(*made)), spans->hash_key) | 1;
    size_t n = part_of(spans, made) * ENDED_SPANS_SETS + (*hash >> 1) % ENDED_SPANS_SETS;
    *set = spans->table + n * ENDED_SPANS_WAYS;
    for (unsigned way = 0; way < ENDED_SPANS_WAYS; way++)
        if ((*set)[way].hash == *hash)
            return &(*set)[way];
    return NULL;
}

static void ended_span_put(struct ended_spans *spans, const struct made_by *made, uint64_t over)
{
    uint64_t hash;
    struct ended_span *set, *at = ended_span_find(spans, made, &hash, &set);
    if (!at)
        at = &set[spans->turn++ % ENDED_SPANS_WAYS];
    *at = (struct ended_span){.hash = hash, .over_unix_ns = over};
}

/* Sets what tells by the kernel's word who it is. False: not known. */
static bool by_cgroup(struct made_by *made, uint64_t cgroup_id, uint32_t uid)
{
    made->evidence = EVIDENCE_CGROUP;
    made->who = cgroup_id;
    made->uid = cgroup_id == CGROUP_TOP_ID ? uid : 0;
    return cgroup_id;
}

static bool by_claim(struct made_by *made, enum evidence evidence, uint64_t mark)
{
    made->evidence = evidence;
    made->who = mark;
    made->uid = 0;
    return mark;
}

static const struct owner_mark *mark_of_span(struct ended_spans *spans,
                                             const struct otlp_span *span)
{
    if (span->resource_number && span->resource_number == spans->latest_resource)
        return &spans->latest_mark;
    owner_claims_of_span(span->resource, spans->hash_key, &spans->latest_mark);
    spans->latest_resource = span->resource_number;
    return &spans->latest_mark;
}

void ended_spans_add(struct ended_spans *spans, const struct otlp_span *span,
                     const struct peer *sender)
{
    struct made_by made = {0};
    uint64_t over = span_time_over(span->start_unix_ns, span->end_unix_ns);
    assert(span->trace_id.len == 16 && span->span_id.len == 8);
    memcpy(made.trace_id, span->trace_id.data, 16);
    memcpy(made.span_id, span->span_id.data, 8);
    if (!sender->is_forwarder && by_cgroup(&made, sender->cgroup_id, sender->uid)) {
        ended_span_put(spans, &made, over);
        return;
    }
    const struct owner_mark *mark = mark_of_span(spans, span);
    if (by_claim(&made, EVIDENCE_CONTAINER, mark->container))
        ended_span_put(spans, &made, over);
    if (by_claim(&made, EVIDENCE_INSTANCE, mark->instance))
        ended_span_put(spans, &made, over);
    spans->has_claims |= mark->container || mark->instance;
}

static bool is_over(const struct ended_spans *spans, const struct made_by *made, uint64_t time)
{
    uint64_t hash;
    struct ended_span *set, *span = ended_span_find(spans, made, &hash, &set);
    return span && time > span->over_unix_ns;
}

bool ended_spans_has(const struct ended_spans *spans, const struct sample *sample,
                     const struct process_facts *process)
{
    struct made_by made = {0};
    struct owner_mark mark;
    uint64_t time = sample->time_unix_ns;
    bool has_span = !bytes_zero(sample->span_id, sizeof(sample->span_id));
    memcpy(made.trace_id, sample->trace_id, 16);
    memcpy(made.span_id, has_span ? sample->span_id : sample->local_root_id, 8);
    if (by_cgroup(&made, process->cgroup_id, process->uid) && is_over(spans, &made, time))
        return true;
    if (!spans->has_claims)
        return false;
    owner_claims_of_process(process, spans->hash_key, &mark);
    return (by_claim(&made, EVIDENCE_CONTAINER, mark.container) && is_over(spans, &made, time)) ||
           (by_claim(&made, EVIDENCE_INSTANCE, mark.instance) && is_over(spans, &made, time));
}
