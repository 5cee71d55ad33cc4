/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is known of the frames of a process's runtime: whether they are read, why not, and where
 * their names come from else. The symbolizer tells it with the process's context; the states behind
 * NO_READER follow from samples. The answer of /api/status, the Status page and `spanprof status`
 * are made from these tables.
 */
#include "context/runtime.h"
#include <stdint.h>

/* Why a runtime's frames are not read: SYMBOL of the constant, text in metrics, and the sentence of
 * the Status page. */
#define RUNTIME_NOT_SHOWN "The functions of its runtime are not shown: "
#define RUNTIME_REFUSAL_ROWS(ROW)                                                                  \
    ROW(NONE, "none", "")                                                                          \
    ROW(UNKNOWN_LAYOUT, "unknown_layout",                                                          \
        RUNTIME_NOT_SHOWN "this version's layout is not known here.")                              \
    ROW(NOT_READY, "not_ready", RUNTIME_NOT_SHOWN "it has not started yet.")                       \
    ROW(STRIPPED, "stripped", RUNTIME_NOT_SHOWN "its file is stripped of what leads to them.")     \
    ROW(COMPRESSED_POINTERS, "compressed_pointers",                                                \
        RUNTIME_NOT_SHOWN "it is built with compressed pointers.")                                 \
    ROW(THREAD_SAFE, "thread_safe", RUNTIME_NOT_SHOWN "it is built thread-safe.")                  \
    ROW(NO_ROOM, "no_room", RUNTIME_NOT_SHOWN "the kernel's map of runtimes is full.")             \
    ROW(UNREADABLE, "unreadable", RUNTIME_NOT_SHOWN "its memory could not be read.")

#define RUNTIME_REFUSAL_ENUM_ROW(symbol, text, sentence) RUNTIME_REFUSAL_##symbol,
enum runtime_refusal { RUNTIME_REFUSAL_ROWS(RUNTIME_REFUSAL_ENUM_ROW) RUNTIME_REFUSALS };
#undef RUNTIME_REFUSAL_ENUM_ROW

/* SYMBOL of the constant, id in answers, and text on pages; "": the engine and its version. */
#define RUNTIME_FRAMES_STATE_ROWS(ROW)                                                             \
    ROW(UNKNOWN, unknown, "–")             /* not looked at yet */                                 \
    ROW(NATIVE, native, "native")          /* it has no others */                                  \
    ROW(READ, read, "")                    /* they are read */                                     \
    ROW(NOT_READY, not_ready, "not ready") /* the runtime has not started yet */                   \
    ROW(REFUSED, refused, "not read")      /* why is a runtime_refusal */                          \
    ROW(NO_READER, no_reader, "not read")  /* of this runtime they are not read */                 \
    ROW(PERF_MAP, perf_map, "perf map")    /* not read; its perf map has names of its code */      \
    ROW(UNNAMED, unnamed, "no names")      /* not read; samples are in code that no map names */

#define RUNTIME_FRAMES_STATE_ENUM_ROW(symbol, id, text) RUNTIME_FRAMES_##symbol,
enum runtime_frames_state {
    RUNTIME_FRAMES_STATE_ROWS(RUNTIME_FRAMES_STATE_ENUM_ROW) RUNTIME_FRAMES_STATES
};
#undef RUNTIME_FRAMES_STATE_ENUM_ROW

struct runtime_version {
    uint8_t major, minor; /* 0.0: not known */
    uint8_t parts;        /* that its users name: 1 or 2 */
};

struct runtime_frames {
    uint8_t state;   /* enum runtime_frames_state */
    uint8_t runtime; /* enum runtime: whose frames; RUNTIME_UNKNOWN: of native code */
    uint8_t refusal; /* enum runtime_refusal, if they are refused */
    struct runtime_version version;
};

/*
 * What runs the code of a runtime, and its perf map. The columns:
 *   symbol  of RUNTIME_ROWS
 *   engine  as it is called on pages
 *   type    profile.frame.type of the names in a perf map that it writes; "": they are "jit"
 *   line    the one switch that makes it write a perf map; "": there is none
 *   where   what the switch needs
 */
#define RUNTIME_ENGINE_ROWS(ROW)                                                                   \
    ROW(PYTHON, "CPython", "", "PYTHONPERFSUPPORT=1", "in its environment; from 3.12 on")          \
    ROW(JAVA, "HotSpot", "", "jcmd PID Compiler.perfmap",                                          \
        "from JDK 17 on; once it is warm, for code that was compiled by then")                     \
    ROW(NODE, "V8", "", "NODE_OPTIONS=--perf-basic-prof", "in its environment")                    \
    ROW(RUBY, "CRuby", "", "", "")                                                                 \
    ROW(PHP, "PHP", "", "", "")                                                                    \
    ROW(DOTNET, ".NET", "dotnet", "DOTNET_PerfMapEnabled=3", "in its environment")                 \
    ROW(BEAM, "BEAM", "beam", "ERL_FLAGS='+JPperf true'", "in its environment; from OTP 25 on")    \
    ROW(PERL, "Perl", "", "", "")                                                                  \
    ROW(LUAJIT, "LuaJIT", "luajit", "LUA_INIT=@" RUNTIME_PUBLISHERS "/luajit/perf_map.lua",        \
        "in its environment; a program that embeds LuaJIT runs this file itself")

struct runtime_engine { /* no field is NULL */
    const char *name, *type, *line, *where;
};

/* runtime: any number; of one without a row all is "". */
const struct runtime_engine *runtime_engine(unsigned runtime);

extern const char *const runtime_frames_state_names[RUNTIME_FRAMES_STATES];
extern const char *const runtime_frames_state_texts[RUNTIME_FRAMES_STATES];
extern const char *const runtime_refusal_sentences[RUNTIME_REFUSALS];
