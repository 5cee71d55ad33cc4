/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How far a process has come on the way to publishing which span its threads work for, as it can be
 * seen from outside. The symbolizer tells it with the process's context; PUBLISHER_ACTIVE follows
 * from samples.
 */
#include "context/context_unreadable.h"

#define PUBLISHER_STATE_ROWS(ROW)                                                                  \
    ROW(NONE, none)               /* no publisher was seen in it */                                \
    ROW(OFF, off)                 /* SPANPROF_CONTEXT=off in its environment */                    \
    ROW(STARTED, started)         /* its environment turns a publisher on; none is loaded */       \
    ROW(NO_LIBRARY, no_library)   /* a publisher says that its library cannot be loaded there */   \
    ROW(VERSION, unknown_version) /* ... that it does not know a version of what it is for */      \
    ROW(TAKEN, taken)             /* ... that another library publishes */                         \
    ROW(FAILED, failed)           /* ... that something else failed */                             \
    ROW(LOADED, loaded)   /* a publisher's library is mapped, which has published nothing */       \
    ROW(PROCESS, process) /* it publishes its Resource alone, not the spans of its threads */      \
    ROW(UNREADABLE, unreadable) /* it publishes; why it cannot be read is a context_unreadable */  \
    ROW(READ, read)             /* its threads' contexts are read */                               \
    ROW(ACTIVE, active)         /* samples had ids */

#define PUBLISHER_STATE_ENUM_ROW(symbol, id) PUBLISHER_##symbol,
enum publisher_state { PUBLISHER_STATE_ROWS(PUBLISHER_STATE_ENUM_ROW) PUBLISHER_STATES };
#undef PUBLISHER_STATE_ENUM_ROW

/* A publisher that gives up says so in its process's maps, and nowhere else: it maps the file of
 * this name and the state's, which lies beside it, or a memfd of that name. */
#define PUBLISHER_REFUSAL "spanprof-refused-"

extern const char *const publisher_state_names[PUBLISHER_STATES];
