/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runtimes of programs: how each is recognised, and how its spans get their CPU time. One row
 * for each. The answer of /api/status, the Status page and `spanprof status` are made from it. A
 * new runtime is a row here and a file in test_runtime_find.c; what else is read of a runtime has a
 * room of its own, agent-bpf/runtimes/ID.
 *
 * The columns:
 *   SYMBOL    the constant is RUNTIME_SYMBOL
 *   id        the name in answers and on pages
 *   exports   names of symbols with spaces between them: a file that exports one of them is the
 *             runtime. "": agent-bpf/runtimes/runtime_find.c has another way
 *   line      the one switch, as it is copied: a command, or a line of code; "": there is none yet
 *   where     the place of a line of code, and what it needs; "" for commands
 *   by_hand   what the command sets, for units and images that cannot run it; "" for code
 *   variable  environment variable that the switch sets; "": none
 *   mark      part of its value once the switch has set it
 *
 * The order is the precedence: of several libraries in one process the first row counts. NATIVE
 * comes last: nothing else was recognised.
 */
#include <stddef.h>

#define RUNTIME_EXEC       "spanprof exec -- COMMAND"
#define RUNTIME_PUBLISHERS "/usr/lib/spanprof/publishers"

/* Those that a room below agent-bpf/runtimes reads the frames of, or will. */
#define RUNTIME_READER_ROWS(ROW)                                                                   \
    ROW(PYTHON, python, "_PyRuntime Py_Main", RUNTIME_EXEC, "",                                    \
        "PYTHONPATH=" RUNTIME_PUBLISHERS "/python", "PYTHONPATH", "publishers/python")             \
    ROW(JAVA, java, "JNI_CreateJavaVM", RUNTIME_EXEC, "",                                          \
        "OTEL_JAVAAGENT_EXTENSIONS=" RUNTIME_PUBLISHERS "/java/spanprof-java.jar",                 \
        "OTEL_JAVAAGENT_EXTENSIONS", "publishers/java")                                            \
    ROW(NODE, node, "_ZN4node5StartEiPPc", RUNTIME_EXEC, "",                                       \
        "NODE_OPTIONS=--require=" RUNTIME_PUBLISHERS "/node/preload.js", "NODE_OPTIONS",           \
        "publishers/node")                                                                         \
    ROW(RUBY, ruby, "ruby_init", "spanprof exec --with ruby -- COMMAND", "",                       \
        "RUBYOPT=-r" RUNTIME_PUBLISHERS "/ruby/spanprof_otel.rb", "RUBYOPT", "publishers/ruby")    \
    ROW(PHP, php, "php_module_startup", "", "", "", "", "")

#define RUNTIME_ROWS(ROW)                                                                          \
    RUNTIME_READER_ROWS(ROW)                                                                       \
    ROW(DOTNET, dotnet, "coreclr_initialize DotNetRuntimeInfo",                                    \
        "spanprof exec --with dotnet -- COMMAND", "",                                              \
        "DOTNET_STARTUP_HOOKS=" RUNTIME_PUBLISHERS "/dotnet/spanprof_otel.dll",                    \
        "DOTNET_STARTUP_HOOKS", "publishers/dotnet")                                               \
    ROW(BEAM, beam, "enif_alloc_env erl_drv_thread_create", "", "", "", "", "")                    \
    ROW(PERL, perl, "perl_construct", "", "", "", "", "")                                          \
    ROW(LUAJIT, luajit, "luaJIT_setmode", "", "", "", "", "")                                      \
    ROW(GO, go, "", "otel.SetTracerProvider(spanprofotel.Wrap(provider))",                         \
        "in main, with the module spanprofotel", "", "", "")                                       \
    ROW(RUST, rust, "", "spanprof_otel::install(&resource);",                                      \
        "in main, with the crate spanprof-otel", "", "", "")                                       \
    ROW(NATIVE, native, "", "spanprof::ContextStorage::Install(resource);",                        \
        "in main of a C++ program, with spanprof/context_storage.h; C calls spanprof_context.h",   \
        "", "", "")

#define RUNTIME_ENUM_ROW(symbol, id, exports, line, where, by_hand, variable, mark)                \
    RUNTIME_##symbol,
enum runtime { RUNTIME_UNKNOWN, RUNTIME_ROWS(RUNTIME_ENUM_ROW) RUNTIMES };
#undef RUNTIME_ENUM_ROW

#define RUNTIMES_WITH_READER (RUNTIME_PHP + 1) /* of RUNTIME_UNKNOWN, and those rows */
#define RUNTIME_BIT(runtime) (1u << (runtime))

struct runtime_row { /* no field is NULL */
    const char *id, *exports, *line, *where, *by_hand, *variable, *mark;
};

/* runtime: any number; of RUNTIME_UNKNOWN, and of one that is none, all is "". */
const struct runtime_row *runtime_row(unsigned runtime);
