/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Methods of a process: class, name, signature, source file, line table. Memory is the caller's
 * arena's.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_decode.h"
#include "agent-bpf/runtimes/hotspot/hotspot_trail.h"
#include "agent-bpf/runtimes/runtime_reader.h"

#define HOTSPOT_CONST_METHOD_BYTES 96 /* read of one; seen: 56 */

enum hotspot_text {
    HOTSPOT_NAME,
    HOTSPOT_SIGNATURE,
    HOTSPOT_SOURCE_FILE,
    HOTSPOT_CLASS,
    HOTSPOT_TEXTS,
};

struct hotspot_symbol {
    uint64_t address; /* 0: none */
    bool read;
    uint8_t head[HOTSPOT_SYMBOL_HEAD];
    uint16_t references; /* 0: it is gone */
    uint32_t length;
    uint8_t bytes[RUNTIME_NAME_MAX];
};

struct hotspot_method {
    uint64_t address;
    uint64_t const_method; /* 0: any; else another one there means that the method is stale */
    /* Results: */
    enum runtime_outcome outcome;
    uint16_t code_size;
    struct bytes line_table;  /* may be cut off */
    struct runtime_line line; /* without line numbers */
    struct hotspot_trail trail;
    /* Private: */
    bool read, holder_read, constants_read, source_read, lines_read;
    uint64_t found; /* ConstMethod */
    uint64_t pool;
    uint64_t holder;
    uint64_t holder_pool; /* the holder's: the same, unless one of the two is gone */
    uint64_t loader;      /* the holder's ClassLoaderData */
    uint64_t classes[2];  /* of them */
    uint8_t loader_gone;
    uint64_t name_again; /* of the holder, and its text */
    uint8_t text_again[RUNTIME_NAME_MAX];
    bool loader_read, class_read, name_read, text_read;
    uint16_t source_index;
    uint8_t bytes[HOTSPOT_CONST_METHOD_BYTES];
    struct hotspot_symbol texts[HOTSPOT_TEXTS];
};

/* 0; -ENOMEM; errors of reading. */
int hotspot_methods_find(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                         struct hotspot_method *methods, size_t n, struct arena *arena);
/* Looks once more whether each is still the one it was, and its class lives: then all that was read
 * was its own. */
int hotspot_methods_check(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                          struct hotspot_method *methods, size_t n);
