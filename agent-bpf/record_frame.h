/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Frames of record.h in user space. Pure; thread: any. */
#include "agent-bpf/record.h"
#include <stdbool.h>
#include <stddef.h>

static inline enum record_frame_kind record_frame_kind(uint64_t word)
{
    return (enum record_frame_kind)(word >> RECORD_FRAME_SHIFT);
}

/* The payload is an address of native code. */
static inline bool record_frame_is_native(uint64_t word)
{
    return record_frame_kind(word) == FRAME_NATIVE || record_frame_kind(word) == FRAME_NATIVE_EVAL;
}

/* A frame of an interpreter's list. */
static inline bool record_frame_is_listed(uint64_t word)
{
    enum record_frame_kind kind = record_frame_kind(word);
    return kind == FRAME_PYTHON || kind == FRAME_RUBY || kind == FRAME_PHP;
}

/* True: the instruction that ran, or was interrupted by a signal; false: the one behind a call. */
static inline bool record_frame_is_exact(uint64_t word)
{
    return record_frame_is_native(word) && (word & RECORD_FRAME_EXACT);
}

/* A kernel address comes back sign-extended. */
static inline uint64_t record_frame_address(uint64_t word)
{
    uint64_t payload = word & RECORD_FRAME_MASK;
    if (record_frame_is_native(word))
        payload &= ~RECORD_FRAME_EXACT;
    if (record_frame_kind(word) == FRAME_KERNEL && (payload >> (RECORD_FRAME_SHIFT - 1)))
        payload |= ~RECORD_FRAME_MASK;
    return payload;
}

static inline struct record_frame record_frame_native(uint64_t pc, bool is_return)
{
    uint64_t word = pc & (RECORD_FRAME_EXACT - 1);
    return (struct record_frame){{word | (is_return ? 0 : RECORD_FRAME_EXACT) |
                                  (uint64_t)FRAME_NATIVE << RECORD_FRAME_SHIFT}};
}

static inline bool record_frame_equal(const struct record_frame *a, const struct record_frame *b)
{
    return a->words[0] == b->words[0] && a->words[1] == b->words[1] && a->words[2] == b->words[2];
}

/* No other frame of its program ever has these words: compile ids are given once. */
static inline bool record_frame_is_unique(const struct record_frame *frame)
{
    return record_frame_kind(frame->words[0]) == FRAME_JVM_COMPILED && (uint32_t)frame->words[2];
}

/* Takes a frame off the words from *at on. False: there is none, or the words are malformed. */
static inline bool record_frame_next(const uint64_t **at, const uint64_t *end,
                                     struct record_frame *frame)
{
    uint32_t words = *at < end ? record_frame_words(record_frame_kind(**at)) : 0;
    if (!words || words > (size_t)(end - *at))
        return false;
    *frame = (struct record_frame){{0}};
    for (uint32_t i = 0; i < words; i++)
        frame->words[i] = (*at)[i];
    *at += words;
    return true;
}

/* The name of a runtime's frame whose objects could not be read, or are others by now. */
#define RECORD_FRAME_UNREADABLE "[unreadable]"

/* profile.frame.type of the frames of a runtime, as in OpenTelemetry's semantic conventions; "":
 * its frames are native. */
static inline const char *record_frame_type(enum record_frame_kind kind)
{
    switch (kind) {
    case FRAME_PYTHON:
        return "cpython";
    case FRAME_JVM_COMPILED:
    case FRAME_JVM_INTERPRETED:
    case FRAME_JVM_STUB:
    case FRAME_JVM_GAP:
        return "jvm";
    case FRAME_V8:
        return "v8js";
    case FRAME_RUBY:
        return "ruby";
    case FRAME_PHP:
        return "php";
    default:
        return "";
    }
}
