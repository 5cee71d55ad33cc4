/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is kept of a process with V8 from one request to the next. Keys are unique in the process
 * and kind. Thread: the symbolizer's loop. */
#include "base/bytes.h"

enum v8_kept { V8_KEPT_LINES, V8_KEPT_TRAIL };

struct v8_store {
    /* The value is borrowed until the next put. */
    bool (*get)(void *context, enum v8_kept kind, const uint64_t key[3], struct bytes *value);
    void (*put)(void *context, enum v8_kept kind, const uint64_t key[3], struct bytes value);
    void *context;
};
