/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name of 500 bytes can stand for 2^50 bytes of text, as it may repeat its own parts. The library
 * hands its output over piece by piece but takes no answer, so the way out is a jump. It is only
 * taken from ASCII pieces: others may lie in memory that the library frees behind the call
 * (Punycode of Rust). All else that it allocates is on the stack.
 */
#include "agent-bpf/symbols/demangle.h"
#include <demangle.h>
#include <setjmp.h>
#include <string.h>

struct sink {
    char *out;
    size_t len, size;
    jmp_buf full;
};

static bool is_ascii(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

static void output_append(const char *text, size_t len, void *opaque)
{
    struct sink *sink = opaque;
    size_t room = sink->size - 1 - sink->len;
    size_t now = len < room ? len : room;
    if (now) /* the library also hands over nothing, at NULL */
        memcpy(sink->out + sink->len, text, now);
    sink->len += now;
    if (now < len && is_ascii(text, len))
        longjmp(sink->full, 1);
}

static bool demangler_run(int (*demangler)(const char *, int, demangle_callbackref, void *),
                          const char *name, char *out, size_t size)
{
    struct sink sink = {.out = out, .size = size};
    bool done = setjmp(sink.full) || demangler(name, DMGL_ANSI, output_append, &sink);
    out[sink.len] = 0;
    return done && sink.len;
}

bool demangle(const char *name, char *out, size_t size)
{
    if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R'))
        return false;
    return demangler_run(rust_demangle_callback, name, out, size) ||
           (name[1] == 'Z' && demangler_run(cplus_demangle_v3_callback, name, out, size));
}
