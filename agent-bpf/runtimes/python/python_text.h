/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * str objects of CPython as UTF-8. Pure; any bytes are an object. Source of the format: PEP 393;
 * Include/cpython/unicodeobject.h of 3.8 to 3.14.
 */
#include "agent-bpf/runtimes/python/python_layout.h"

#define PYTHON_TEXT_MAX 512 /* characters; longer texts are cut */

/* Bytes that are needed of the object, by its beginning; 0: it is no compact string, or not ready,
 * or `object` is shorter than what a string begins with. */
size_t python_text_size(const struct python_layout *layout, struct bytes object);
/* Valid UTF-8 without control characters, with NUL, of at most size - 1 bytes; returns the length.
 * object: its first python_text_size() bytes at least. */
size_t python_text(const struct python_layout *layout, struct bytes object, char *out, size_t size);
