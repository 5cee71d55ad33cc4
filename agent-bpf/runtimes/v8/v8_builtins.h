/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where the code of V8's builtins lies in an executable, which part of it handles bytecodes, and
 * how long bytecodes are. The symbol table tells; in a stripped file, machine code of two exported
 * functions tells which variables have the builtins' address and size. Thread: the file's owner's.
 */
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/runtimes/v8/v8_file.h"

/* Fills the fields of builtins, handlers and bytecodes; what is not found stays 0. 0, or negative
 * errno. */
int v8_builtins_find(const struct elf_dynamic *dynamic, struct v8_file *file);
