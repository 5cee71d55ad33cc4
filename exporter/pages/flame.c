/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks are stored as frame indices. When all stacks are added, they are sorted and the tree is
 * built in one pass (flame_finish.c). This is several times faster than searching a growing tree,
 * larger than the CPU's caches, at each step.
 */
#include "exporter/pages/flame.h"
#include "base/hash.h"
#include "exporter/pages/flame_builder.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define OTHERS_KEY     UINT64_MAX
#define FIRST_CAPACITY 256
#define STEPS_MAX      (1u << 20) /* beyond it, stacks become `others` */

int flame_open(struct flame *flame, enum flame_view view, size_t memory_bytes)
{
    *flame = (struct flame){.build = calloc(1, sizeof(*flame->build))};
    if (!flame->build)
        return -ENOMEM;
    flame->build->view = view;
    flame->build->memory_bytes = memory_bytes;
    arena_init(&flame->build->texts, memory_bytes);
    return 0;
}

void flame_close(struct flame *flame)
{
    struct flame_builder *build = flame->build;
    if (build) {
        arena_close(&build->texts);
        free(build->frames);
        free(build->slots);
        free(build->steps);
        free(build->stacks);
        free(build->nodes);
        free(build->functions);
        free(build->kept);
    }
    free(build);
    free(flame->frames);
    free(flame->nodes);
    *flame = (struct flame){0};
}

int flame_grow(struct flame_builder *build, void **items, size_t *cap, size_t wanted, size_t size)
{
    size_t new_cap = *cap ? *cap : FIRST_CAPACITY;
    if (wanted <= *cap)
        return 0;
    while (new_cap < wanted)
        new_cap *= 2;
    if ((new_cap - *cap) * size > build->memory_bytes - build->used_bytes)
        return -ENOMEM;
    void *grown = reallocarray(*items, new_cap, size);
    if (!grown)
        return -ENOMEM;
    build->used_bytes += (new_cap - *cap) * size;
    *items = grown;
    *cap = new_cap;
    return 0;
}

/* ---- frames ---- */

static uint32_t *find_slot(const struct flame_builder *build, uint64_t key)
{
    uint64_t hash = hash_mix(key);
    size_t slot = (size_t)(hash ^ hash >> 32) & (build->slots_cap - 1);
    while (build->slots[slot] && build->frames[build->slots[slot] - 1].key != key)
        slot = (slot + 1) & (build->slots_cap - 1);
    return &build->slots[slot];
}

/* At least half of the slots stay free. */
static int slots_room(struct flame_builder *build, size_t n)
{
    size_t before = build->slots_cap;
    int error = flame_grow(build, (void **)&build->slots, &build->slots_cap, 2 * (n + 1),
                           sizeof(*build->slots));
    if (error || build->slots_cap == before)
        return error;
    memset(build->slots, 0, build->slots_cap * sizeof(*build->slots));
    for (uint32_t i = 0; i < n; i++)
        *find_slot(build, build->frames[i].key) = i + 1;
    return 0;
}

static int copy_text(struct flame_builder *build, struct bytes *text)
{
    if (!text->len)
        return 0;
    text->data = arena_dup(&build->texts, text->data, text->len);
    return text->data ? 0 : -ENOMEM;
}

/* Appends to flame->frames and build->frames, at the same index. */
static int new_frame(struct flame *flame, const struct history_frame *frame)
{
    struct history_frame copy = *frame;
    struct flame_builder *build = flame->build;
    size_t n = flame->n_frames + 1, cap = build->frames_cap;
    int error = flame_grow(build, (void **)&flame->frames, &cap, n, sizeof(*flame->frames));
    if (!error)
        error = flame_grow(build, (void **)&build->frames, &build->frames_cap, n,
                           sizeof(*build->frames));
    if (!error)
        error = copy_text(build, &copy.function);
    if (!error)
        error = copy_text(build, &copy.file);
    if (!error)
        error = copy_text(build, &copy.module);
    if (error)
        return error;
    build->frames[flame->n_frames] = (struct flame_frame){.key = frame->key};
    flame->frames[flame->n_frames++] = copy;
    return 0;
}

static int find_frame(struct flame *flame, const struct history_frame *frame, uint32_t *index)
{
    int error = slots_room(flame->build, flame->n_frames);
    if (error)
        return error;
    uint32_t *slot = find_slot(flame->build, frame->key);
    if (!*slot) {
        error = new_frame(flame, frame);
        if (error)
            return error;
        *slot = (uint32_t)flame->n_frames;
    }
    *index = *slot - 1;
    return 0;
}

int flame_others(struct flame *flame, uint32_t *frame)
{
    const struct history_frame others = {
        .key = OTHERS_KEY, .function = BYTES_LIT("others"), .type = FLAME_OTHERS};
    return find_frame(flame, &others, frame);
}

/* ---- stacks ---- */

static void add_weight(struct flame_weight *to, struct flame_weight weight)
{
    to->ns += weight.ns;
    to->samples += weight.samples;
}

static void count_frame(struct flame *flame, uint32_t frame, bool leaf, struct flame_weight weight,
                        bool baseline)
{
    struct flame_frame *counted = &flame->build->frames[frame];
    struct flame_weights *weights = baseline ? &counted->base : &counted->weights;
    if (leaf)
        add_weight(&weights->self, weight);
    if (counted->stack != flame->build->n_stacks) /* else a recursive call, counted already */
        add_weight(&weights->total, weight);
    counted->stack = (uint32_t)flame->build->n_stacks;
}

static int add_functions(struct flame *flame, const struct history_frame *const *frames, size_t n,
                         struct flame_weight weight, bool baseline)
{
    int error = 0;
    uint32_t frame;
    flame->build->n_stacks++;
    for (size_t i = 0; !error && i < n; i++) {
        error = find_frame(flame, frames[i], &frame);
        if (!error)
            count_frame(flame, frame, i == 0, weight, baseline);
    }
    return error;
}

static int add_steps(struct flame *flame, const struct history_frame *const *frames, size_t n)
{
    struct flame_builder *build = flame->build;
    bool callees = build->view == FLAME_CALLEES;
    int error = flame_grow(build, (void **)&build->steps, &build->steps_cap, build->n_steps + n + 1,
                           sizeof(*build->steps));
    for (size_t i = 0; !error && i < n; i++)
        error = find_frame(flame, frames[callees ? n - 1 - i : i], &build->steps[build->n_steps++]);
    if (!error && !n)
        error = flame_others(flame, &build->steps[build->n_steps++]);
    return error;
}

void flame_only(struct flame *flame, enum history_frame_type type)
{
    assert(!flame->all.samples && !flame->base_all.samples);
    flame->build->only = true;
    flame->build->only_type = (uint8_t)type;
}

/* The frames of the stack that are shown, into build->kept. */
static int keep_only(struct flame_builder *build, const struct history_frame *const *frames,
                     size_t *n)
{
    size_t n_kept = 0;
    int error =
        flame_grow(build, (void **)&build->kept, &build->kept_cap, *n, sizeof(*build->kept));
    for (size_t i = 0; !error && i < *n; i++)
        if (frames[i]->type == build->only_type)
            build->kept[n_kept++] = frames[i];
    *n = n_kept;
    return error;
}

int flame_add(struct flame *flame, const struct history_frame *const *frames, size_t n,
              struct flame_weight weight, bool baseline)
{
    struct flame_builder *build = flame->build;
    assert(!flame->nodes);
    for (size_t i = 0; i < n; i++)
        flame->types |= 1u << frames[i]->type;
    if (build->only) {
        int error = keep_only(build, frames, &n);
        if (error || !n)
            return error;
        frames = build->kept;
    }
    add_weight(baseline ? &flame->base_all : &flame->all, weight);
    if (build->view == FLAME_FUNCTIONS)
        return add_functions(flame, frames, n, weight, baseline);
    if (build->n_steps + n > STEPS_MAX)
        n = 0;
    struct flame_stack stack = {
        .first = (uint32_t)build->n_steps, .baseline = baseline, .weight = weight};
    int error = flame_grow(build, (void **)&build->stacks, &build->stacks_cap, build->n_stacks + 1,
                           sizeof(*build->stacks));
    if (!error)
        error = add_steps(flame, frames, n);
    if (error)
        return error;
    stack.n = (uint32_t)build->n_steps - stack.first;
    build->stacks[build->n_stacks++] = stack;
    return 0;
}
