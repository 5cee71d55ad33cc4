/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Reads the name of the asyncio task that a thread runs (CPython 3.14 and later), in the tick: most
 * tasks are gone when user space looks. One source for the tick and for user space, where it is
 * tested. The thread is stopped, and holds its task; another one may rename it meanwhile, so the
 * name counts only if it is the task's still when it has been read.
 */
#include "agent-bpf/runtimes/python/python_list.h"

#define PYTHON_TYPE_SIZE  24 /* tp_basicsize, from where objects have their type */
#define PYTHON_DIGITS     8  /* an int's, from where it has its tag */
#define PYTHON_TAG_SIGN   3  /* an int's: 0 is positive */
#define PYTHON_TAG_SHIFT  3  /* to the number of digits */
#define PYTHON_DIGIT_BITS 30
#define PYTHON_WIDE_MORE  16 /* what a str that is not ASCII has in front of its characters */

/* The object that is the task's name; 0: it is no task, or cannot be read. Of other objects that
 * run in a task's place no type is as large as a TaskObj. */
PYTHON_INLINE __u64 python_task_name(const struct python_process *process,
                                     const struct python_tasks *tasks, struct python_list *list,
                                     __u64 task)
{
    __u64 size = 0;
    if (python_list_read(list, tasks->task_name * 8u + 8, task) ||
        python_list_byte(list, tasks->is_task) != 1)
        return 0;
    __u64 name = python_list_word(list, tasks->task_name * 8u);
    __u64 type = python_list_word(list, process->object_type);
    if (step_read(&size, sizeof(size), type + process->object_type + PYTHON_TYPE_SIZE) ||
        size < tasks->task_size * 8u || size > PYTHON_TASK_MAX)
        return 0;
    return name;
}

/* asyncio keeps the number of a task that was given no name: it is called Task-NUMBER. */
PYTHON_INLINE void python_task_number(struct python_list *list, __u32 at)
{
    struct record_task *task = &list->task;
    __u64 tag = python_list_word(list, at), digits = python_list_word(list, at + PYTHON_DIGITS);
    __u64 low = digits & ((1 << PYTHON_DIGIT_BITS) - 1), n = tag >> PYTHON_TAG_SHIFT;
    if (tag & PYTHON_TAG_SIGN || !n || n > 2)
        return;
    task->words[0] = n == 1 ? low : low | digits >> 32 << PYTHON_DIGIT_BITS;
    task->size = 8;
    task->form = RECORD_TASK_NUMBER;
}

PYTHON_INLINE void python_task_text(const struct python_process *process, struct python_list *list,
                                    __u32 at, __u64 name)
{
    struct record_task *task = &list->task;
    __u64 length = python_list_word(list, at);
    __u32 state = (__u32)python_list_word(list, at + PYTHON_TEXT_STATE);
    state >>= process->text_state_shift & 15;
    __u32 width = state & 7, size = RECORD_TASK_TEXT_MAX;
    _Bool is_compact = state >> 3 & 1, is_ascii = state >> 4 & 1;
    if (!is_compact || (width != 1 && width != 2 && width != 4) || (is_ascii && width != 1))
        return;
    if (length < RECORD_TASK_TEXT_MAX / width)
        size = (__u32)length * width;
    __u64 text = name + at + PYTHON_TEXT_HEADER + (is_ascii ? 0 : PYTHON_WIDE_MORE);
    task->size = (__u8)size;
    if (step_read(task->text, size & RECORD_TASK_TEXT_MASK, text))
        return;
    task->form = (__u8)width;
}

/* Reads the name of the thread's task into list->task. Returns how many bytes of it are used, a
 * multiple of 8; 0 if the thread runs no task. */
PYTHON_INLINE __u32 python_task(const struct python_process *process,
                                const struct python_tasks *tasks, struct python_list *list)
{
    __u64 task = 0, again = 0;
    __u32 at = process->object_type + 8;
    if (!list->thread || !process->object_type ||
        step_read(&task, sizeof(task), list->thread + tasks->thread_task * 8u) || !task)
        return 0;
    __builtin_memset(&list->task, 0, sizeof(list->task));
    __u64 name = python_task_name(process, tasks, list, task);
    if (!name || python_list_read(list, at + PYTHON_TEXT_HEADER, name))
        return RECORD_TASK_HEAD;
    __u64 type = python_list_word(list, process->object_type);
    if (process->number_type && type == process->code_type + (__u64)process->number_type)
        python_task_number(list, at);
    else if (process->text_type && type == process->code_type + (__u64)process->text_type)
        python_task_text(process, list, at, name);
    if (step_read(&again, sizeof(again), task + tasks->task_name * 8u) || again != name)
        list->task.form = RECORD_TASK_UNREADABLE;
    if (list->task.form == RECORD_TASK_UNREADABLE)
        return RECORD_TASK_HEAD;
    return RECORD_TASK_HEAD + ((list->task.size + 7u) & ~7u);
}
