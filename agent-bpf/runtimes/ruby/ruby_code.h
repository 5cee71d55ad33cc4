/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What only the interpreter's code tells: in a stripped file neither vm_exec(), nor vm_exec_core(),
 * nor the thread-local variable of the execution context has a name. Exported functions lead to
 * them. Instructions are looked for without decoding all of them; what is found must agree. x86-64.
 */
#include "agent-bpf/runtimes/ruby/ruby_file.h"

/* The thread-local variable that a function reads first. False: it is not found. */
bool ruby_code_current(const struct elf *elf, const Elf64_Sym *function,
                       struct ruby_constants *constants);
/* The one function that both end with. */
bool ruby_code_common(const struct elf *elf, const Elf64_Sym *first, const Elf64_Sym *second,
                      struct runtime_range *common);
/* The largest function that this one calls, if it is as large as an interpreter. */
bool ruby_code_largest(const struct elf *elf, const struct runtime_range *function,
                       struct runtime_range *largest);
