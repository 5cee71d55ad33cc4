/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Sources that give labels: pairs of texts, copied into the attributes in the form of record.h.
 * A label that cannot be read (its page may be swapped out) or does not fit is left out, and the
 * next one is tried: ids are short. The sample then has RECORD_FLAG_LABELS_CUT. Formats: the Go
 * runtime's runtime2.go, pprof/label.go, map.go (<= 1.23); custom-labels-v1.md of
 * polarsignals/custom-labels.
 */
#include "agent-bpf/bpf/context_ids.bpf.h"

#define GO_BUCKETS_MAX  16
#define GO_BUCKET_BYTES 272 /* with the overflow pointer */
#define GO_TOPHASH_USED 5   /* smaller ones are marks, not hashes */

struct go_slice {
    __u64 address;
    __u64 size;
    __u64 capacity;
};

struct go_map { /* hmap */
    __u64 count;
    __u8 flags;
    __u8 log2_buckets;
    __u16 overflow_buckets;
    __u32 seed;
    __u64 buckets;
};

struct custom_label_set {
    __u64 storage;
    __u64 count;
};

_Static_assert(sizeof(struct go_slice) == 24 && sizeof(struct go_map) == 24, "Go, 64 bits");

static __always_inline int labels_cut(struct build *build)
{
    build->header.flags |= RECORD_FLAG_LABELS_CUT;
    return 0;
}

/* Appends to the attributes. */
__noinline int labels_add(struct build *build, __u64 key, __u64 key_size, __u64 value,
                          __u64 value_size)
{
    if (!build || !key || !key_size)
        return 0;
    __u32 at = build->header.attributes_size;
    __u32 key_bytes = key_size > CONTEXT_LABEL_MAX ? CONTEXT_LABEL_MAX : (__u32)key_size;
    __u32 value_bytes = value_size > CONTEXT_LABEL_MAX ? CONTEXT_LABEL_MAX : (__u32)value_size;
    __u32 end = at + 2 + key_bytes + value_bytes;
    if (at >= RECORD_MAX_ATTRIBUTES || end > RECORD_MAX_ATTRIBUTES)
        return labels_cut(build);
    __u8 *label = build->attributes + at;
    if (bpf_probe_read_user(label + 2, key_bytes, (void *)key) ||
        bpf_probe_read_user(label + 2 + key_bytes, value_bytes, (void *)value))
        return labels_cut(build);
    label[0] = (__u8)key_bytes;
    label[1] = (__u8)value_bytes;
    build->header.attributes_size = (__u16)end;
    return 0;
}

/* No labels because none was readable is a failure; no labels because there are none is not. */
static __always_inline enum context_outcome labels_end(struct build *build, __u8 source)
{
    __u32 size = build->header.attributes_size;
    if (size > RECORD_MAX_ATTRIBUTES)
        return CONTEXT_TORN;                    /* cannot be; for the verifier */
    __builtin_memset(build->rest + size, 0, 8); /* what pads the last word */
    if (size == 0)
        return build->header.flags & RECORD_FLAG_LABELS_CUT ? CONTEXT_TORN : CONTEXT_ABSENT;
    build->header.attributes_source = source;
    return CONTEXT_FOUND;
}

/* pairs of texts, as many as fit into build->labels. 0 or a positive errno */
static __always_inline long labels_fetch(struct build *build, __u64 address, __u64 count)
{
    __u32 n = count > LABELS_MAX ? LABELS_MAX : (__u32)count;
    if (n < count)
        labels_cut(build);
    return bpf_probe_read_user(build->labels, n * 2 * sizeof(struct label_text), (void *)address);
}

/* ---- Go ---- */

/* Replaces an address by the pointer that lies there. */
static __always_inline enum context_outcome follow(__u64 *address, __u64 offset)
{
    if (bpf_probe_read_user(address, sizeof(*address), (void *)(*address + offset)))
        return CONTEXT_TORN;
    return *address ? CONTEXT_FOUND : CONTEXT_ABSENT;
}

static __always_inline enum context_outcome go_read_slice(struct build *build, __u64 address)
{
    struct go_slice slice;
    if (bpf_probe_read_user(&slice, sizeof(slice), (void *)address) || slice.size > slice.capacity)
        return CONTEXT_TORN;
    if (slice.size == 0)
        return CONTEXT_ABSENT;
    if (labels_fetch(build, slice.address, slice.size))
        return CONTEXT_TORN;
    for (__u32 i = 0; i < LABELS_MAX && i < slice.size; i++) {
        const struct label_text *pair = &build->labels[2 * i];
        labels_add(build, pair[0].address, pair[0].size, pair[1].address, pair[1].size);
    }
    return labels_end(build, CONTEXT_GO_LABELS);
}

/* Returns how many labels it holds. */
__noinline int go_read_bucket(struct build *build, __u64 address)
{
    int used = 0;
    if (!build || bpf_probe_read_user(&build->bucket, sizeof(struct go_bucket), (void *)address))
        return 0;
    for (__u32 i = 0; i < GO_BUCKET_SLOTS; i++) {
        if (build->bucket.tophash[i] < GO_TOPHASH_USED)
            continue;
        const struct label_text *key = &build->bucket.keys[i], *value = &build->bucket.values[i];
        labels_add(build, key->address, key->size, value->address, value->size);
        used++;
    }
    return used;
}

/* address: of the variable that holds the map. Overflow buckets are not followed. */
static __always_inline enum context_outcome go_read_map(struct build *build, __u64 address)
{
    struct go_map map;
    __u32 seen = 0;
    enum context_outcome outcome = follow(&address, 0);
    if (outcome)
        return outcome;
    if (bpf_probe_read_user(&map, sizeof(map), (void *)address))
        return CONTEXT_TORN;
    if (map.count == 0)
        return CONTEXT_ABSENT;
    for (__u32 i = 0; i < GO_BUCKETS_MAX; i++) {
        if (i >> (map.log2_buckets & 31) || seen >= map.count || seen >= LABELS_MAX)
            break;
        seen += (__u32)go_read_bucket(build, map.buckets + i * GO_BUCKET_BYTES);
    }
    if (seen < map.count)
        labels_cut(build);
    return labels_end(build, CONTEXT_GO_LABELS);
}

/*
 * The goroutine that the thread's M runs: the g found may be one of the runtime's own stacks, which
 * have no labels. If the goroutine names the same M, the offsets are right and the g is valid (on
 * aarch64 it may come from a register that C code uses for something else).
 */
__noinline int context_read_go(struct build *build, const struct context_variable *variable,
                               __u64 g)
{
    if (!build || !variable)
        return CONTEXT_ABSENT;
    __u64 m = g, goroutine, its_m;
    enum context_outcome outcome = follow(&m, variable->go_g_m);
    goroutine = m;
    outcome = outcome ? outcome : follow(&goroutine, variable->go_m_curg);
    its_m = goroutine;
    outcome = outcome ? outcome : follow(&its_m, variable->go_g_m);
    if (!outcome && its_m != m)
        return CONTEXT_TORN;
    outcome = outcome ? outcome : follow(&goroutine, variable->go_g_labels);
    if (outcome)
        return outcome;
    if (variable->go_form == GO_LABELS_SLICE)
        return go_read_slice(build, goroutine);
    if (variable->go_form == GO_LABELS_MAP)
        return go_read_map(build, goroutine);
    return CONTEXT_ABSENT;
}

/* ---- custom labels ---- */

/* set: not 0. A label there is key size, key, value size, value. */
__noinline int context_read_custom(struct build *build, __u64 address)
{
    struct custom_label_set set;
    if (!build)
        return CONTEXT_ABSENT;
    if (bpf_probe_read_user(&set, sizeof(set), (void *)address))
        return CONTEXT_TORN;
    if (set.count == 0)
        return CONTEXT_ABSENT;
    if (labels_fetch(build, set.storage, set.count))
        return CONTEXT_TORN;
    for (__u32 i = 0; i < LABELS_MAX && i < set.count; i++) {
        const struct custom_label *label = &build->custom_labels[i];
        labels_add(build, label->key, label->key_size, label->value, label->value_size);
    }
    return labels_end(build, CONTEXT_CUSTOM_LABELS);
}
