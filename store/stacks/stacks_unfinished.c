/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stored sample refers to its stack by rowid, and the sampling tick cannot always unwind to the
 * end. So a stack with open frames has its own row, which later refers to the finished stack that
 * it equals. The row's hash is random, so no other sample gets the row.
 *
 * Names arrive some time after the request: usually milliseconds, seconds while the symbolizer is
 * busy. A sample exported before its names arrive would show addresses forever.
 *
 * Invariants: a stack is in the map iff it has open frames or open names; n_open[what] = number of
 * stacks open in way `what` = the gauge; a stack is in the list of ages iff its frames are open.
 */
#include "store/stacks/stacks_unfinished.h"
#include "base/stats.h"
#include "store/stacks/stacks_state.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

static const char *const open_names[] = {
    [STACK_OPEN_FRAMES] = "frames", [STACK_OPEN_NAMES] = "names"};
static const char *const result_names[] = {
    [STACK_FINISHED] = "finished",   [STACK_LATE] = "late",
    [STACK_FORGOTTEN] = "forgotten", [STACK_ROLLED_BACK] = "rolled_back",
    [STACK_NO_ROOM] = "room",        [STACK_FULL] = "full",
    [STACK_NO_MEMORY] = "memory",    [STACK_PROCESS_UNKNOWN] = "process_unknown",
    [STACK_STOPPING] = "stopping",
};

#define SERIES(what, result) STAT_BIT(STACK_OPEN_##what *STACK_RESULTS + STACK_##result)
/* A truncated stack whose frames were never open is counted by spanprof_stacks_truncated_total
 * instead. */
#define FRAMES_LOST (SERIES(FRAMES, LATE) | SERIES(FRAMES, FORGOTTEN) | SERIES(FRAMES, ROLLED_BACK))
#define NAMES_LOST                                                                                 \
    (SERIES(NAMES, LATE) | SERIES(NAMES, NO_ROOM) | SERIES(NAMES, FULL) |                          \
     SERIES(NAMES, NO_MEMORY) | SERIES(NAMES, STOPPING))
#define NEVER (SERIES(FRAMES, NO_ROOM) | SERIES(FRAMES, STOPPING) | SERIES(NAMES, PROCESS_UNKNOWN))

STAT_COUNTERS(results, "spanprof_stacks_unfinished_total",
              "Stacks of which frames (the end of the walk, or names of code without a file) or "
              "names of functions were to be asked for, by how that ended.",
              STAT_LABELS("what", open_names, STACK_OPENS, "result", result_names, STACK_RESULTS),
              .losses = FRAMES_LOST | NAMES_LOST, .absent = NEVER);
STAT_GAUGES(unfinished_stacks, "spanprof_stacks_unfinished",
            "Stacks whose samples wait for an answer of the symbolizer, by what is open.",
            STAT_LABEL("what", open_names, STACK_OPENS));

struct unfinished_stack {
    int64_t id;
    uint8_t open;      /* 1 << enum stack_open */
    uint64_t asked_ns; /* when its frames were requested */
    struct list age;
};

struct name_key {
    int64_t executable;
    uint64_t address;
};

struct open_name { /* requested, not answered */
    struct name_key key;
    uint64_t asked_ns;
    struct list age;
};

/* ---- what is open ---- */

void stacks_unfinished_open(struct stacks_unfinished *unfinished)
{
    MAP_INIT(&unfinished->stacks, struct unfinished_stack, id);
    MAP_INIT(&unfinished->names, struct open_name, key);
    list_init(&unfinished->ages);
    list_init(&unfinished->name_ages);
}

static bool stack_is_open(const struct unfinished_stack *stack, enum stack_open what)
{
    return stack && stack->open >> what & 1;
}

/* NULL: the stack is not unfinished. */
static struct unfinished_stack *stack_find(const struct stacks_unfinished *unfinished, int64_t id)
{
    return unfinished->stacks.count ? map_get(&unfinished->stacks, &id) : NULL;
}

static void opened_add(struct stacks_unfinished *unfinished, enum stack_open what, int delta)
{
    assert(delta > 0 || unfinished->n_open[what] > 0);
    unfinished->n_open[what] += (size_t)delta;
    assert(unfinished->n_open[what] <= unfinished->stacks.count);
    stat_set_of(&unfinished_stacks, what, (int64_t)unfinished->n_open[what]);
}

/* NULL: no memory. */
static struct unfinished_stack *stack_open(struct stacks_unfinished *unfinished, int64_t id,
                                           enum stack_open what)
{
    struct unfinished_stack *stack = stack_find(unfinished, id);
    if (!stack) {
        stack = calloc(1, sizeof(*stack));
        if (!stack)
            return NULL;
        stack->id = id;
        if (map_put(&unfinished->stacks, stack, NULL)) {
            free(stack);
            return NULL;
        }
    }
    assert(!stack_is_open(stack, what));
    stack->open |= (uint8_t)(1 << what);
    opened_add(unfinished, what, 1);
    return stack;
}

/* Frees the stack if it is not open in the other way. */
static void stack_close(struct stacks_unfinished *unfinished, struct unfinished_stack *stack,
                        enum stack_open what)
{
    assert(stack_is_open(stack, what));
    assert(list_linked(&stack->age) == stack_is_open(stack, STACK_OPEN_FRAMES));
    opened_add(unfinished, what, -1);
    stack->open &= (uint8_t) ~(1 << what);
    if (what == STACK_OPEN_FRAMES)
        list_remove(&stack->age);
    if (stack->open)
        return;
    map_remove(&unfinished->stacks, &stack->id);
    free(stack);
}

static void stack_end(struct stacks_unfinished *unfinished, struct unfinished_stack *stack,
                      enum stack_open what, enum stack_result result)
{
    stat_add_of2(&results, what, result, 1);
    stack_close(unfinished, stack, what);
}

static void name_free(struct stacks_unfinished *unfinished, struct open_name *name)
{
    map_remove(&unfinished->names, &name->key);
    list_remove(&name->age);
    free(name);
    unfinished->names_closed = true;
}

static void names_end(struct stacks_unfinished *unfinished, enum stack_result result)
{
    struct unfinished_stack *stack;
    for (size_t i = 0; (stack = map_next(&unfinished->stacks, &i));)
        if (stack_is_open(stack, STACK_OPEN_NAMES))
            stack_end(unfinished, stack, STACK_OPEN_NAMES, result);
    assert(unfinished->n_open[STACK_OPEN_NAMES] == 0);
}

void stacks_unfinished_forget(struct stacks_unfinished *unfinished)
{
    struct list *link;
    while ((link = list_first(&unfinished->name_ages)))
        name_free(unfinished, container_of(link, struct open_name, age));
    names_end(unfinished, STACK_ROLLED_BACK);
    while ((link = list_first(&unfinished->ages)))
        stack_end(unfinished, container_of(link, struct unfinished_stack, age), STACK_OPEN_FRAMES,
                  STACK_ROLLED_BACK);
    assert(unfinished->stacks.count == 0 && unfinished->names.count == 0);
}

void stacks_unfinished_close(struct stacks_unfinished *unfinished)
{
    struct unfinished_stack *stack;
    struct list *link;
    while ((link = list_first(&unfinished->name_ages)))
        name_free(unfinished, container_of(link, struct open_name, age));
    for (size_t i = 0; (stack = map_next(&unfinished->stacks, &i));) {
        map_remove(&unfinished->stacks, &stack->id);
        free(stack);
    }
    for (int what = 0; what < STACK_OPENS; what++)
        stat_set_of(&unfinished_stacks, (unsigned)what, 0);
    map_close(&unfinished->stacks);
    map_close(&unfinished->names);
}

bool stacks_is_unfinished(const struct stacks *stacks, int64_t id)
{
    WRITER_THREAD(stacks->db);
    return stack_find(&stacks->unfinished, id) != NULL;
}

bool stacks_has_open_frames(const struct stacks *stacks, int64_t id)
{
    WRITER_THREAD(stacks->db);
    return stacks->unfinished.n_open[STACK_OPEN_FRAMES] &&
           stack_is_open(stack_find(&stacks->unfinished, id), STACK_OPEN_FRAMES);
}

size_t stacks_unfinished_count(const struct stacks *stacks, enum stack_open what)
{
    WRITER_THREAD(stacks->db);
    return stacks->unfinished.n_open[what];
}

/* ---- frames ---- */

static struct cached_stack *intern_entry_cached(struct intern_entry *entry)
{
    return container_of(entry, struct cached_stack, entry);
}

void stacks_frames_not_opened(enum stack_result why)
{
    stat_add_of2(&results, STACK_OPEN_FRAMES, why, 1);
}

int stacks_open_frames(struct stacks *stacks, const struct frame *frames, size_t n,
                       uint64_t asked_ns, int64_t *id)
{
    WRITER_THREAD(stacks->db);
    uint8_t hash[16];
    struct intern_entry *entry;
    int error = stacks_encode(stacks, frames, n);
    error = error ? error : stacks_use_parts(stacks, frames, n);
    if (error)
        return error;
    if (getrandom(hash, sizeof(hash), 0) != sizeof(hash))
        return -errno;
    int use = intern_key(&stacks->rows, hash, buf_bytes(&stacks->scratch.buf), &entry);
    if (use < 0)
        return use;
    intern_entry_cached(entry)->same_known = true;
    *id = entry->id;
    struct unfinished_stack *stack = stack_open(&stacks->unfinished, *id, STACK_OPEN_FRAMES);
    if (!stack) {
        db_fail(stacks->db, -ENOMEM);
        return -ENOMEM;
    }
    stack->asked_ns = asked_ns;
    list_append(&stacks->unfinished.ages, &stack->age);
    return 0;
}

void stacks_close_frames(struct stacks *stacks, int64_t id, enum stack_result why)
{
    WRITER_THREAD(stacks->db);
    if (stacks_has_open_frames(stacks, id))
        stack_end(&stacks->unfinished, stack_find(&stacks->unfinished, id), STACK_OPEN_FRAMES, why);
}

static void count_not_waiting(int error)
{
    if (error)
        stat_add_of2(&results, STACK_OPEN_NAMES, error == -ENOSPC ? STACK_FULL : STACK_NO_MEMORY,
                     1);
}

static int names_open(struct stacks_unfinished *unfinished, int64_t id)
{
    if (stack_is_open(stack_find(unfinished, id), STACK_OPEN_NAMES))
        return 0;
    if (unfinished->n_open[STACK_OPEN_NAMES] >= STACKS_UNFINISHED_MAX)
        return -ENOSPC;
    return stack_open(unfinished, id, STACK_OPEN_NAMES) ? 0 : -ENOMEM;
}

static int set_same(struct stacks *stacks, int64_t id, int64_t same_as)
{
    struct intern_entry *entry;
    int error = intern_id(&stacks->rows, id, &entry);
    if (error)
        return error;
    sqlite3_bind_int64(stacks->set_same, 1, id);
    sqlite3_bind_int64(stacks->set_same, 2, same_as);
    error = db_run(stacks->db, stacks->set_same);
    if (error)
        return error;
    intern_entry_cached(entry)->same_known = true;
    intern_entry_cached(entry)->same_as = same_as;
    return 0;
}

int stacks_finish_frames(struct stacks *stacks, int64_t id, int64_t same_as)
{
    WRITER_THREAD(stacks->db);
    struct stacks_unfinished *unfinished = &stacks->unfinished;
    if (!stacks_has_open_frames(stacks, id))
        return -ENOENT;
    int error = set_same(stacks, id, same_as);
    if (!error && stack_is_open(stack_find(unfinished, same_as), STACK_OPEN_NAMES))
        count_not_waiting(
            names_open(unfinished, id)); /* id now waits for the same names as same_as */
    if (!error || error == -ENOENT)
        stacks_close_frames(stacks, id, error ? STACK_FORGOTTEN : STACK_FINISHED);
    return error; /* database error: the rollback closes the frames */
}

/* ---- names ---- */

static struct open_name *name_find(const struct stacks_unfinished *unfinished,
                                   const struct frame *frame)
{
    const struct name_key key = {frame->executable, frame->address};
    return frame->kind == STACK_FRAME_SPECIAL ? NULL : map_get(&unfinished->names, &key);
}

/* Time of the oldest open request among the frames' names; UINT64_MAX: no name is open. */
static uint64_t oldest_open(const struct stacks_unfinished *unfinished, const struct frame *frames,
                            size_t n)
{
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < n && unfinished->names.count; i++) {
        const struct open_name *name = name_find(unfinished, &frames[i]);
        if (name && name->asked_ns < oldest)
            oldest = name->asked_ns;
    }
    return oldest;
}

int stacks_open_name(struct stacks *stacks, const struct frame *frame, uint64_t asked_ns)
{
    WRITER_THREAD(stacks->db);
    struct stacks_unfinished *unfinished = &stacks->unfinished;
    if (name_find(unfinished, frame))
        return 0;
    if (unfinished->names.count >= STACKS_OPEN_NAMES_MAX)
        return -ENOSPC;
    struct open_name *name = malloc(sizeof(*name));
    if (!name)
        return -ENOMEM;
    *name = (struct open_name){.key = {frame->executable, frame->address}, .asked_ns = asked_ns};
    if (map_put(&unfinished->names, name, NULL)) {
        free(name);
        return -ENOMEM;
    }
    list_append(&unfinished->name_ages, &name->age);
    return 0;
}

void stacks_close_name(struct stacks *stacks, int64_t executable, uint64_t address)
{
    WRITER_THREAD(stacks->db);
    const struct name_key key = {executable, address};
    struct open_name *name = map_get(&stacks->unfinished.names, &key);
    if (name)
        name_free(&stacks->unfinished, name);
}

void stacks_open_names(struct stacks *stacks, int64_t id, const struct frame *frames, size_t n,
                       int not_opened)
{
    WRITER_THREAD(stacks->db);
    bool waits = oldest_open(&stacks->unfinished, frames, n) != UINT64_MAX;
    count_not_waiting(not_opened || !waits ? not_opened : names_open(&stacks->unfinished, id));
}

/* ---- leaving ---- */

void stacks_leave_unfinished(struct stacks *stacks, int64_t id)
{
    WRITER_THREAD(stacks->db);
    struct unfinished_stack *stack = stack_find(&stacks->unfinished, id);
    if (stack_is_open(stack, STACK_OPEN_NAMES))
        stack_end(&stacks->unfinished, stack, STACK_OPEN_NAMES, STACK_NO_ROOM);
}

void stacks_stop_waiting_for_names(struct stacks *stacks)
{
    WRITER_THREAD(stacks->db);
    names_end(&stacks->unfinished, STACK_STOPPING);
}

/* ---- expiry ---- */

static void frames_expire(struct stacks_unfinished *unfinished, uint64_t deadline_ns)
{
    struct list *link;
    while ((link = list_first(&unfinished->ages))) {
        struct unfinished_stack *stack = container_of(link, struct unfinished_stack, age);
        if (stack->asked_ns > deadline_ns)
            break;
        stack_end(unfinished, stack, STACK_OPEN_FRAMES, STACK_LATE);
    }
}

/* Ends the waiting of a stack if no name is open, or if one of its names is late. */
static int names_review(struct stacks *stacks, struct unfinished_stack *stack, uint64_t deadline_ns)
{
    const struct frame *frames = NULL;
    size_t n = 0;
    int error = stacks->unfinished.names.count ? stacks_frames(stacks, stack->id, &frames, &n) : 0;
    if (error && error != -ENOENT)
        return error;
    uint64_t oldest = error ? UINT64_MAX : oldest_open(&stacks->unfinished, frames, n);
    bool named = oldest == UINT64_MAX;
    if (!named && oldest > deadline_ns)
        return 0;
    stack_end(&stacks->unfinished, stack, STACK_OPEN_NAMES,
              error   ? STACK_FORGOTTEN
              : named ? STACK_FINISHED
                      : STACK_LATE);
    return 0;
}

/* NULL: no name is late. */
static struct open_name *name_late(const struct stacks_unfinished *unfinished, uint64_t deadline_ns)
{
    struct list *first = list_first(&unfinished->name_ages);
    struct open_name *name = first ? container_of(first, struct open_name, age) : NULL;
    return name && name->asked_ns <= deadline_ns ? name : NULL;
}

static int names_expire(struct stacks *stacks, uint64_t deadline_ns, size_t *n_late)
{
    struct stacks_unfinished *unfinished = &stacks->unfinished;
    struct unfinished_stack *stack;
    struct open_name *name;
    if (!unfinished->names_closed && !name_late(unfinished, deadline_ns))
        return 0; /* nothing has changed since the last review */
    for (size_t i = 0; (stack = map_next(&unfinished->stacks, &i));) {
        int error =
            stack_is_open(stack, STACK_OPEN_NAMES) ? names_review(stacks, stack, deadline_ns) : 0;
        if (error)
            return error;
    }
    for (; (name = name_late(unfinished, deadline_ns)); ++*n_late)
        name_free(unfinished, name);
    unfinished->names_closed = false;
    return 0;
}

int stacks_expire_unfinished(struct stacks *stacks, const struct stacks_deadlines *deadlines,
                             size_t *n_late)
{
    WRITER_THREAD(stacks->db);
    *n_late = 0;
    frames_expire(&stacks->unfinished, deadlines->frames_ns);
    return names_expire(stacks, deadlines->names_ns, n_late);
}

/* ---- rows that are the same as another ---- */

static int read_same(struct stacks *stacks, struct cached_stack *stack)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->get_same;
    sqlite3_bind_int64(row, 1, stack->entry.id);
    int outcome = db_step(stacks->db, row);
    if (outcome <= 0)
        return outcome ? outcome : -ENOENT;
    stack->same_as = sqlite3_column_int64(row, 0); /* NULL: 0 */
    stack->same_known = true;
    return 0;
}

int stacks_canonical(struct stacks *stacks, int64_t id, int64_t *canonical)
{
    WRITER_THREAD(stacks->db);
    struct intern_entry *entry;
    *canonical = id;
    int error = intern_id(&stacks->rows, id, &entry);
    if (!error && !intern_entry_cached(entry)->same_known)
        error = read_same(stacks, intern_entry_cached(entry));
    if (!error && intern_entry_cached(entry)->same_as)
        *canonical = intern_entry_cached(entry)->same_as;
    return error;
}

static int find_same(struct stacks *stacks, const struct id_set *referred, struct id_set *found)
{
    sqlite3_stmt *row _cleanup_reset_ = stacks->walk_same;
    int outcome;
    while ((outcome = db_step(stacks->db, row)) == 1) {
        if (!id_set_has(referred, sqlite3_column_int64(row, 0)))
            continue;
        int error = id_set_add(found, sqlite3_column_int64(row, 1));
        if (error)
            return error;
    }
    return outcome;
}

int stacks_add_same(struct stacks *stacks, struct id_set *referred)
{
    struct id_set found = {0};
    int error = find_same(stacks, referred, &found);
    for (size_t i = 0; i < found.count && !error; i++)
        error = id_set_add(referred, found.ids[i]);
    id_set_seal(referred);
    id_set_close(&found);
    if (error == -ENOMEM)
        db_fail(stacks->db, error);
    return error;
}
