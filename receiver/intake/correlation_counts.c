/* SPDX-License-Identifier: Apache-2.0 */
#include "receiver/intake/correlation_counts.h"
#include "base/map.h"
#include "base/stats.h"
#include "store/stacks/stacks_unfinished.h"
#include "store/store.h"
#include <errno.h>
#include <stdlib.h>

static const char *const loss_names[] = {
    [CORRELATION_LOST_NO_SOCKET] = "no_socket",
    [CORRELATION_LOST_AGENT_SLOW] = "agent_slow",
    [CORRELATION_LOST_AGENT_GONE] = "agent_gone",
    [CORRELATION_LOST_SEND] = "send",
    [CORRELATION_LOST_STORE] = "store",
    [CORRELATION_LOST_FULL] = "full",
    [CORRELATION_LOST_MEMORY] = "memory",
    [CORRELATION_LOST_STACK] = "stack",
    [CORRELATION_LOST_ROLLED_BACK] = "rolled_back",
};
STAT_LOSSES(lost, "spanprof_elastic_samples_lost_total",
            "Samples not reported to their process's Elastic agent, by reason.",
            STAT_LABEL("reason", loss_names, CORRELATION_LOSSES));

void correlation_count_lost(enum correlation_loss reason, int64_t n)
{
    stat_add_of(&lost, reason, n);
}

struct count_key {
    uint8_t trace_id[16];
    uint8_t local_root_id[8];
    int64_t stack;
    uint64_t pid; /* in 64 bits: no padding in a key */
};

struct count {
    struct count_key key;
    uint64_t first_ns;
    uint64_t n;
};

struct correlation_counts {
    struct store *store;
    uint64_t generation; /* store_generation() that the stacks' rows belong to */
    struct map counts;
};

int correlation_counts_open(struct store *store, struct correlation_counts **countsp)
{
    struct correlation_counts *counts = calloc(1, sizeof(*counts));
    if (!counts)
        return -ENOMEM;
    counts->store = store;
    counts->generation = store_generation(store);
    MAP_INIT(&counts->counts, struct count, key);
    *countsp = counts;
    return 0;
}

static int64_t forget_all(struct correlation_counts *counts)
{
    int64_t n = 0;
    struct count *count;
    for (size_t i = 0; (count = map_next(&counts->counts, &i));) {
        map_remove(&counts->counts, &count->key);
        n += (int64_t)count->n;
        free(count);
    }
    return n;
}

void correlation_counts_close(struct correlation_counts *counts)
{
    if (!counts)
        return;
    forget_all(counts);
    map_close(&counts->counts);
    free(counts);
}

static void follow_store(struct correlation_counts *counts)
{
    uint64_t generation = store_generation(counts->store);
    if (generation == counts->generation)
        return;
    counts->generation = generation;
    correlation_count_lost(CORRELATION_LOST_ROLLED_BACK, forget_all(counts));
}

static struct count *new_count(struct correlation_counts *counts, const struct count_key *key)
{
    if (counts->counts.count >= CORRELATION_COUNTS_MAX) {
        correlation_count_lost(CORRELATION_LOST_FULL, 1);
        return NULL;
    }
    struct count *count = calloc(1, sizeof(*count));
    if (count)
        count->key = *key;
    if (count && map_put(&counts->counts, count, NULL) == 0)
        return count;
    free(count);
    correlation_count_lost(CORRELATION_LOST_MEMORY, 1);
    return NULL;
}

void correlation_counts_add(struct correlation_counts *counts, const struct record_header *record,
                            int64_t stack)
{
    if (record->context_source != CONTEXT_ELASTIC || record->kind != RECORD_CPU ||
        bytes_zero(record->trace_id, sizeof(record->trace_id)) ||
        bytes_zero(record->local_root_id, sizeof(record->local_root_id)))
        return;
    follow_store(counts);
    struct count_key key = {.stack = stack, .pid = record->pid};
    memcpy(key.trace_id, record->trace_id, sizeof(key.trace_id));
    memcpy(key.local_root_id, record->local_root_id, sizeof(key.local_root_id));
    struct count *count = map_get(&counts->counts, &key);
    if (!count) {
        count = new_count(counts, &key);
        if (!count)
            return;
        count->first_ns = record->time_ns;
    }
    count->n++;
}

/* The format counts in 16 bits. */
static void put_messages(const struct count *count, const uint8_t stack_id[16],
                         struct buf *messages)
{
    struct correlation_message message = {.pid = (uint32_t)count->key.pid};
    memcpy(message.said.trace_id, count->key.trace_id, sizeof(message.said.trace_id));
    memcpy(message.said.local_root_id, count->key.local_root_id,
           sizeof(message.said.local_root_id));
    memcpy(message.said.stack_id, stack_id, sizeof(message.said.stack_id));
    for (uint64_t left = count->n; left > 0; left -= message.said.count) {
        message.said.count = left < UINT16_MAX ? (uint16_t)left : UINT16_MAX;
        if (buf_append(messages, &message, sizeof(message)) == 0)
            continue;
        correlation_count_lost(CORRELATION_LOST_MEMORY, (int64_t)left);
        return;
    }
}

/* 0, STACK_NOT_READY, negative errno. */
enum { STACK_NOT_READY = 1 };

static int stack_id(struct correlation_counts *counts, const struct count *count, uint64_t now_ns,
                    uint8_t id[16])
{
    struct stacks *stacks = store_stacks(counts->store);
    bool ready = !stacks_has_open_frames(stacks, count->key.stack); /* its id is not final */
    int error = 0;
    if (ready && now_ns < count->first_ns + CORRELATION_HOLD_NS)
        error = stacks_public_id_ready(stacks, count->key.stack, &ready);
    if (error || !ready)
        return error ? error : STACK_NOT_READY;
    return stacks_public_id(stacks, count->key.stack, id);
}

int correlation_counts_take(struct correlation_counts *counts, uint64_t now_ns,
                            struct buf *messages)
{
    struct count *count;
    follow_store(counts);
    for (size_t i = 0; (count = map_next(&counts->counts, &i));) {
        uint8_t id[16];
        int outcome = stack_id(counts, count, now_ns, id);
        if (outcome == STACK_NOT_READY)
            continue;
        if (outcome && outcome != -ENOENT)
            return outcome;
        if (outcome)
            correlation_count_lost(CORRELATION_LOST_STACK, (int64_t)count->n);
        else
            put_messages(count, id, messages);
        map_remove(&counts->counts, &count->key);
        free(count);
    }
    return 0;
}
