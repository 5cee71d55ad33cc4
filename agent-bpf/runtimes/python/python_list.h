/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Reads the list of a thread's Python frames, leaf first, as words of record.h: one source for the
 * tick, which reads it whole while the thread is stopped, and for user space, where it is tested.
 * The includer first defines step_read(out, size, address): 0, or nonzero if the memory cannot be
 * read. The memory may hold anything: offsets are masked, each call reads at most three structures,
 * and the caller bounds the number of calls. Source of the layouts: python_process.h.
 */
#include "agent-bpf/runtimes/python_process.h"
#include "agent-bpf/thread_local_address.h"

struct python_list {
    struct runtime_list_next next;
    __u64 frame;  /* the next one; 0: none */
    __u64 cframe; /* of the activation that `frame` belongs to, if has_cframe */
    __u64 apart;  /* python_list_begin() */
    __u64 thread; /* its state; 0: it is none of Python's */
    __u64 flags;  /* PYTHON_FRAME_*, for all frames */
    __u32
        innermost; /* this is the innermost activation, of which the _PyCFrame may be unfinished */
    __u64 bytes[PYTHON_READ_MAX / 8]; /* the structure that was read last */
    struct record_task task;          /* python_task.h */
};

#define PYTHON_INLINE static inline __attribute__((always_inline))

PYTHON_INLINE __u64 python_list_word(const struct python_list *list, __u32 at)
{
    return list->bytes[(at & (PYTHON_READ_MAX - 8)) / 8];
}

PYTHON_INLINE __u8 python_list_byte(const struct python_list *list, __u32 at)
{
    return ((const __u8 *)list->bytes)[at & (PYTHON_READ_MAX - 1)];
}

PYTHON_INLINE int python_list_read(struct python_list *list, __u32 size, __u64 address)
{
    return step_read(list->bytes, size & (PYTHON_READ_MAX - 1), address);
}

/* What PyGILState remembers of the thread, also while it has released the GIL. */
PYTHON_INLINE __u64 python_list_remembered(const struct python_process *process, __u64 tp)
{
    __u64 at = tp + (__u64)process->slot, thread = 0;
    if (process->slot_in_array != PYTHON_SLOT_DIRECT) {
        if (step_read(&at, sizeof(at), at) || !at)
            return 0;
        at += process->slot_in_array;
    }
    return step_read(&thread, sizeof(thread), at) ? 0 : thread;
}

PYTHON_INLINE __u64 python_list_thread(const struct python_process *process, __u64 tp,
                                       struct python_list *list)
{
    __u64 address = thread_local_address(&process->current, tp), thread = 0;
    list->flags = 0;
    if (address && !step_read(&thread, sizeof(thread), address)) {
        if (thread)
            return thread;
        list->flags |= PYTHON_FRAME_GIL_RELEASED;
    }
    return python_list_remembered(process, tp);
}

/* The evaluation function enters its _PyCFrame in the thread's state before it fills it in. What
 * this one leads to is then of an earlier call, or garbage: the list begins with the caller's. That
 * is as far off as the CFAs are apart, as both lie at one place in their activation. */
PYTHON_INLINE int python_list_again(const struct python_process *process, struct python_list *list)
{
    __u64 caller = list->cframe + list->apart, frame = 0;
    if (!list->innermost || !process->has_cframe)
        return RUNTIME_LIST_UNREADABLE;
    list->innermost = 0;
    list->next.n_words = 0;
    if (!list->apart && step_read(&caller, sizeof(caller), list->cframe + process->cframe_previous))
        return RUNTIME_LIST_UNREADABLE;
    if (!caller)
        return RUNTIME_LIST_END;
    if (step_read(&frame, sizeof(frame), caller + process->cframe_frame))
        return RUNTIME_LIST_UNREADABLE;
    list->cframe = caller;
    list->frame = frame;
    return RUNTIME_LIST_AGAIN;
}

/* tp: the thread pointer. apart: bytes between the CFAs of the two innermost activations of the
 * evaluation function; 0: not known. END: it is no thread of Python's, or has no frames. */
PYTHON_INLINE int python_list_begin(const struct python_process *process, __u64 tp, __u64 apart,
                                    struct python_list *list)
{
    __u64 thread = python_list_thread(process, tp, list);
    list->frame = list->cframe = list->thread = 0;
    list->innermost = 1;
    list->apart = apart;
    if (!thread)
        return RUNTIME_LIST_END;
    if (python_list_read(list, process->thread_bytes, thread))
        return RUNTIME_LIST_UNREADABLE;
    if (python_list_word(list, process->thread_id) != tp)
        return RUNTIME_LIST_END;
    list->thread = thread;
    list->frame = python_list_word(list, process->thread_frame);
    if (process->has_cframe && list->frame) {
        list->cframe = list->frame;
        if (step_read(&list->frame, sizeof(list->frame), list->cframe + process->cframe_frame))
            return RUNTIME_LIST_UNREADABLE;
        if (!list->frame && python_list_again(process, list) == RUNTIME_LIST_UNREADABLE)
            return RUNTIME_LIST_UNREADABLE;
    }
    return list->frame ? RUNTIME_LIST_GOES_ON : RUNTIME_LIST_END;
}

/* Second word of a frame. -1: in front of the first instruction. */
PYTHON_INLINE __u64 python_list_position(const struct python_process *process,
                                         const struct python_list *list, __u64 code)
{
    __u64 word = python_list_word(list, process->frame_position);
    __s64 units = (__s64)(word - code - process->code_instructions) >> 1;
    if (process->position_is_int)
        units = (__s32)word >> (process->lasti_shift & 1);
    if (units < -1 || units > PYTHON_POSITION_MAX)
        return list->flags | PYTHON_FRAME_NO_POSITION;
    return list->flags | (__u32)units;
}

/* Behind the last frame of an activation, to the caller's: whose frame must be the next one. */
PYTHON_INLINE int python_list_leave(const struct python_process *process, struct python_list *list)
{
    __u64 caller = 0, frame = 0;
    if (!list->cframe || !process->has_cframe ||
        step_read(&caller, sizeof(caller), list->cframe + process->cframe_previous))
        caller = 0;
    if (list->innermost && (caller || (list->apart && process->has_cframe)) &&
        (step_read(&frame, sizeof(frame), caller + process->cframe_frame) || frame != list->frame))
        return python_list_again(process, list);
    list->cframe = caller;
    list->innermost = 0;
    return RUNTIME_LIST_GOES_ON;
}

/* 0: the code object cannot be read. */
PYTHON_INLINE __u32 python_list_identity(const struct python_process *process,
                                         struct python_list *list, __u64 code)
{
    __u64 hash = 0;
    if (python_list_read(list, process->identity_words * 8, code + process->code_identity))
        return 0;
    if (process->text_hash &&
        step_read(&hash, sizeof(hash),
                  python_list_word(list, process->identity_name) + process->text_hash))
        return 0;
    return python_identity(list->bytes, process->identity_words, hash);
}

PYTHON_INLINE void python_list_take(const struct python_process *process, struct python_list *list,
                                    __u64 code)
{
    list->next.words[0] = (__u64)FRAME_PYTHON << RECORD_FRAME_SHIFT | (code & RECORD_FRAME_MASK);
    list->next.words[1] = python_list_position(process, list, code);
    list->next.words[2] = python_list_identity(process, list, code);
    list->next.n_words = 3;
}

/* GOES_ON: n_words words of the next frame, which may be none. */
PYTHON_INLINE int python_list_next(const struct python_process *process, struct python_list *list)
{
    __u64 frame = list->frame;
    list->next.n_words = 0;
    if (!frame) /* of an activation that has no end: it is none */
        return list->innermost && process->has_cframe ? python_list_again(process, list)
                                                      : RUNTIME_LIST_END;
    if (frame & 7 || python_list_read(list, process->frame_bytes, frame))
        return python_list_again(process, list);
    __u64 code = python_list_word(list, process->frame_code) & ~7ULL;
    __u8 owner = python_list_byte(list, process->frame_owner);
    list->frame = python_list_word(list, process->frame_previous);
    if (list->frame == frame)
        return python_list_again(process, list);
    if (process->activations == PYTHON_SHIMS && owner >= process->shim_owner) {
        list->next.words[0] = runtime_list_entry(frame);
        list->next.n_words = 1;
        return python_list_leave(process, list);
    }
    python_list_take(process, list, code);
    if (process->activations == PYTHON_SHIMS || (process->activations == PYTHON_CFRAMES && !owner))
        return RUNTIME_LIST_GOES_ON;
    __u64 entry = process->activations == PYTHON_CFRAMES ? list->cframe : 0;
    list->next.words[list->next.n_words++ & (RUNTIME_LIST_WORDS_MAX - 1)] =
        runtime_list_entry(entry);
    return python_list_leave(process, list);
}
