/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a file with PHP in it tells: its executables, libphp, or a program that embeds it.
 * Recognised by what extensions need of it, never by its name; PHP 7.4 and later export all of it.
 * Addresses are the file's. Symbolizer only; reads only through its argument; any file is taken.
 */
#include "agent-bpf/runtimes/php/php_layout.h"
#include "agent-bpf/runtimes/runtime_reader.h"

struct php_constants {
    uint64_t globals;   /* executor_globals */
    uint64_t modules;   /* module_registry: the list of its extensions */
    uint64_t generator; /* zend_ce_generator: where the address of that class is; 0: not exported */
    struct runtime_range evaluation[RUNTIME_EVALUATION_MAX];
};

/* Outcomes as in struct runtime_reader. */
int php_file_open(const struct elf *elf, struct php_constants *constants,
                  enum runtime_refusal *why);
