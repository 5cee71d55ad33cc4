/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * PHP's strings (zend_string) in the memory of a process, each read once: all together, then the
 * rest of those that are longer than the first read. A string's hash is of its characters, so those
 * that were read are the ones that it was made of. Symbolizer only. Limits: PHP_TEXTS_MAX strings;
 * of one longer than PHP_TEXT_BYTES nothing but that it is there.
 */
#include "agent-bpf/runtimes/runtime_memory.h"
#include "base/arena.h"
#include "base/bytes.h"

#define PHP_TEXTS_MAX  1536
#define PHP_TEXT_BYTES 4096

struct php_text {
    uint64_t address;
    int error; /* of reading it: 0 or negative errno; -EINVAL: there is no such string */
    uint64_t hash, length;
    struct bytes bytes;
    /* of the read */
    uint8_t *data;
    size_t size;
    bool is_done;
};

struct php_texts {
    struct runtime_memory *memory;
    struct arena *arena;
    struct php_text *of; /* in the order of their addresses once they are read */
    size_t n;
};

int php_texts_open(struct php_texts *texts, struct runtime_memory *memory, struct arena *arena);
/* 0 is no string. Before php_texts_read(). */
void php_texts_want(struct php_texts *texts, uint64_t address);
/* 0; -EAGAIN, another negative errno of the memory. */
int php_texts_read(struct php_texts *texts);
/* NULL: it was not wanted, or was one too many. */
const struct php_text *php_texts_find(const struct php_texts *texts, uint64_t address);
