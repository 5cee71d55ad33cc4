/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names come some time after they were asked for: milliseconds mostly, seconds where the symbolizer
 * is busy. What left meanwhile would show addresses for ever. So it is noted which names are on
 * their way and which stacks have such; the samples of those stay. All of it is in memory alone:
 * after a restart or a rollback nobody knows what was asked, so nobody waits, and what is still in
 * use is asked for again.
 */
#include "base/stats.h"
#include "store/stacks/stacks_parts.h"
#include <errno.h>
#include <stdlib.h>

enum unnamed_why {
    UNNAMED_LATE,
    UNNAMED_ROOM,
    UNNAMED_FULL,
    UNNAMED_MEMORY,
    UNNAMED_STOPPING,
    UNNAMED_WHYS
};

static const char *const why_names[] = {[UNNAMED_LATE] = "late",
                                        [UNNAMED_ROOM] = "room",
                                        [UNNAMED_FULL] = "full",
                                        [UNNAMED_MEMORY] = "memory",
                                        [UNNAMED_STOPPING] = "stopping"};
STAT_LOSSES(left_unnamed, "spanprof_stacks_unnamed_total",
            "Stacks whose samples left before all names that were asked for had come, by reason.",
            STAT_LABEL("reason", why_names, UNNAMED_WHYS));
STAT_GAUGE(waiting_stacks, "spanprof_stacks_waiting_for_names",
           "Stacks whose samples wait for names that were asked for.");

struct name_key {
    int64_t executable;
    uint64_t address;
};

struct open_name { /* asked for, and not answered */
    struct name_key key;
    uint64_t asked_ns;
    struct list age;
};

struct waiting_stack {
    int64_t id;
};

void stacks_unnamed_open(struct stacks_unnamed *unnamed)
{
    MAP_INIT(&unnamed->names, struct open_name, key);
    list_init(&unnamed->ages);
    MAP_INIT(&unnamed->stacks, struct waiting_stack, id);
}

static void forget_name(struct stacks_unnamed *unnamed, struct open_name *name)
{
    map_remove(&unnamed->names, &name->key);
    list_remove(&name->age);
    free(name);
}

static void forget_stack(struct stacks_unnamed *unnamed, int64_t id)
{
    free(map_remove(&unnamed->stacks, &id));
    stat_set(&waiting_stacks, (int64_t)unnamed->stacks.count);
}

static void forget_stacks(struct stacks_unnamed *unnamed)
{
    struct waiting_stack *stack;
    for (size_t i = 0; (stack = map_next(&unnamed->stacks, &i));)
        forget_stack(unnamed, stack->id);
}

void stacks_unnamed_forget(struct stacks_unnamed *unnamed)
{
    struct list *link;
    while ((link = list_first(&unnamed->ages)))
        forget_name(unnamed, container_of(link, struct open_name, age));
    forget_stacks(unnamed);
}

void stacks_unnamed_close(struct stacks_unnamed *unnamed)
{
    stacks_unnamed_forget(unnamed);
    map_close(&unnamed->names);
    map_close(&unnamed->stacks);
}

static struct open_name *find_open(const struct stacks_unnamed *unnamed, const struct frame *frame)
{
    const struct name_key key = {frame->executable, frame->address};
    return frame->kind == STACK_FRAME_SPECIAL ? NULL : map_get(&unnamed->names, &key);
}

/* When the first of those was asked for that are still open; UINT64_MAX: there is none. */
static uint64_t oldest_open(const struct stacks_unnamed *unnamed, const struct frame *frames,
                            size_t n)
{
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < n && unnamed->names.count; i++) {
        const struct open_name *name = find_open(unnamed, &frames[i]);
        if (name && name->asked_ns < oldest)
            oldest = name->asked_ns;
    }
    return oldest;
}

static int put_name(struct stacks_unnamed *unnamed, const struct frame *frame, uint64_t asked_ns)
{
    if (find_open(unnamed, frame))
        return 0;
    if (unnamed->names.count >= STACKS_OPEN_NAMES_MAX)
        return -ENOSPC;
    struct open_name *name = malloc(sizeof(*name));
    if (!name)
        return -ENOMEM;
    *name = (struct open_name){.key = {frame->executable, frame->address}, .asked_ns = asked_ns};
    if (map_put(&unnamed->names, name, NULL)) {
        free(name);
        return -ENOMEM;
    }
    list_append(&unnamed->ages, &name->age);
    return 0;
}

static int put_stack(struct stacks_unnamed *unnamed, int64_t id)
{
    if (map_get(&unnamed->stacks, &id))
        return 0;
    if (unnamed->stacks.count >= STACKS_UNNAMED_MAX)
        return -ENOSPC;
    struct waiting_stack *stack = malloc(sizeof(*stack));
    if (!stack)
        return -ENOMEM;
    stack->id = id;
    if (map_put(&unnamed->stacks, stack, NULL)) {
        free(stack);
        return -ENOMEM;
    }
    stat_set(&waiting_stacks, (int64_t)unnamed->stacks.count);
    return 0;
}

static void count_not_waiting(int error)
{
    if (error)
        stat_add_of(&left_unnamed, error == -ENOSPC ? UNNAMED_FULL : UNNAMED_MEMORY, 1);
}

int stacks_name_asked(struct stacks *stacks, const struct frame *frame, uint64_t asked_ns)
{
    return put_name(&stacks->unnamed, frame, asked_ns);
}

void stacks_wait_for_names(struct stacks *stacks, int64_t id, const struct frame *frames, size_t n,
                           int not_asked)
{
    struct stacks_unnamed *unnamed = &stacks->unnamed;
    bool waits = oldest_open(unnamed, frames, n) != UINT64_MAX;
    count_not_waiting(not_asked || !waits ? not_asked : put_stack(unnamed, id));
}

void stacks_name_settled(struct stacks *stacks, int64_t executable, uint64_t address)
{
    const struct name_key key = {executable, address};
    struct open_name *name = map_get(&stacks->unnamed.names, &key);
    if (name)
        forget_name(&stacks->unnamed, name);
}

void stacks_unnamed_follow(struct stacks_unnamed *unnamed, int64_t id, int64_t same_as)
{
    if (unnamed->stacks.count && map_get(&unnamed->stacks, &same_as))
        count_not_waiting(put_stack(unnamed, id));
}

bool stacks_waits_for_names(const struct stacks *stacks, int64_t id)
{
    return stacks->unnamed.stacks.count && map_get(&stacks->unnamed.stacks, &id);
}

size_t stacks_waiting_for_names(const struct stacks *stacks)
{
    return stacks->unnamed.stacks.count;
}

void stacks_leave_unnamed(struct stacks *stacks, int64_t id)
{
    if (!stacks_waits_for_names(stacks, id))
        return;
    stat_add_of(&left_unnamed, UNNAMED_ROOM, 1);
    forget_stack(&stacks->unnamed, id);
}

void stacks_leave_all_unnamed(struct stacks *stacks)
{
    stat_add_of(&left_unnamed, UNNAMED_STOPPING, (int64_t)stacks->unnamed.stacks.count);
    forget_stacks(&stacks->unnamed);
}

/* Whether it has waited to the end. One that is gone has nothing to wait for. */
static int review(struct stacks *stacks, int64_t id, uint64_t asked_before_ns)
{
    const struct frame *frames = NULL;
    size_t n = 0;
    int error = stacks->unnamed.names.count ? stacks_frames(stacks, id, &frames, &n) : 0;
    if (error && error != -ENOENT)
        return error;
    uint64_t oldest = error ? UINT64_MAX : oldest_open(&stacks->unnamed, frames, n);
    bool named = oldest == UINT64_MAX;
    if (!named && oldest >= asked_before_ns)
        return 0;
    stat_add_of(&left_unnamed, UNNAMED_LATE, !named);
    forget_stack(&stacks->unnamed, id);
    return 0;
}

static size_t expire_names(struct stacks_unnamed *unnamed, uint64_t asked_before_ns)
{
    struct list *link, *tmp;
    size_t n = 0;
    list_each(link, tmp, &unnamed->ages)
    {
        struct open_name *name = container_of(link, struct open_name, age);
        if (name->asked_ns >= asked_before_ns)
            break;
        forget_name(unnamed, name);
        n++;
    }
    return n;
}

int stacks_expire_names(struct stacks *stacks, uint64_t asked_before_ns, size_t *n_late)
{
    struct waiting_stack *stack;
    int error = 0;
    for (size_t i = 0; !error && (stack = map_next(&stacks->unnamed.stacks, &i));)
        error = review(stacks, stack->id, asked_before_ns);
    *n_late = error ? 0 : expire_names(&stacks->unnamed, asked_before_ns);
    return error;
}
