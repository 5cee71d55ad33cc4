/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names of HotSpot's frames: class.method, source file, line, for compiled code the functions that
 * were inlined at that place too. A frame carries what identifies its object; where another is
 * found there now the frame is RUNTIME_FRAME_STALE. All frames of a call are looked at together,
 * level by level, so that their number does not count but that of levels: some 10 requests to the
 * process. The cache keeps names of places in compiled code, which no other code gets, and of other
 * objects the places that their names were read from (hotspot_trail.h): known ones take no request
 * and two. Limits: HOTSPOT_FRAMES_MAX frames, RUNTIME_LINES_MAX lines of each, bytes as
 * runtime_memory.h. Errors: 0: each frame has its outcome; -ENOMEM; -E2BIG; those of the memory.
 * Source of the formats: HotSpot's debugInfo, pcDesc, constMethod, symbol; UNSIGNED5.
 */
#include "agent-bpf/runtimes/hotspot_process.h"
#include "agent-bpf/runtimes/runtime_reader.h"

#define HOTSPOT_FRAMES_MAX 512

/* cache: NULL: nothing is remembered. */
int hotspot_names(const struct hotspot_process *process, struct runtime_cache *cache,
                  struct runtime_memory *memory, const struct record_frame *frames, size_t n,
                  struct runtime_names *names);
