/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Reads the control frames of a thread's Ruby code, leaf first, as words of record.h: one source
 * for the tick, which reads them all while the thread is stopped, and for user space, where it is
 * tested. The includer first defines step_read(out, size, address): 0, or nonzero if the memory
 * cannot be read. They are an array at the end of the thread's (or fiber's) VM stack, the innermost
 * first; a frame whose environment says FINISH was the first of an activation of vm_exec(). The
 * memory may hold anything: each call reads a bounded number of structures, and the array ends.
 */
#include "agent-bpf/runtimes/ruby_process.h"
#include "agent-bpf/thread_local_address.h"

#define RUBY_STACK_WORDS_MAX (1u << 27) /* of a VM stack */

struct ruby_list {
    struct runtime_list_next next;
    __u64 frame; /* the next one */
    __u64 end;   /* of the array */
    __u32 open;  /* the last frame was not the first of an activation */
    __u64 label[RUBY_LABEL_BYTES / 8];
    __u64 bytes[RUBY_READ_MAX / 8]; /* the structure that was read last */
};

struct ruby_env {
    __u64 method; /* or what leads to it */
    __u64 outer;
    __u64 flags;
};

#define RUBY_INLINE static inline __attribute__((always_inline))

/* Before 3.0 a thread knows its context only while it holds the lock. 0: it has none. */
RUBY_INLINE __u64 ruby_list_context(const struct ruby_process *process, __u64 tp)
{
    __u64 context = 0, thread = 0, native = 0;
    __u64 at = process->current.thread_local_model ? thread_local_address(&process->current, tp)
                                                   : process->holder;
    if (!at || step_read(&context, sizeof(context), at) || context & 7)
        return 0;
    if (!context || process->current.thread_local_model)
        return context;
    if (step_read(&thread, sizeof(thread), context + process->ec_thread) ||
        step_read(&native, sizeof(native), thread + process->thread_native) || native != tp)
        return 0;
    return context;
}

/* tp: the thread pointer. END: it is no thread of Ruby's, or has no frames. */
RUBY_INLINE int ruby_list_begin(const struct ruby_process *process, __u64 tp,
                                struct ruby_list *list)
{
    __u64 context = ruby_list_context(process, tp);
    list->next.n_words = 0;
    list->frame = list->end = 0;
    list->open = 0;
    if (!context)
        return RUNTIME_LIST_END;
    if (step_read(list->bytes, 24, context))
        return RUNTIME_LIST_UNREADABLE;
    __u64 stack = list->bytes[0], words = list->bytes[1], frame = list->bytes[2];
    if (!stack || !frame) /* it begins, or has ended */
        return RUNTIME_LIST_END;
    __u64 end = stack + words * 8;
    if (stack & 7 || frame & 7 || words > RUBY_STACK_WORDS_MAX || frame < stack || frame > end)
        return RUNTIME_LIST_UNREADABLE;
    list->frame = frame;
    list->end = end;
    return RUNTIME_LIST_GOES_ON;
}

/* The method of a block is in the outermost environment, or in one where a method was defined by
 * it, which looks the same from here: the caller tells. */
RUBY_INLINE __u64 ruby_list_method(struct ruby_env env)
{
    for (int i = 0; i < RUBY_ENVS_MAX; i++) {
        if (env.flags & RUBY_ENV_LOCAL)
            break;
        __u64 outer = env.outer & ~3ULL;
        if (!outer || outer & 7 || step_read(&env, sizeof(env), outer - 16))
            return 0;
    }
    return env.flags & RUBY_ENV_LOCAL && !(env.method & 7) ? env.method : 0;
}

/* False: its objects cannot be read, or are none. */
RUBY_INLINE _Bool ruby_list_take(struct ruby_list *list, __u64 iseq, __u64 pc,
                                 const struct ruby_env *env)
{
    __u64 body = 0;
    if (step_read(&body, sizeof(body), iseq + RUBY_ISEQ_BODY) || !body || body & 7 ||
        step_read(list->bytes, RUBY_BODY_BYTES, body) ||
        step_read(list->label, RUBY_LABEL_BYTES, list->bytes[RUBY_BODY_LABEL / 8]))
        return 0;
    __u64 position = (pc - list->bytes[RUBY_BODY_CODE / 8]) / 8;
    if (position > list->bytes[0] >> 32)
        position = RUBY_POSITION_NONE;
    list->next.words[0] = (__u64)FRAME_RUBY << RECORD_FRAME_SHIFT | (iseq & RECORD_FRAME_MASK);
    list->next.words[1] =
        (__u64)ruby_identity(body, list->bytes, list->label) << 32 | (__u32)position;
    list->next.words[2] = ruby_list_method(*env);
    list->next.n_words = 3;
    return 1;
}

RUBY_INLINE _Bool ruby_list_take_cfunc(struct ruby_list *list, const struct ruby_env *env)
{
    if (env->method & 7 || step_read(list->bytes, RUBY_METHOD_BYTES, env->method))
        return 0;
    list->next.words[0] = (__u64)FRAME_RUBY << RECORD_FRAME_SHIFT;
    list->next.words[1] = (__u64)ruby_method_identity(list->bytes) << 32 | RUBY_POSITION_NONE;
    list->next.words[2] = env->method;
    list->next.n_words = 3;
    return 1;
}

RUBY_INLINE void ruby_list_leave(struct ruby_list *list, __u64 address)
{
    list->next.words[list->next.n_words++ & (RUNTIME_LIST_WORDS_MAX - 1)] =
        runtime_list_entry(address);
    list->open = 0;
}

/* A fiber may begin in C: its outermost frames are then of no activation. */
RUBY_INLINE int ruby_list_end(struct ruby_list *list)
{
    if (!list->open)
        return RUNTIME_LIST_END;
    ruby_list_leave(list, RECORD_LIST_OUTSIDE);
    return RUNTIME_LIST_GOES_ON;
}

/* GOES_ON: next.n_words words of the next frame, which may be none. */
RUBY_INLINE int ruby_list_next(const struct ruby_process *process, struct ruby_list *list)
{
    __u64 frame = list->frame;
    struct ruby_env env = {};
    list->next.n_words = 0;
    if (frame + 40 > list->end)
        return ruby_list_end(list);
    if (step_read(list->bytes, 40, frame))
        return RUNTIME_LIST_UNREADABLE;
    __u64 pc = list->bytes[0], iseq = list->bytes[2], ep = list->bytes[4];
    list->frame = frame + process->frame_bytes;
    if (ep & 7 || step_read(&env, sizeof(env), ep - 16) || !(env.flags & 1))
        return RUNTIME_LIST_UNREADABLE;
    __u64 type = env.flags & RUBY_FRAME_MASK;
    if (type == RUBY_FRAME_DUMMY) /* of a thread's beginning: no code */
        return RUNTIME_LIST_GOES_ON;
    _Bool is_code = type != RUBY_FRAME_CFUNC && type != RUBY_FRAME_IFUNC && iseq && pc;
    if (is_code ? !ruby_list_take(list, iseq, pc, &env)
                : type == RUBY_FRAME_CFUNC && !ruby_list_take_cfunc(list, &env))
        return RUNTIME_LIST_UNREADABLE;
    list->open = list->open || list->next.n_words;
    if (env.flags & RUBY_ENV_FINISH)
        ruby_list_leave(list, 0);
    return RUNTIME_LIST_GOES_ON;
}
