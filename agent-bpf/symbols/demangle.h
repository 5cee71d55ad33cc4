/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names of C++ (Itanium ABI) and Rust (legacy and v0) as their authors wrote them, by GNU
 * libiberty: with template arguments, without types of parameters and hashes, like perf and pprof
 * show them. Hostile names cost at most the library's own limits of length and depth, and stop once
 * the output is full. Symbolizer only.
 */
#include <stdbool.h>
#include <stddef.h>

/* False: it is no mangled name, or not a well-formed one; out is undefined then. The output is cut
 * to fit, with NUL; not sanitized. */
bool demangle(const char *name, char *out, size_t size);
