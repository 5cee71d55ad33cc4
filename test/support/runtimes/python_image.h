/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The memory of a process with CPython in it, made by hand: an interpreter with two threads, of
 * which the first has four Python frames in two activations of the evaluation function. Everything
 * lies in IMAGE_BYTES from IMAGE_START on, each kind of thing in pages of its own; other addresses
 * cannot be read. Names have characters of all widths.
 */
#include "agent-bpf/runtimes/python/python_file.h"
#include "agent-bpf/runtimes/python_process.h"

#define IMAGE_START 0x100000
#define IMAGE_BYTES 0x10000
#define IMAGE_PAGE  0x1000

#define IMAGE_RUNTIME     (IMAGE_START + 0x0000)
#define IMAGE_INTERPRETER (IMAGE_START + 0x2000)
#define IMAGE_DESCRIPTORS (IMAGE_START + 0x4000) /* a page for each thread: its thread pointer */
#define IMAGE_THREADS     (IMAGE_START + 0x6000) /* 0x200 bytes each */
#define IMAGE_ARRAYS      (IMAGE_START + 0x7000) /* of values of keys, 0x800 bytes each */
#define IMAGE_FRAMES      (IMAGE_START + 0x8000) /* 0x100 bytes each; the last two are no frames */
#define IMAGE_CFRAMES     (IMAGE_START + 0x9000) /* 0x40 bytes each */
#define IMAGE_CODES       (IMAGE_START + 0xa000) /* 0x200 bytes each */
#define IMAGE_TEXTS       (IMAGE_START + 0xb000) /* 0x200 bytes each: file, function, ... */
#define IMAGE_TABLES      (IMAGE_START + 0xd000) /* 0x100 bytes each */
#define IMAGE_TYPE        (IMAGE_START + 0xe000)
#define IMAGE_TEXT_TYPE   (IMAGE_START + 0xe100)
#define IMAGE_NUMBER_TYPE (IMAGE_START + 0xe200)
#define IMAGE_TASK_TYPE   (IMAGE_START + 0xe300)
#define IMAGE_TASK        (IMAGE_START + 0xf000) /* that the first thread runs, from 3.14 on */
#define IMAGE_TASK_NAME   (IMAGE_START + 0xf800)

#define IMAGE_FRAMES_N   4
#define IMAGE_FIRST_LINE 10 /* of the first code object; 10 more for each further one */
#define IMAGE_LINE_MORE  3  /* lines from there on to the frame's */
#define IMAGE_UNITS      40 /* of each code object */
#define IMAGE_LASTI      7  /* of each frame */

enum image_slots { IMAGE_SLOT_DIRECT, IMAGE_SLOT_GLIBC, IMAGE_SLOT_MUSL };

/* As the linker has them for 3.14.3; the first thread's is in front of the second thread. */
#define IMAGE_THREAD_TASK  0x1c0
#define IMAGE_TASK_SIZE    168
#define IMAGE_TASK_NAMED   136
#define IMAGE_TASK_IS_TASK 108

struct python_image {
    uint8_t bytes[IMAGE_BYTES];
    struct python_constants constants;
    struct python_tasks tasks;     /* from 3.14 on */
    uint64_t apart;                /* as python_list_begin() has it */
    size_t calls;                  /* of reading */
    uint64_t renamed_at;           /* once this is read the task has another name; 0: never */
    struct runtime_memory *memory; /* of the request */
};

/* In UTF-8; what the frames of the first thread are named. */
extern const char *const python_image_functions[IMAGE_FRAMES_N];
extern const char *const python_image_files[IMAGE_FRAMES_N];

/* minor: 8 to 14. False: python_layout() refuses what is made. */
bool python_image_make(struct python_image *image, unsigned minor, bool free_threaded,
                       enum image_slots slots);
/* Debug offsets as a build of that version has them; minor: 13 or 14. */
void python_image_offsets(unsigned minor, bool free_threaded,
                          uint64_t offsets[PYTHON_DEBUG_OFFSETS_BYTES / 8]);
void python_image_put(struct python_image *image, uint64_t address, const void *bytes, size_t size);
void python_image_word(struct python_image *image, uint64_t address, uint64_t word);
uint64_t python_image_get(const struct python_image *image, uint64_t address);

/* As struct runtime_memory has it; context: the image. */
int python_image_read(void *context, struct reader_range *ranges, size_t n);
/* *memory: of the image, for one request of at most so many bytes. */
void python_image_memory(struct python_image *image, struct runtime_memory *memory, size_t bytes);
/* The list of the thread with this thread pointer: words as in a record. *outcome: the last one. */
size_t python_image_list(struct python_image *image, const struct python_process *process,
                         uint64_t tp, uint64_t *words, size_t max, int *outcome);
/* The first thread's task is named so. */
void python_image_name_task(struct python_image *image, const char *utf8);
void python_image_number_task(struct python_image *image, uint64_t number);
/* What the tick has of the thread's task; bytes of it. */
size_t python_image_task(struct python_image *image, const struct python_process *process,
                         uint64_t tp, struct record_task *task);
