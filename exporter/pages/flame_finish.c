/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each sorted stack shares a prefix with the stack before it; its other steps become new nodes.
 * Pruning removes light nodes. Since child <= parent in weight, the nodes that stay form a tree;
 * the removed children of a node become its child `others`.
 */
#include "exporter/pages/flame_builder.h"
#include <errno.h>
#include <stdlib.h>

static void add_weight(struct flame_weight *to, struct flame_weight weight)
{
    to->ns += weight.ns;
    to->samples += weight.samples;
}

static uint64_t flame_weights_heavier(const struct flame_weights *a, const struct flame_weights *b)
{
    return a->total.ns > b->total.ns ? a->total.ns : b->total.ns;
}

static uint64_t weight_of(const struct flame_node *node)
{
    return flame_weights_heavier(&node->weights, &node->base);
}

/* ---- the tree ---- */

static int by_steps(const void *left, const void *right, void *context)
{
    const struct flame_stack *a = left, *b = right;
    const uint32_t *steps = context;
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (steps[a->first + i] != steps[b->first + i])
            return steps[a->first + i] < steps[b->first + i] ? -1 : 1;
    return (a->n > b->n) - (a->n < b->n);
}

static uint32_t common_steps(const struct flame_builder *build, const struct flame_stack *a,
                             const struct flame_stack *b)
{
    uint32_t n = 0;
    while (n < a->n && n < b->n && build->steps[a->first + n] == build->steps[b->first + n])
        n++;
    return n;
}

static size_t count_nodes(const struct flame_builder *build, uint32_t *deepest)
{
    size_t n = 0;
    *deepest = 0;
    for (size_t i = 0; i < build->n_stacks; i++) {
        const struct flame_stack *stack = &build->stacks[i];
        n += stack->n - (i ? common_steps(build, stack - 1, stack) : 0);
        *deepest = stack->n > *deepest ? stack->n : *deepest;
    }
    return n;
}

/* path: nodes of the current stack, by depth. */
static void add_nodes(struct flame_builder *build, uint32_t *path)
{
    for (size_t i = 0; i < build->n_stacks; i++) {
        const struct flame_stack *stack = &build->stacks[i];
        for (uint32_t k = i ? common_steps(build, stack - 1, stack) : 0; k < stack->n; k++) {
            build->nodes[build->n_nodes] = (struct flame_node){
                .parent = k ? path[k - 1] : FLAME_NONE, .frame = build->steps[stack->first + k]};
            path[k] = (uint32_t)build->n_nodes++;
        }
        struct flame_node *leaf = &build->nodes[path[stack->n - 1]];
        add_weight(stack->baseline ? &leaf->base.self : &leaf->weights.self, stack->weight);
    }
}

/* more: reserves room for that many `others` nodes. */
static int make_tree(struct flame_builder *build, size_t more)
{
    uint32_t deepest;
    if (build->n_stacks)
        qsort_r(build->stacks, build->n_stacks, sizeof(*build->stacks), by_steps, build->steps);
    size_t n = count_nodes(build, &deepest);
    int error = flame_grow(build, (void **)&build->nodes, &build->nodes_cap, n + more + 1,
                           sizeof(*build->nodes));
    uint32_t *path = error ? NULL : calloc(deepest + 1, sizeof(*path));
    if (!path)
        return -ENOMEM;
    add_nodes(build, path);
    free(path);
    return 0;
}

static void sum_totals(struct flame_builder *build)
{
    for (size_t i = build->n_nodes; i-- > 0;) {
        struct flame_node *node = &build->nodes[i];
        add_weight(&node->weights.total, node->weights.self);
        add_weight(&node->base.total, node->base.self);
        if (node->parent == FLAME_NONE)
            continue;
        struct flame_node *parent = &build->nodes[node->parent];
        add_weight(&parent->weights.total, node->weights.total);
        add_weight(&parent->base.total, node->base.total);
    }
}

/* ---- pruning ---- */

static void finish_swap(uint64_t *a, uint64_t *b)
{
    uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* The k-th largest value, k from 0; reorders values. */
static uint64_t select_largest(uint64_t *values, size_t n, size_t k)
{
    size_t from = 0, to = n;
    while (to - from > 1) {
        uint64_t pivot = values[from + (to - from) / 2];
        size_t larger = from, i = from, smaller = to;
        while (i < smaller) {
            if (values[i] > pivot)
                finish_swap(&values[i++], &values[larger++]);
            else if (values[i] < pivot)
                finish_swap(&values[i], &values[--smaller]);
            else
                i++;
        }
        if (k < larger)
            to = larger;
        else if (k >= smaller)
            from = smaller;
        else
            return pivot;
    }
    return values[from];
}

/* *least: nodes at least this heavy stay; at most max nodes do. */
static int flame_builder_threshold(const struct flame_builder *build, size_t max, uint64_t *least)
{
    *least = 0;
    if (build->n_nodes <= max)
        return 0;
    uint64_t *values = malloc(build->n_nodes * sizeof(*values));
    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i < build->n_nodes; i++)
        values[i] = weight_of(&build->nodes[i]);
    *least = select_largest(values, build->n_nodes, max) +
             1; /* nodes of equal weight are removed, too */
    free(values);
    return 0;
}

/* The `others` child of parent, created if missing. rest[parent]: its index + 1; the last entry is
 * for the roots. */
static struct flame_node *rest_of(struct flame_builder *build, uint32_t parent, uint32_t others,
                                  uint32_t *rest, size_t n)
{
    uint32_t *slot = &rest[parent == FLAME_NONE ? n : parent];
    if (!*slot) {
        build->nodes[build->n_nodes++] = (struct flame_node){.parent = parent, .frame = others};
        *slot = (uint32_t)build->n_nodes;
    }
    return &build->nodes[*slot - 1];
}

static void prune_into(struct flame_builder *build, uint64_t least, uint32_t others, uint32_t *rest)
{
    size_t n = build->n_nodes;
    for (uint32_t i = 0; i < n; i++)
        if (build->nodes[i].frame == others) /* a root: stacks without frames */
            rest[n] = i + 1;
    for (size_t i = 0; i < n; i++) {
        const struct flame_node node = build->nodes[i];
        bool edge = node.parent == FLAME_NONE || weight_of(&build->nodes[node.parent]) >= least;
        if (node.frame == others || weight_of(&node) >= least || !edge)
            continue;
        struct flame_node *to = rest_of(build, node.parent, others, rest, n);
        add_weight(&to->weights.self, node.weights.total);
        add_weight(&to->weights.total, node.weights.total);
        add_weight(&to->base.self, node.base.total);
        add_weight(&to->base.total, node.base.total);
    }
}

/* A removed node whose parent stays adds its weight to the parent's `others`. */
static int flame_prune(struct flame *flame, uint64_t least)
{
    uint32_t others, *rest = calloc(flame->build->n_nodes + 1, sizeof(*rest));
    int error = rest ? flame_others(flame, &others) : -ENOMEM;
    if (!error)
        prune_into(flame->build, least, others, rest);
    free(rest);
    return error;
}

/* ---- order ---- */

struct place {
    uint32_t parent, node; /* of build */
    uint64_t weight;
    struct bytes name;
};

static int compare_bytes(struct bytes a, struct bytes b)
{
    int order = a.len && b.len ? memcmp(a.data, b.data, a.len < b.len ? a.len : b.len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Sorts by parent, roots last; then heaviest first. */
static int by_place(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    int order = compare_bytes(a->name, b->name);
    return order ? order : (a->node > b->node) - (a->node < b->node);
}

static bool flame_stays(const struct flame *flame, const struct flame_node *node, uint64_t least,
                        uint32_t others)
{
    const struct flame_builder *build = flame->build;
    bool hangs = node->parent == FLAME_NONE || weight_of(&build->nodes[node->parent]) >= least;
    return weight_of(node) >= least || (node->frame == others && hangs);
}

static size_t list_places(const struct flame *flame, uint64_t least, uint32_t others,
                          struct place *places)
{
    size_t n = 0;
    for (uint32_t i = 0; i < flame->build->n_nodes; i++) {
        const struct flame_node *node = &flame->build->nodes[i];
        if (flame_stays(flame, node, least, others))
            places[n++] = (struct place){.parent = node->parent,
                                         .node = i,
                                         .weight = weight_of(node),
                                         .name = flame->frames[node->frame].function};
    }
    qsort(places, n, sizeof(*places), by_place);
    return n;
}

/* first[node]: the place of the node's first child; n: no child. */
static void index_places(const struct place *places, size_t n, uint32_t *first, size_t n_nodes)
{
    for (size_t i = 0; i < n_nodes; i++)
        first[i] = (uint32_t)n;
    for (size_t i = n; i-- > 0;)
        if (places[i].parent != FLAME_NONE)
            first[places[i].parent] = (uint32_t)i;
}

/* Depth first without a stack: go to the first child; if there is none, to the next sibling of the
 * node or of its nearest ancestor that has one. at[]: the place of each node of the result. */
static void write_preorder(struct flame *flame, const struct place *places, size_t n,
                           const uint32_t *first, uint32_t *at)
{
    size_t root = n;
    while (root && places[root - 1].parent == FLAME_NONE)
        root--;
    uint32_t parent = FLAME_NONE, place = (uint32_t)root;
    while (place < n) {
        const struct place *here = &places[place];
        struct flame_node *node = &flame->nodes[flame->n_nodes];
        *node = flame->build->nodes[here->node];
        node->parent = parent;
        at[flame->n_nodes] = place;
        uint32_t child = first[here->node];
        if (child < n) {
            parent = (uint32_t)flame->n_nodes++;
            place = child;
            continue;
        }
        flame->n_nodes++;
        while (place + 1 == n || places[place + 1].parent != places[place].parent) {
            if (parent == FLAME_NONE)
                return;
            place = at[parent];
            parent = flame->nodes[parent].parent;
        }
        place++;
    }
}

int flame_finish(struct flame *flame, size_t max_nodes)
{
    struct flame_builder *build = flame->build;
    uint64_t least;
    uint32_t others = FLAME_NONE;
    int error = make_tree(build, max_nodes / 2 + 1);
    if (error)
        return error;
    sum_totals(build);
    error = flame_builder_threshold(build, max_nodes / 2, &least);
    if (!error && least)
        error = flame_prune(flame, least);
    if (!error && least)
        error = flame_others(flame, &others);
    if (error || !build->n_nodes)
        return error;
    struct place *places = malloc(build->n_nodes * sizeof(*places));
    uint32_t *first = malloc(2 * build->n_nodes * sizeof(*first));
    size_t n = places && first ? list_places(flame, least, others, places) : 0;
    flame->nodes = places && first ? malloc((n ? n : 1) * sizeof(*flame->nodes)) : NULL;
    if (flame->nodes) {
        index_places(places, n, first, build->n_nodes);
        write_preorder(flame, places, n, first, first + build->n_nodes);
    }
    free(places);
    free(first);
    return flame->nodes ? 0 : -ENOMEM;
}

/* ---- functions ---- */

struct order {
    const struct history_frame *frames;
    bool by_total, baseline;
};

static uint64_t function_weight(const struct flame_function *function, const struct order *order)
{
    const struct flame_weights *weights = order->baseline ? &function->base : &function->weights;
    return order->by_total ? weights->total.ns : weights->self.ns;
}

static uint64_t other_weight(const struct flame_function *function, const struct order *order)
{
    const struct flame_weights *weights = order->baseline ? &function->base : &function->weights;
    return order->by_total ? weights->self.ns : weights->total.ns;
}

static int by_weight(const void *left, const void *right, void *context)
{
    const struct flame_function *a = left, *b = right;
    const struct order *order = context;
    uint64_t x = function_weight(a, order), y = function_weight(b, order);
    if (x == y) {
        x = other_weight(a, order);
        y = other_weight(b, order);
    }
    if (x != y)
        return x > y ? -1 : 1;
    int names = compare_bytes(order->frames[a->frame].function, order->frames[b->frame].function);
    return names ? names : (a->frame > b->frame) - (a->frame < b->frame);
}

static void flame_function_rank(struct flame_function *functions, size_t n, struct order *order)
{
    qsort_r(functions, n, sizeof(*functions), by_weight, order);
    for (uint32_t i = 0; i < n; i++) {
        const struct flame_weights *weights =
            order->baseline ? &functions[i].base : &functions[i].weights;
        uint32_t place = weights->total.ns ? i + 1 : 0;
        if (order->baseline)
            functions[i].base_rank = place;
        else
            functions[i].rank = place;
    }
}

int flame_functions(struct flame *flame, bool by_total, const struct flame_function **functions,
                    size_t *n)
{
    struct order order = {.frames = flame->frames, .by_total = by_total};
    struct flame_builder *build = flame->build;
    free(build->functions);
    build->functions = calloc(flame->n_frames + 1, sizeof(*build->functions));
    if (!build->functions)
        return -ENOMEM;
    *n = 0;
    for (uint32_t i = 0; i < flame->n_frames; i++)
        if (flame->frames[i].type < HISTORY_FRAME_TRUNCATED)
            build->functions[(*n)++] = (struct flame_function){
                .frame = i, .weights = build->frames[i].weights, .base = build->frames[i].base};
    if (flame->base_all.ns) {
        order.baseline = true;
        flame_function_rank(build->functions, *n, &order);
        order.baseline = false;
    }
    flame_function_rank(build->functions, *n, &order);
    *functions = build->functions;
    return 0;
}
