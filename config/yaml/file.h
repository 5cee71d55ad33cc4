/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads a small file whole. Private to config/. Thread: the one that loads; blocks on a pipe given
 * by
 * --config (process substitution), never with FILE_REGULAR_ONLY.
 */
#include "base/buf.h"

enum file_kind { FILE_ANY, FILE_REGULAR_ONLY };

/* NULL, or the rest of a sentence that begins with the file's name: "cannot be opened: ...".
 * The text is static or strerror()'s: use it before the next call. Limit: CONFIG_FILE_MAX bytes. */
const char *file_read(const char *path, enum file_kind kind, struct buf *out);
