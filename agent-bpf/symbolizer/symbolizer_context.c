/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process says of itself and of its threads, looked for and told. Order matters: first the
 * keys and the resource are told to the service, then the entry is written, so that no sample
 * carries attributes whose names are unknown; a socket to the agent comes last. What was told
 * already is not told again.
 */
#include "agent-bpf/symbolizer/symbolizer_parts.h"
#include "agent-bpf/contexts/unreadable.h"
#include "agent-bpf/files/proc_pid.h"
#include <errno.h>

static struct bytes mounts_of(struct look *look)
{
    struct symbolizer *symbolizer = look->symbolizer;
    if (!look->mounts_read && proc_pid_read(look->subject->pid, "mountinfo", &symbolizer->mounts))
        buf_clear(&symbolizer->mounts);
    look->mounts_read = true;
    return buf_bytes(&symbolizer->mounts);
}

bool look_is_harmless(struct look *look, uint64_t address, uint64_t size)
{
    return proc_maps_harmless(buf_bytes(&look->symbolizer->maps), mounts_of(look), address, size);
}

int look_memory(struct look *look, uint64_t address, void *out, size_t size)
{
    if (look_is_harmless(look, address, size))
        return proc_pid_memory(look->subject->pid, address, out, size);
    context_count_unreadable(CONTEXT_UNREADABLE_MEMORY);
    return -EFAULT;
}

/* The first mapping that holds a readable header. */
static int find_context(struct look *look)
{
    struct symbolizer *symbolizer = look->symbolizer;
    struct bytes rest = buf_bytes(&symbolizer->maps);
    struct proc_map map;
    int outcome = -ENOENT;
    if (!(symbolizer->settings.sources & CONTEXT_BIT(CONTEXT_OTEL_THREAD)))
        return outcome;
    while (proc_maps_next(&rest, &map)) {
        if (map.executable || !otel_context_named(map.path))
            continue;
        struct otel_context_source source = {.pid = look->subject->pid,
                                             .address = map.start,
                                             .maps = buf_bytes(&symbolizer->maps),
                                             .mounts = mounts_of(look)};
        outcome = otel_context_read(&source, symbolizer->payload, &symbolizer->context);
        if (!outcome) {
            look->subject->address = map.start;
            return 0;
        }
        context_count_unreadable(outcome == OTEL_CONTEXT_BUSY ? CONTEXT_UNREADABLE_BEING_CHANGED
                                                              : CONTEXT_UNREADABLE_MALFORMED);
    }
    return outcome;
}

static void take_context(struct look *look)
{
    struct subject *subject = look->subject;
    const struct otel_context *context = &look->symbolizer->context;
    look->has_context = true;
    subject->published_ns = context->published_ns;
    look->entry.published_address =
        subject->address + offsetof(struct otel_process_header, published_at_ns);
    look->entry.published_ns = context->published_ns;
    if (context->schema == OTEL_SCHEMA_THREAD_LOCAL)
        look->publishes |= CONTEXT_BIT(CONTEXT_OTEL_THREAD);
    if (context->schema == OTEL_SCHEMA_GO_LABELS)
        look->publishes |= CONTEXT_BIT(CONTEXT_GO_LABELS);
}

/* Every Go program has the variable; it publishes once a read has given labels. */
static void look_at_labels(struct look *look)
{
    struct context_process entry;
    const struct symbolizer *symbolizer = look->symbolizer;
    const unsigned go = CONTEXT_BIT(CONTEXT_GO_LABELS);
    bool alone = look_sources(look) == go && look->subject->sources == go;
    if (alone && ((look->subject->publishes & go) ||
                  (!attach_entry(symbolizer, look->subject, &entry) && entry.n_found)))
        look->publishes |= go;
}

static bool flags_are_set(const struct look *look, unsigned sources)
{
    const unsigned with_flags = CONTEXT_BIT(CONTEXT_OTEL_THREAD) | CONTEXT_BIT(CONTEXT_ELASTIC);
    return (sources & with_flags) && !look->flags_unsure;
}

static void digest_of(const struct symbolizer_message *message, uint8_t digest[16])
{
    const struct symbolizer_context *context = &message->context;
    const uint8_t head[] = {context->sources, context->publishes, context->sets_trace_flags};
    struct fnv128 fnv;
    fnv128_init(&fnv);
    fnv128_add(&fnv, head, sizeof(head));
    fnv128_add(&fnv, &context->resource.len, sizeof(context->resource.len));
    fnv128_add(&fnv, context->resource.data, context->resource.len);
    for (uint32_t i = 0; i < context->n_keys; i++) {
        fnv128_add(&fnv, &context->keys[i].len, sizeof(context->keys[i].len));
        fnv128_add(&fnv, context->keys[i].data, context->keys[i].len);
    }
    fnv128_finish(&fnv, digest);
}

static void say(struct look *look, const struct symbolizer_message *message)
{
    const struct symbolizer_context *context = &message->context;
    struct subject *subject = look->subject;
    uint8_t digest[16];
    bool something =
        context->sources || context->publishes || context->resource.len || context->n_keys;
    digest_of(message, digest);
    if (subject->reported ? !memcmp(digest, subject->told, sizeof(digest)) : !something)
        return;
    symbolizer_say(look->symbolizer, message);
    memcpy(subject->told, digest, sizeof(digest));
    subject->reported = something;
    subject->publishes = context->publishes;
}

static void tell(struct look *look, uint64_t time_ns, unsigned sources)
{
    const struct otel_context *context = &look->symbolizer->context;
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_CONTEXT,
        .context = {.pid = look->subject->pid,
                    .time_ns = time_ns,
                    .sources = (uint8_t)sources,
                    .publishes = (uint8_t)look->publishes,
                    .sets_trace_flags = flags_are_set(look, sources)}};
    _cleanup_buf_ struct buf resource = {0};
    if (look_resource(look, &resource))
        buf_clear(&resource);
    message.context.resource = buf_bytes(&resource);
    if (look->has_context) {
        message.context.n_keys = context->n_keys;
        message.context.keys = look->symbolizer->context.keys;
    }
    say(look, &message);
}

void subject_look(struct symbolizer *symbolizer, struct subject *subject)
{
    struct look look = {.symbolizer = symbolizer, .subject = subject};
    uint64_t time_ns = clock_monotonic_ns();
    look_environment(&look);
    int outcome = find_context(&look);
    if (outcome == OTEL_CONTEXT_BUSY && subject->address)
        return; /* what was told still holds, as far as one can know */
    subject->looked_ns = time_ns;
    if (!outcome)
        take_context(&look);
    else
        subject->address = subject->published_ns = 0;
    look_find_variables(&look);
    look_elastic(&look);
    look_at_labels(&look);
    tell(&look, time_ns, look_sources(&look));
    int error = look_enter(&look);
    if (error && error != -ENOENT) {
        subject->looked_ns = 0; /* looked at again */
        tell(&look, time_ns, 0);
    }
    look_correlate(&look);
}

bool subject_unchanged(struct symbolizer *symbolizer, struct subject *subject)
{
    uint64_t published_ns;
    if (!subject->looked_ns || !attach_holds(symbolizer, subject) || !elastic_holds(subject))
        return false;
    if (!subject->address)
        return true;
    int error = otel_context_poll(subject->pid, subject->address, &published_ns);
    return !error && published_ns == subject->published_ns;
}
