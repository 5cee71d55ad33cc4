/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * Reads the list of a process's PHP frames, leaf first, as words of record.h: one source for the
 * tick, which reads it whole while the thread is stopped, and for user space, where it is tested.
 * The includer first defines step_read(out, size, address): 0, or nonzero if the memory cannot be
 * read. The memory may hold anything: offsets are masked, each call reads a bounded number of
 * structures, and the caller bounds the number of calls. Source of the layouts: php_process.h.
 */
#include "agent-bpf/runtimes/php_process.h"

/* zend_execute_data, in words */
#define PHP_FRAME_OPLINE 0
#define PHP_FRAME_FUNC   3
#define PHP_FRAME_THIS   4
#define PHP_FRAME_INFO   5 /* low half */
#define PHP_FRAME_PREV   6
#define PHP_FRAME_WORDS  7
/* Bits of its info */
#define PHP_TYPE_MASK   0xf
#define PHP_TYPE_OBJECT 8
#define PHP_CALL_TOP    (1u << 17) /* of a function in PHP: the first of an activation */
/* zend_function, in words */
#define PHP_FUNCTION_NAME  1
#define PHP_FUNCTION_SCOPE 2
#define PHP_FUNCTION_WORDS (PHP_FUNCTION_BYTES / 8)
/* Its type, the first byte */
#define PHP_FUNCTION_INTERNAL 1
#define PHP_FUNCTION_USER     2
#define PHP_FUNCTION_EVAL     4
/* zend_op */
#define PHP_OP_BYTES 32
#define PHP_OP_LINE  24
/* zend_class_entry, zend_object, zend_string */
#define PHP_CLASS_NAME   8
#define PHP_OBJECT_CLASS 16
#define PHP_STRING_HASH  8 /* then its length */

#define PHP_DELEGATIONS_MAX 8 /* generators in a chain; the frames of more are left out */

struct php_list {
    struct runtime_list_next next;
    __u64 frame;  /* zend_execute_data of the next one; 0: none */
    __u64 opline; /* in a register: that of the next frame; 0: it is in the frame */
    /* Generators that wait for one that they delegate to have no place in the list but the
     * outermost of them: the one that was read last, and the outermost. 0: there are none. */
    __u64 delegate;
    __u64 outermost;
    struct php_frame found;
    __u64 of_frame[PHP_FRAME_WORDS];
    __u64 of_function[PHP_FUNCTION_WORDS + 1]; /* the last is 0 */
};

PHP_INLINE __u64 php_list_function_word(const struct php_list *list, __u32 at)
{
    __u32 word = at / 8;
    return list->of_function[word < PHP_FUNCTION_WORDS ? word : PHP_FUNCTION_WORDS];
}

/* opline: what the register has in which the evaluation function holds it, if the tick has
 * interrupted that function itself; else 0. */
PHP_INLINE int php_list_begin(const struct php_process *process, __u64 opline,
                              struct php_list *list)
{
    list->frame = 0;
    list->opline = opline;
    list->delegate = list->outermost = 0;
    list->of_function[PHP_FUNCTION_WORDS] = 0;
    if (step_read(&list->frame, sizeof(list->frame), process->current))
        return RUNTIME_LIST_END;
    return list->frame ? RUNTIME_LIST_GOES_ON : RUNTIME_LIST_END;
}

/* It is one of the function's. What a frame has before its function has saved one is garbage. */
PHP_INLINE _Bool php_list_op_is_right(const struct php_process *process,
                                      const struct php_list *list, __u64 opline)
{
    __u64 opcodes = php_list_function_word(list, process->function_opcodes);
    __u64 last = php_list_function_word(list, process->function_last);
    __u64 at = opline - opcodes;
    last = process->function_last & 4 ? last >> 32 : last & 0xffffffff;
    return opline && opline >= opcodes && at % PHP_OP_BYTES == 0 && at / PHP_OP_BYTES < last;
}

PHP_INLINE __u32 php_list_line(const struct php_process *process, const struct php_list *list)
{
    __u64 opline = list->opline;
    __u32 line = 0;
    if (!php_list_op_is_right(process, list, opline))
        opline = list->of_frame[PHP_FRAME_OPLINE];
    if (!php_list_op_is_right(process, list, opline) ||
        step_read(&line, sizeof(line), opline + PHP_OP_LINE))
        return 0;
    return line;
}

PHP_INLINE __u64 php_list_identity_add(__u64 hash, __u64 string)
{
    __u64 facts[2] = {0}; /* hash, length */
    if (string && step_read(facts, sizeof(facts), string + PHP_STRING_HASH))
        return 0;
    return php_identity_add(hash, facts[0], facts[1]);
}

PHP_INLINE void php_list_take(struct php_list *list)
{
    struct php_frame *found = &list->found;
    __u64 hash = php_list_identity_add(0, found->name > PHP_CODE_EVAL ? found->name : 0);
    hash = php_list_identity_add(hash, found->class);
    hash = php_list_identity_add(hash, found->file);
    found->identity = php_identity(hash);
    php_frame_pack(found, list->next.words);
    list->next.n_words = 3;
}

PHP_INLINE __u64 php_list_class(const struct php_list *list)
{
    __u64 scope = list->of_function[PHP_FUNCTION_SCOPE], name = 0;
    if (!scope || step_read(&name, sizeof(name), scope + PHP_CLASS_NAME))
        return 0;
    return name;
}

/* A frame of a function in PHP, or of a file or text that is executed. */
PHP_INLINE void php_list_user(const struct php_process *process, struct php_list *list,
                              _Bool is_eval)
{
    struct php_frame *found = &list->found;
    if (!found->name)
        found->name = !list->of_frame[PHP_FRAME_PREV] ? PHP_CODE_MAIN
                      : is_eval                       ? PHP_CODE_EVAL
                                                      : PHP_CODE_INCLUDE;
    found->file = php_list_function_word(list, process->function_filename);
    found->line = php_list_line(process, list);
}

/* The function of of_frame, with an entry behind it if an activation begins with it. Functions of
 * the engine may be nameless: there is nothing to show. */
PHP_INLINE int php_list_function(const struct php_process *process, struct php_list *list,
                                 _Bool begins)
{
    __u32 size = process->function_bytes;
    if (size > PHP_FUNCTION_BYTES)
        size = PHP_FUNCTION_BYTES;
    if (step_read(list->of_function, size, list->of_frame[PHP_FRAME_FUNC]))
        return RUNTIME_LIST_UNREADABLE;
    __u8 type = (__u8)list->of_function[0];
    _Bool is_user = type == PHP_FUNCTION_USER || type == PHP_FUNCTION_EVAL;
    if (!is_user && type != PHP_FUNCTION_INTERNAL)
        return RUNTIME_LIST_UNREADABLE;
    list->found = (struct php_frame){.name = list->of_function[PHP_FUNCTION_NAME]};
    if (is_user)
        php_list_user(process, list, type == PHP_FUNCTION_EVAL);
    list->opline = 0;
    if (!list->found.name)
        return RUNTIME_LIST_GOES_ON;
    list->found.class = php_list_class(list);
    php_list_take(list);
    if (is_user && begins)
        list->next.words[list->next.n_words++ & (RUNTIME_LIST_WORDS_MAX - 1)] =
            runtime_list_entry(0);
    return RUNTIME_LIST_GOES_ON;
}

/* The generator above the one that was read last, from the outermost one on: 0: none. */
PHP_INLINE __u64 php_list_delegator(const struct php_process *process, const struct php_list *list)
{
    __u64 generator = list->outermost, parent = 0, above = 0;
    for (int i = 0; i < PHP_DELEGATIONS_MAX; i++) {
        if (!generator || step_read(&parent, sizeof(parent), generator + process->generator_parent))
            return 0;
        if (list->delegate ? parent == list->delegate : !parent)
            return list->delegate ? generator : above;
        above = generator;
        generator = parent;
    }
    return 0;
}

/* The next of the generators that wait. */
PHP_INLINE int php_list_delegated(const struct php_process *process, struct php_list *list)
{
    __u64 generator = php_list_delegator(process, list), frame = 0;
    list->delegate = generator;
    if (!generator || generator == list->outermost)
        list->outermost = 0;
    if (!generator || step_read(&frame, sizeof(frame), generator + process->generator_frame) ||
        !frame || frame & 7 || step_read(list->of_frame, sizeof(list->of_frame), frame))
        return RUNTIME_LIST_GOES_ON;
    return php_list_function(process, list, 0);
}

/* A frame without a function stands for generators that wait for the one that was read before. */
PHP_INLINE void php_list_waiting(const struct php_process *process, struct php_list *list)
{
    __u64 object = list->of_frame[PHP_FRAME_THIS], class = 0;
    __u32 info = (__u32)list->of_frame[PHP_FRAME_INFO];
    if (!process->generator || (info & PHP_TYPE_MASK) != PHP_TYPE_OBJECT || object & 7 ||
        step_read(&class, sizeof(class), object + PHP_OBJECT_CLASS) || class != process->generator)
        return;
    list->outermost = object;
    list->delegate = 0;
}

/* GOES_ON: next.n_words words of the next frame, which may be none. */
PHP_INLINE int php_list_next(const struct php_process *process, struct php_list *list)
{
    __u64 frame = list->frame;
    list->next.n_words = 0;
    if (list->outermost)
        return php_list_delegated(process, list);
    if (!frame)
        return RUNTIME_LIST_END;
    if (frame & 7 || step_read(list->of_frame, sizeof(list->of_frame), frame))
        return RUNTIME_LIST_UNREADABLE;
    list->frame = list->of_frame[PHP_FRAME_PREV];
    if (list->frame == frame)
        return RUNTIME_LIST_UNREADABLE;
    if (list->of_frame[PHP_FRAME_FUNC])
        return php_list_function(process, list,
                                 ((__u32)list->of_frame[PHP_FRAME_INFO] & PHP_CALL_TOP) != 0);
    php_list_waiting(process, list);
    return RUNTIME_LIST_GOES_ON;
}
