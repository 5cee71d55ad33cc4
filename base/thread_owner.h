/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The thread that something belongs to, checked where it is used. An owner starts without a thread
 * (all zero). The first thread that claims it keeps it until it is released: then the next thread
 * may claim it. Use this where there is neither a loop nor a worker: see LOOP_THREAD() in
 * base/loop.h and WORKER_THREAD() in base/worker.h.
 *
 *     struct thing { struct thread_owner owner; ... };
 *
 *     int thing_write(struct thing *thing)      the first call decides on the thread
 *     {
 *         CLAIM_THREAD(&thing->owner);
 *     ...
 *     int thing_size(const struct thing *thing)
 *     {
 *         OWNER_THREAD(&thing->owner);
 *
 * A violation aborts, in every build. The cost is one load and one comparison, no call: a thread is
 * known by its thread pointer, which the compiler reads. Any thread.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct thread_owner {
    _Atomic(void *) thread; /* its thread pointer; NULL: no thread has claimed it */
};

/* Aborts if the owner has a thread and it is not this one. */
#define OWNER_THREAD(owner) assert(thread_owner_is_current(owner))
/* The same, and this thread is the owner's from here on. */
#define CLAIM_THREAD(owner) assert(thread_owner_claim(owner))

/* True on the owner's thread, and on any thread while no thread has claimed it. */
static inline bool thread_owner_is_current(const struct thread_owner *owner)
{
    void *thread = atomic_load_explicit(&owner->thread, memory_order_relaxed);
    return thread == __builtin_thread_pointer() || !thread;
}

/* Makes this thread the owner's. False if another thread has claimed it. */
static inline bool thread_owner_claim(struct thread_owner *owner)
{
    void *none = NULL, *self = __builtin_thread_pointer();
    return atomic_load_explicit(&owner->thread, memory_order_relaxed) == self ||
           atomic_compare_exchange_strong(&owner->thread, &none, self);
}

/* The next thread to claim it becomes the owner's. Call it on the owner's thread, or when that
 * thread has ended or cannot use the thing any more. */
static inline void thread_owner_release(struct thread_owner *owner)
{
    atomic_store(&owner->thread, NULL);
}
