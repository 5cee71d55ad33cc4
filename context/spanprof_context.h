/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPANPROF_CONTEXT_H
#define SPANPROF_CONTEXT_H
/*
 * libspanprof-context: tells a profiler outside of this process who the process is and which trace
 * and span each of its threads is working on, by the OpenTelemetry process context (OTEP 4719) and
 * thread context (OTEP 4947) ABIs. Publishing is writing to this process's own memory: no socket,
 * no thread, no call into the kernel when a thread changes its span.
 *
 *     struct spanprof_attribute resource[] = {{"service.name", "shop"}, {"service.version",
 * "1.4"}}; spanprof_context_publish(resource, 2);             once, at start
 *
 *     struct spanprof_context outer;                     around each span, on the thread that works
 *     spanprof_context_enter(trace_id, span_id, trace_flags, &outer);
 *     ...
 *     spanprof_context_attach(&outer);
 *
 *     spanprof_context_withdraw();                       at shutdown, if at all
 *
 * Several users in one process (a program and its libraries, each with this library linked in or
 * loaded, by dlopen() too) share one process context and one thread context: attributes and keys
 * merge, the context is withdrawn when the last user has withdrawn it, and a span entered by one
 * user is what spanprof_context_enter() of another saves and what spanprof_context_attach() brings
 * back. For that, executables that link the static library export its three data symbols
 * (`pkg-config --libs spanprof-context-static` has the options). With musl, two private copies
 * loaded by dlopen() without RTLD_GLOBAL cannot find each other; the second gets -EEXIST from
 * spanprof_context_publish().
 *
 * Errors: 0 or a negative errno, as each function says. On an error nothing was changed, unless it
 * says otherwise.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(SPANPROF_CONTEXT_HIDDEN)
#define SPANPROF_CONTEXT_API __attribute__((visibility("hidden")))
#else
#define SPANPROF_CONTEXT_API __attribute__((visibility("default")))
#endif

/*
 * The process. These functions may be called from any thread, but not from signal handlers. They
 * wait for each other, allocate nothing on the heap, and may be called again after fork().
 *
 * Limits: SPANPROF_RESOURCE_ATTRIBUTES_MAX attributes, keys of 1..255 bytes, values of 0..4096
 * bytes, together SPANPROF_RESOURCE_BYTES_MAX (counting 4 bytes for each attribute); all UTF-8.
 */
#define SPANPROF_RESOURCE_ATTRIBUTES_MAX 128
#define SPANPROF_RESOURCE_BYTES_MAX      16384

struct spanprof_attribute {
    const char *key;
    const char *value; /* NULL: remove the attribute */
};

/*
 * Publishes the process context with these resource attributes (service.name, service.instance.id,
 * ...: what the program's telemetry has as its Resource), added to those there are; one with the
 * same key is replaced. attributes may be NULL if n is 0. Strings are copied. Each call is to be
 * paired with one of spanprof_context_withdraw().
 *
 * After fork() the child has no process context, until it publishes: it may give the attributes
 * that are its own (service.instance.id) and keeps the others; its users are counted from zero.
 *
 * -EINVAL: a key is NULL, empty or too long, a value too long. -EILSEQ: not UTF-8. -ENOSPC: a
 * limit. -EEXIST: something other than this library has published a process context. -ENOMEM,
 * -ENOTSUP: the kernel gave no memory, or no way to name it.
 */
SPANPROF_CONTEXT_API int spanprof_context_publish(const struct spanprof_attribute *attributes,
                                                  size_t n);

/* Adds, replaces or removes resource attributes of a published context. As above, and -ENOENT: not
 * published in this process. */
SPANPROF_CONTEXT_API int spanprof_context_update(const struct spanprof_attribute *attributes,
                                                 size_t n);

/* Takes one spanprof_context_publish() back; the last one removes the context, with its resource
 * attributes. -ENOENT: not published in this process. */
SPANPROF_CONTEXT_API int spanprof_context_withdraw(void);

/*
 * The index 0..255 for a thread attribute of this name ("http.route"), the same at each call and
 * for all users; published with the process context, before or after it. For start-up: keep the
 * result. -EINVAL, -EILSEQ: as above. -ENOSPC: all 256 indexes, or SPANPROF_CONTEXT_KEY_BYTES_MAX,
 * are in use (counting 1 byte for each key).
 */
#define SPANPROF_CONTEXT_KEY_BYTES_MAX 8192
SPANPROF_CONTEXT_API int spanprof_context_key(const char *name);

/*
 * The thread. These functions act on the calling thread alone; they take no locks, allocate nothing
 * and make no system calls (in a library loaded by dlopen(), libc may allocate the thread's storage
 * when the thread calls its first one). The record is whole whenever a profiler stops the thread.
 *
 * They may be called from signal handlers, after the thread has called one of them outside of
 * handlers. -EBUSY: the handler has interrupted one that changes the context; nothing was changed.
 */
#define SPANPROF_CONTEXT_ATTRIBUTES_MAX 208 /* bytes; an attribute takes 2 and its value */

/* A context as a value: to be saved and attached again, on any thread. All zero: no context. */
struct spanprof_context {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t reserved;
    uint8_t trace_flags; /* W3C */
    uint16_t attributes_size;
    uint8_t attributes[SPANPROF_CONTEXT_ATTRIBUTES_MAX]; /* spanprof_context_add() */
};

/*
 * The thread now works on this span, without attributes. Ids are bytes in network order, as in
 * OTLP. All ids zero: as spanprof_context_clear(). -EINVAL: one id is zero, the other is not; the
 * thread has no context then, since the old one is not right either. -EBUSY.
 */
SPANPROF_CONTEXT_API int spanprof_context_set(const uint8_t trace_id[16], const uint8_t span_id[8],
                                              uint8_t trace_flags);

/* The thread works on no span. -EBUSY. */
SPANPROF_CONTEXT_API int spanprof_context_clear(void);

/* As spanprof_context_set(), with what was there before in *previous (only as many bytes of
 * attributes are written as there are). With -EBUSY *previous is what is there. */
SPANPROF_CONTEXT_API int spanprof_context_enter(const uint8_t trace_id[16],
                                                const uint8_t span_id[8], uint8_t trace_flags,
                                                struct spanprof_context *previous);

/* The thread now has this context, with its attributes, in one step: the way back from
 * spanprof_context_enter(), and the switch of coroutines. As spanprof_context_set(), and -EINVAL:
 * attributes_size is more than fits; no context then. */
SPANPROF_CONTEXT_API int spanprof_context_attach(const struct spanprof_context *context);

/* The context that the thread has now; all ids zero if it has none. */
SPANPROF_CONTEXT_API void spanprof_context_get(struct spanprof_context *context);

/*
 * Sets one attribute of the thread's context; size 0..255 bytes of UTF-8. It holds until the
 * context is replaced. A value for the same key is replaced. -EINVAL: key not from
 * spanprof_context_key(), or size. -ENOENT: the thread has no context. -ENOSPC: more than
 * SPANPROF_CONTEXT_ATTRIBUTES_MAX. -EBUSY.
 */
SPANPROF_CONTEXT_API int spanprof_context_set_attribute(int key, const void *value, size_t size);

/* The same for a context that is a value. -EINVAL, -ENOSPC. */
SPANPROF_CONTEXT_API int spanprof_context_add(struct spanprof_context *context, int key,
                                              const void *value, size_t size);

#ifdef __cplusplus
}
#endif
#endif
