/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The name of a frame as bytes, for the cache of the runtimes. Thread: any. */
#include "agent-bpf/runtimes/runtime_reader.h"
#include "base/buf.h"

/* A name with lines. 0 or -ENOMEM. */
int runtime_name_pack(const struct runtime_name *name, struct buf *out);
/* Of what was packed: texts, with a NUL behind each, and lines lie in the arena. 0 or -ENOMEM. */
int runtime_name_unpack(struct bytes packed, struct arena *arena, struct runtime_name *name);
