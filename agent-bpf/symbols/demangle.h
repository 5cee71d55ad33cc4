/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Demangles C++ (Itanium ABI) and Rust (legacy and v0) names with GNU libiberty: with template
 * arguments, without parameter types and hashes, as perf and pprof do. The cost of hostile names is
 * bounded by the library's limits of length and depth; it stops once the output is full. Symbolizer
 * only.
 */
#include <stdbool.h>
#include <stddef.h>

/* False: it is not a well-formed mangled name; out is undefined then. The output is cut
 * to fit, with NUL; not sanitized. */
bool demangle(const char *name, char *out, size_t size);
