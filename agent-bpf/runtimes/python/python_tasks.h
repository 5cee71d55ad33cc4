/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where asyncio's tasks have their names: the section .AsyncioDebug, from 3.14 on, of a file that
 * _asyncio is linked into: an extension of its own, or the interpreter. Symbolizer only.
 */
#include "agent-bpf/files/elf.h"
#include "agent-bpf/runtimes/python_process.h"

/* 0; *tasks is empty otherwise. -ENOENT: the file has none; -ENOTSUP: not as 3.14 has them. */
int python_tasks_open(const struct elf *elf, struct python_tasks *tasks);
