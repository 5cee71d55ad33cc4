/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A script: its name, and the line and column of an offset in it. V8 has a table of the ends of
 * lines only where the program itself has asked for one; else they are counted in the source, as
 * far as is needed, in pieces. What was counted is kept for the next request, which goes on from
 * there. Outcomes as in v8_heap.h. Thread: the symbolizer's loop.
 */
#include "agent-bpf/runtimes/v8/v8_store.h"
#include "agent-bpf/runtimes/v8/v8_text.h"

#define V8_SCRIPTS_MAX 32          /* whose lines are counted in a request */
#define V8_SOURCE_MAX  (16u << 20) /* characters */
#define V8_ENDS_MAX    (1u << 20)  /* lines of all scripts of a request */

struct v8_lines {
    struct v8_scripts *scripts;
    uint64_t script;
    int32_t id; /* of the script; unique in its process */
    struct v8_characters source;
    uint32_t wanted;  /* offset that is to be counted to */
    uint32_t counted; /* characters */
    uint32_t kept;    /* of them, when it was last put into the store */
    bool after_cr;    /* the last of them was a carriage return */
    bool failed;
    uint32_t *ends; /* offsets of ends of lines */
    uint32_t n_ends;
    uint32_t ends_room;
};

struct v8_scripts {               /* zeroed at first, but for store */
    const struct v8_store *store; /* NULL: none */
    struct v8_lines lines[V8_SCRIPTS_MAX];
    size_t n;
    uint32_t ends_room; /* of all lines */
};

void v8_scripts_close(struct v8_scripts *scripts); /* puts what was counted into the store */
/* Reads the next pieces of sources, in one request. 0; -ENODATA: none is wanted; negative errno. */
int v8_scripts_fetch(struct v8_scripts *scripts, struct v8_heap *heap);

/* Empty: it has no name. */
int v8_script_name(struct v8_heap *heap, uint64_t script, char name[V8_TEXT_MAX + 1]);
/* From 1 on. -ENOENT: not known. */
int v8_script_place(struct v8_scripts *scripts, struct v8_heap *heap, uint64_t script,
                    int32_t position, uint32_t *line, uint32_t *column);
