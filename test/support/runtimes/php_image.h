/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The memory of a process with PHP in it, made by hand: its list of extensions, and frames in two
 * activations of execute_ex(): a closure's that usort() calls, and a method that was called from
 * the script. Everything lies in IMAGE_BYTES from IMAGE_START on; other addresses cannot be read.
 */
#include "agent-bpf/runtimes/php/php_file.h"

#define IMAGE_START 0x100000
#define IMAGE_BYTES 0x8000

#define IMAGE_GLOBALS   (IMAGE_START + 0x0000)
#define IMAGE_MODULES   (IMAGE_START + 0x1000) /* the table; 0x100 behind: its entries, the first */
#define IMAGE_FRAMES    (IMAGE_START + 0x2000) /* 0x80 bytes each */
#define IMAGE_FUNCTIONS (IMAGE_START + 0x3000) /* 0x100 bytes each */
#define IMAGE_CODE      (IMAGE_START + 0x4000) /* 0x100 bytes each: opcodes */
#define IMAGE_TEXTS     (IMAGE_START + 0x5000) /* 0x100 bytes each */
#define IMAGE_CLASS     (IMAGE_START + 0x6000)
#define IMAGE_OBJECTS   (IMAGE_START + 0x7000) /* of generators, 0x200 bytes each */

#define IMAGE_FRAMES_N 5
#define IMAGE_OPS      4 /* opcodes of each function; a frame is at the third, IMAGE_LINE(i) */
#define IMAGE_LINE(i)  (100u * ((i) + 1) + 2)

enum php_image_text {
    IMAGE_TEXT_CLOSURE,
    IMAGE_TEXT_USORT,
    IMAGE_TEXT_METHOD,
    IMAGE_TEXT_CLASS,
    IMAGE_TEXT_FILE,
    IMAGE_TEXT_OTHER_FILE,
    IMAGE_TEXTS_N
};
#define IMAGE_TEXT(text) ((uint64_t)IMAGE_TEXTS + 0x100 * (uint64_t)(text))

struct php_image {
    uint8_t bytes[IMAGE_BYTES];
    struct php_constants constants;
    struct php_layout layout;
    size_t calls;                  /* of reading */
    struct runtime_memory *memory; /* of the request */
};

/* What the frames are named, leaf first, and their files; "" for none. */
extern const char *const php_image_functions[IMAGE_FRAMES_N];
extern const char *const php_image_files[IMAGE_FRAMES_N];

/* api: as in php_layout(), which must know it. */
void php_image_make(struct php_image *image, uint32_t api);
void php_image_put(struct php_image *image, uint64_t address, const void *bytes, size_t size);
void php_image_word(struct php_image *image, uint64_t address, uint64_t word);
void php_image_text(struct php_image *image, uint64_t address, struct bytes text);
/* A frame, and the function that it is of. */
#define IMAGE_FRAME(i)    ((uint64_t)IMAGE_FRAMES + 0x80 * (uint64_t)(i))
#define IMAGE_FUNCTION(i) ((uint64_t)IMAGE_FUNCTIONS + 0x100 * (uint64_t)(i))
#define IMAGE_OP(i, n)    ((uint64_t)IMAGE_CODE + 0x100 * (uint64_t)(i) + 32 * (uint64_t)(n))

/* As struct runtime_memory has it; context: the image. */
int php_image_read(void *context, struct reader_range *ranges, size_t n);
/* *memory: of the image, for one request of at most so many bytes. */
void php_image_memory(struct php_image *image, struct runtime_memory *memory, size_t bytes);
/* The list: words as in a record. opline: as php_list_begin() has it. *outcome: the last one. */
size_t php_image_list(struct php_image *image, const struct php_process *process, uint64_t opline,
                      uint64_t *words, size_t max, int *outcome);
