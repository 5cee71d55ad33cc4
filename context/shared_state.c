/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries loaded by dlopen(RTLD_LOCAL) do not see each other's symbols: each would bind to its
 * own copy. STB_GNU_UNIQUE is the one binding for which glibc keeps a single definition in the
 * process regardless, and keeps the library that has it loaded; C has no word for it, hence the
 * assembly. musl treats it as any global symbol.
 */
#include "context/shared_state.h"

#define TEXT_(value) #value
#define TEXT(value)  TEXT_(value)

#define UNIQUE_OBJECT(section, name, size)                                                         \
    __asm__(".pushsection " section "\n\t.balign 8\n\t"                                            \
            ".type " name ", %gnu_unique_object\n\t"                                               \
            ".size " name ", " TEXT(size) "\n" name ":\n\t.zero " TEXT(size) "\n\t.popsection")

UNIQUE_OBJECT(".tbss,\"awT\",%nobits", "otel_thread_ctx_v1", 8);
UNIQUE_OBJECT(".tbss,\"awT\",%nobits", "spanprof_context_records_v1", SHARED_RECORDS_BYTES);
UNIQUE_OBJECT(".bss,\"aw\",%nobits", "spanprof_context_process_v1", SHARED_PROCESS_BYTES);
