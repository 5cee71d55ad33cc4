/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * A thread that leaves Java's code notes its last frame of Java (JavaFrameAnchor). Where native
 * code cannot be unwound the walk goes on there. Source: javaFrameAnchor.hpp, HotSpot 11 to 25.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_blob.h"

/* thread: a JavaThread. walk->sp: of the frame whose caller is not known. True: walk->caller is the
 * last frame of Java, which lies above. */
HOTSPOT_FUNCTION int hotspot_find_anchor(struct hotspot_walk *walk,
                                         const struct hotspot_process *process, __u64 thread)
{
    if (!walk || !process)
        return false;
    const struct hotspot_thread_layout *layout = &process->thread;
    struct hotspot_caller *caller = &walk->caller;
    __u64 at = thread + layout->anchor;
    if (hotspot_read(walk, &caller->sp, sizeof(caller->sp), at + layout->anchor_sp) ||
        hotspot_read(walk, &caller->pc, sizeof(caller->pc), at + layout->anchor_pc) ||
        hotspot_read(walk, &caller->fp, sizeof(caller->fp), at + layout->anchor_fp))
        return false;
    if (caller->sp % 8 || caller->sp < walk->sp)
        return false;
    if (!caller->pc && !hotspot_word(walk, caller->sp - 8, &caller->pc))
        return false;
    return hotspot_holds(process, caller->pc);
}
