/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * What the tick must know to read the list of Python frames of a process: shared by the BPF
 * program and user space. Offsets are bytes in CPython's structures; those that are read in one
 * piece lie below PYTHON_READ_MAX, which python_attach() checks and the tick masks. Source of the
 * layouts: CPython's internal headers 3.8 to 3.14, and the debug offsets of 3.13 and later.
 */
#include "agent-bpf/runtimes/runtime_list.h"

#define PYTHON_READ_MAX    256 /* bytes read of one structure */
#define PYTHON_SLOT_DIRECT 0xffffffffu
#define PYTHON_TASK_MAX    (1u << 15) /* bytes of a task, whatever its class adds */
/* From where a str has its length; an int has its tag there. */
#define PYTHON_TEXT_STATE  16 /* a str's kind */
#define PYTHON_TEXT_HEADER 24 /* the characters of a compact ASCII str */

/* How the frames of one activation of the evaluation function are told apart. */
enum python_activations {
    PYTHON_ONE_FRAME_EACH = 1, /* 3.8 to 3.10 */
    PYTHON_CFRAMES = 2,        /* 3.11: is_entry in the frame; the activation's _PyCFrame */
    PYTHON_SHIMS = 3,          /* 3.12+: the last is a frame whose owner is the C stack */
};

struct python_process {
    struct runtime_range evaluation[RUNTIME_EVALUATION_MAX]; /* unused ones are empty */
    /* The thread-local variable that has the thread's state while the thread holds the GIL, 3.12+;
     * thread_local_model THREAD_LOCAL_NONE: it has none. */
    struct context_variable current;
    __u64 code_type;     /* address of PyCode_Type; 0: not known */
    __s64 slot;          /* of PyGILState's pthread key, from the thread pointer */
    __u32 slot_in_array; /* PYTHON_SLOT_DIRECT, or `slot` has the address of the array */
    __u8 activations;    /* enum python_activations */
    __u8 lasti_shift;    /* position_is_int: of lasti to code units */
    __u8 position_is_int;
    __u8 shim_owner;     /* PYTHON_SHIMS: owners from this on are no Python frames */
    __u8 identity_words; /* of the code object, see python_identity() */
    __u8 has_cframe;     /* thread_frame leads to a _PyCFrame */
    /* PyThreadState */
    __u16 thread_bytes; /* to be read */
    __u16 thread_id;
    __u16 thread_frame;
    /* _PyCFrame */
    __u16 cframe_frame;
    __u16 cframe_previous;
    /* PyFrameObject, _PyInterpreterFrame */
    __u16 frame_bytes; /* to be read */
    __u16 frame_previous;
    __u16 frame_code;
    __u16 frame_position; /* f_lasti; prev_instr, instr_ptr */
    __u16 frame_owner;    /* is_entry; owner */
    /* PyCodeObject */
    __u16 code_instructions;
    __u16 code_identity; /* of the first of identity_words words */
    __u16 identity_name; /* of the address of the name among them, in bytes */
    __u16 text_hash;     /* str: its hash, which names always have; 0: not a part of the identity */
    /* For names of tasks */
    __u8 object_type;      /* of any object: its type; 0: layouts that are not known */
    __u8 text_state_shift; /* of a str's state: to its kind */
    __s32 text_type;       /* PyUnicode_Type, PyLong_Type, from code_type; 0: not known */
    __s32 number_type;
};

/* What asyncio's own offsets say (3.14+): where the task that a thread runs has its name. In words
 * of 8 bytes. */
struct python_tasks {
    __u8 thread_task; /* in PyThreadState; 0: not known */
    __u8 task_size;   /* of a TaskObj: its type says the same, or more */
    __u8 task_name;   /* in front of which all lies that is read of it */
    __u8 is_task;     /* in bytes: one that is 1 */
};

_Static_assert(sizeof(struct python_process) == 160, "python_process is in a BPF map value");
_Static_assert(sizeof(struct python_tasks) == 4, "python_tasks is in a BPF map value");

#define PYTHON_IDENTITY_WORDS_MAX 12

/* Flags in the high half of the second word of FRAME_PYTHON; the low half is lasti. */
#define PYTHON_FRAME_GIL_RELEASED (1ULL << 32) /* its thread has released the GIL, 3.12+ */
#define PYTHON_FRAME_NO_POSITION  (1ULL << 33) /* lasti is not known */

#define PYTHON_POSITION_MAX (1 << 24) /* code units */

/* Of a code object's first line, counts, addresses of names and tables; and from 3.12 on of the
 * version, which no other code object of the process has had. Before, an object that was made in a
 * freed one's memory may have all of it again, but another name: name_hash is that of its name. */
static inline __attribute__((always_inline)) __u32 python_identity(const __u64 *words, __u32 n,
                                                                   __u64 name_hash)
{
    __u64 hash = name_hash;
    for (__u32 i = 0; i < PYTHON_IDENTITY_WORDS_MAX; i++) {
        if (i >= n)
            break;
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
    }
    return (__u32)(hash >> 32) | 1;
}
