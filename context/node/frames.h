/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Node's own thread context (otel_thread_ctx_nodejs_v1, context/context_layout.h). With
 * AsyncContextFrame (Node 24 and later, 22 with its flag) V8 itself changes the frame when tasks
 * switch, so nothing has to be written then: the thread's variable leads to the frame, and there
 * the key leads to the record.
 *
 * V8's headers differ between versions, and so would the addon. So the places are looked for, by
 * what a reader does later: a place where it would not find the record is none. Thread: that of
 * the JavaScript that calls.
 */
#include <node_api.h>
#include <stdbool.h>
#include <stdint.h>

struct frames {
    uint64_t slot; /* of the current frame; 0: not found */
    napi_ref key;  /* keeps als_handle alive */
};

/* Called while the current frame has `value`, a DataView, under `key`, an AsyncLocalStorage.
 * True: the frame, the key and the view's memory can be found by the thread's variable. */
bool frames_find(struct frames *frames, napi_env env, napi_value key, napi_value value);
/* From now on they are read; or no longer. */
void frames_show(const struct frames *frames);
void frames_hide(void);
/* The record that is read now; NULL: none. */
const void *frames_record(void);
