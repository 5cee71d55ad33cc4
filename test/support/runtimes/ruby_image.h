/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The memory of a process with Ruby in it, made by hand: a thread with four frames in two
 * activations of vm_exec(), the innermost first: a block of a method, a method in C that has called
 * it, the method, and the program. Everything lies in RUBY_IMAGE_BYTES from RUBY_IMAGE_START on;
 * other addresses cannot be read.
 */
#include "agent-bpf/runtimes/ruby/ruby_file.h"
#include "agent-bpf/runtimes/runtime_process.h"

#define RUBY_IMAGE_START 0x100000
#define RUBY_IMAGE_BYTES 0x10000

#define RUBY_IMAGE_TP      (RUBY_IMAGE_START + 0x100) /* 8 behind it: the thread-local variable */
#define RUBY_IMAGE_CONTEXT (RUBY_IMAGE_START + 0x200)
#define RUBY_IMAGE_DATA    (RUBY_IMAGE_START + 0x400) /* initialised variables */
#define RUBY_IMAGE_STACK   (RUBY_IMAGE_START + 0x1000)
#define RUBY_IMAGE_ENVS    RUBY_IMAGE_STACK            /* 0x40 bytes each */
#define RUBY_IMAGE_ISEQS   (RUBY_IMAGE_START + 0x3000) /* 0x40 bytes each */
#define RUBY_IMAGE_BODIES  (RUBY_IMAGE_START + 0x4000) /* 0x200 bytes each */
#define RUBY_IMAGE_TEXTS   (RUBY_IMAGE_START + 0x6000) /* 0x100 bytes each */
#define RUBY_IMAGE_LINES   (RUBY_IMAGE_START + 0x8000) /* 0x400 bytes each */
#define RUBY_IMAGE_METHODS (RUBY_IMAGE_START + 0xa000) /* 0x100 bytes each: entry, definition */
#define RUBY_IMAGE_CLASSES (RUBY_IMAGE_START + 0xb000) /* 0x200 bytes each */
#define RUBY_IMAGE_NAMES   (RUBY_IMAGE_START + 0xd000) /* of identifiers */

#define RUBY_IMAGE_FRAMES    4
#define RUBY_IMAGE_SEQUENCES 3   /* block, method, program */
#define RUBY_IMAGE_POSITION  700 /* of each frame */
#define RUBY_IMAGE_LINE      40  /* there */

struct ruby_image {
    uint8_t bytes[RUBY_IMAGE_BYTES];
    struct ruby_constants constants;
    size_t calls;                  /* of reading */
    struct runtime_memory *memory; /* of the request */
};

extern const char *const ruby_image_functions[RUBY_IMAGE_FRAMES]; /* as they are shown */

/* version: as in ruby_version. False: its layout is not known. */
bool ruby_image_make(struct ruby_image *image, const char *version);
void ruby_image_word(struct ruby_image *image, uint64_t address, uint64_t word);
uint64_t ruby_image_get(const struct ruby_image *image, uint64_t address);
void ruby_image_text(struct ruby_image *image, unsigned text, const char *bytes);
/* *memory: of the image, for one request of at most so many bytes. */
void ruby_image_memory(struct ruby_image *image, struct runtime_memory *memory, size_t bytes);
/* The tick's words; their number. *outcome: enum runtime_list_outcome of the last step. */
size_t ruby_image_list(struct ruby_image *image, const struct ruby_process *process,
                       uint64_t *words, size_t max, int *outcome);
