/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the targets of runtimes with lists of their own have in common: an image of a process's
 * memory in which the input puts words, the list that is found in it, and its frames.
 */
#include "agent-bpf/runtimes/runtime_reader.h"

#define LIST_INPUT_REQUEST ((size_t)1 << 20) /* bytes of memory that names may read */
#define LIST_INPUT_WORDS   (3 * 512)

/* Each time two bytes for where (in units of 8 bytes, in size bytes from start on) and eight bytes
 * for what. put: of an image. */
typedef void list_input_put(void *image, uint64_t address, uint64_t word);
void list_input_put_words(struct bytes input, uint64_t start, size_t size, list_input_put *put,
                          void *image);

/* words: of a list, n of them. Names its frames and asserts what every answer must be. */
typedef int list_input_names(void *context, const struct record_frame *frames, size_t n,
                             struct runtime_names *out);
void list_input_name(const uint64_t *words, size_t n, list_input_names *names, void *context);

/* Puts the list between native frames that the input makes. */
void list_input_interleave(const uint64_t *words, size_t n, struct bytes input);
