/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads objects of Ruby by steps: each step asks for what it needs next, and one request reads what
 * the steps of all objects asked for. An object that is none, or cannot be read, fails. Thread: its
 * owner's. Limits: RUBY_TEXT_MAX bytes of a text; the steps of each object are bounded.
 */
#include "agent-bpf/runtimes/ruby/ruby_objects.h"
#include "agent-bpf/runtimes/runtime_memory.h"
#include "base/arena.h"

#define RUBY_TEXT_MAX      512
#define RUBY_CLASS_BYTES   168
#define RUBY_VARIABLES_MAX 16

struct ruby_reads { /* of one round */
    struct runtime_memory *memory;
    const struct ruby_layout *layout;
    const struct ruby_process *process;
    struct arena *arena;
    int failed; /* of a request; nothing is read any more */
    size_t n, bytes;
    struct reader_range ranges[READER_RANGES_MAX];
    int *errors[READER_RANGES_MAX];
};

/* *error: 0 or why it was not read, after the next run. out must stay. */
void ruby_reads_add(struct ruby_reads *reads, uint64_t address, void *out, size_t size, int *error);
void ruby_reads_run(struct ruby_reads *reads);

enum ruby_step {
    RUBY_IDLE, /* not begun, or nothing to read */
    RUBY_GOES_ON,
    RUBY_DONE,
    RUBY_FAILED,
};

/* A String, or the first one of an Array, as path objects are. */
struct ruby_text {
    enum ruby_step step;
    unsigned at; /* private: which step */
    uint64_t value;
    int error;
    bool of_array;
    uint64_t head[RUBY_STRING_HEAD / 8];
    uint8_t *body; /* what was not within `head` */
    struct ruby_string string;
};

void ruby_text_begin(struct ruby_text *text, uint64_t value);
/* To be called before each run while it goes on. */
enum ruby_step ruby_text_step(struct ruby_reads *reads, struct ruby_text *text);
/* DONE: its bytes, at most RUBY_TEXT_MAX. */
struct bytes ruby_text_bytes(const struct ruby_reads *reads, const struct ruby_text *text);

/* The name of an identifier. */
struct ruby_name {
    enum ruby_step step;
    unsigned at;
    uint64_t number, array, element;
    int error;
    uint64_t words[RUBY_ARRAY_HEAD / 8];
    struct ruby_text text; /* DONE: the name */
};

void ruby_name_begin(struct ruby_name *name, uint64_t id);
enum ruby_step ruby_name_step(struct ruby_reads *reads, struct ruby_name *name);

/* The path of a class or module, or of the one whose singleton class it is. */
struct ruby_class {
    enum ruby_step step;
    unsigned at;
    uint64_t value, address;
    int error;
    bool of_singleton;
    size_t n;
    uint64_t words[RUBY_CLASS_BYTES / 8];
    uint64_t entries[RUBY_VARIABLES_MAX][RUBY_TABLE_ENTRY / 8];
    struct ruby_text text; /* DONE: the path */
};

void ruby_class_begin(struct ruby_class *class, uint64_t value);
enum ruby_step ruby_class_step(struct ruby_reads *reads, struct ruby_class *class);
