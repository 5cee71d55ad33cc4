/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One function of Ruby frames, read by steps (ruby_read.h): an instruction sequence, or a method in
 * C, with its texts. And the line of one of its positions. Part of ruby_names.c's module.
 */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/runtimes/ruby/ruby_read.h"
#include "agent-bpf/runtimes/runtime_reader.h"

#define RUBY_BODY_READ (176 + 8) /* to the end of local_iseq */

struct ruby_function {
    struct record_frame frame; /* the first of it */
    bool is_c;
    enum ruby_step step;
    unsigned at;
    int error, label_error;
    enum runtime_outcome outcome;
    uint64_t head[RUBY_ISEQ_BYTES / 8];
    uint64_t body[RUBY_BODY_READ / 8];
    uint64_t label_head[RUBY_LABEL_BYTES / 8]; /* read with the body, and again at the end */
    struct ruby_text label, base, path;
    struct { /* the method that it is in */
        enum ruby_step step;
        unsigned at;
        int error;
        uint64_t value;
        uint64_t words[RUBY_METHOD_BYTES / 8];
        uint64_t definition[RUBY_METHOD_BYTES / 8];
    } method;
    struct ruby_name name; /* of a method in C */
    struct ruby_class class;
};

void ruby_function_begin(struct ruby_function *function, const struct record_frame *frame);
/* True: it goes on. */
bool ruby_function_step(struct ruby_reads *reads, struct ruby_function *function);
/* Reads again what its identity is of; after the next run ruby_function_verify() tells. */
void ruby_function_again(struct ruby_reads *reads, struct ruby_function *function);
void ruby_function_verify(struct ruby_function *function);
/* The name as it is shown, valid UTF-8; its length. out: RUNTIME_NAME_MAX + 1 bytes. */
size_t ruby_function_text(const struct ruby_reads *reads, const struct ruby_function *function,
                          char *out);
/* 0: not known. */
uint32_t ruby_function_first_line(const struct ruby_reads *reads,
                                  const struct ruby_function *function);

struct ruby_line {
    enum ruby_step step;
    unsigned at;
    int error;
    uint32_t position;
    uint64_t block[10]; /* of the succinct table */
    uint32_t line;      /* DONE; 0: none */
};

void ruby_line_begin(struct ruby_line *line, const struct record_frame *frame);
/* To be called when its function is done. */
enum ruby_step ruby_line_step(struct ruby_reads *reads, const struct ruby_function *function,
                              struct ruby_line *line);
