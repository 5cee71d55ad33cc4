/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order matters: first the keys and the resource are reported to the service, then the entry of
 * contexts is written, so no sample carries attributes whose names are unknown; a socket to the
 * agent comes last. What is reported includes what became of the runtimes' frames. A context that
 * is the same as the last one reported is not sent again.
 */
#include "agent-bpf/symbolizer/inspection.h"
#include "agent-bpf/contexts/refusal.h"
#include "agent-bpf/files/reader_client.h"
#include <errno.h>

static struct bytes inspection_mounts(struct inspection *inspection)
{
    struct bytes mounts = {0};
    int error = process_text(&inspection->symbolizer->texts, inspection->process->pid,
                             READER_MOUNTS, &mounts);
    inspection->unanswered |= error == -EAGAIN;
    return error ? (struct bytes){0} : mounts;
}

void inspection_unreadable(struct inspection *inspection, enum context_unreadable reason)
{
    tracked_process_unreadable(inspection->symbolizer, inspection->process, reason);
    inspection->failed = true;
    inspection->unreadable = reason;
}

bool inspection_is_harmless(struct inspection *inspection, uint64_t address, uint64_t size)
{
    return proc_maps_harmless(buf_bytes(&inspection->symbolizer->maps),
                              inspection_mounts(inspection), address, size);
}

int inspection_read_memory(struct inspection *inspection, uint64_t address, void *out, size_t size)
{
    if (!inspection_is_harmless(inspection, address, size)) {
        inspection_unreadable(inspection, CONTEXT_UNREADABLE_MEMORY);
        return -EFAULT;
    }
    int error = reader_memory_one(inspection->process->pid, address, out, size);
    inspection->unanswered |= error == -EAGAIN;
    return error;
}

/* Reads the context of the first mapping that has a valid header. */
static int inspection_find_context(struct inspection *inspection)
{
    struct symbolizer *symbolizer = inspection->symbolizer;
    struct bytes rest = buf_bytes(&symbolizer->maps);
    struct proc_map map;
    int outcome = -ENOENT;
    if (!(symbolizer->settings.sources & CONTEXT_OTEL_BITS))
        return outcome;
    while (proc_maps_next(&rest, &map)) {
        if (map.executable || !otel_context_named(map.path))
            continue;
        struct otel_context_source source = {.pid = inspection->process->pid,
                                             .address = map.start,
                                             .maps = buf_bytes(&symbolizer->maps),
                                             .mounts = inspection_mounts(inspection)};
        outcome = otel_context_read(&source, symbolizer->payload, &symbolizer->context);
        if (!outcome) {
            inspection->process->address = map.start;
            return 0;
        }
        if (outcome == -EAGAIN || outcome == -ESRCH) /* later, or it has ended */
            return outcome;
        inspection_unreadable(inspection, outcome == OTEL_CONTEXT_BUSY
                                              ? CONTEXT_UNREADABLE_BEING_CHANGED
                                          : outcome < 0 ? CONTEXT_UNREADABLE_MEMORY
                                                        : CONTEXT_UNREADABLE_MALFORMED);
    }
    return outcome;
}

static void inspection_use_context(struct inspection *inspection)
{
    struct tracked_process *process = inspection->process;
    const struct otel_context *context = &inspection->symbolizer->context;
    inspection->has_context = true;
    process->published_ns = context->published_ns;
    inspection->entry.published_address =
        process->address + offsetof(struct otel_process_header, published_at_ns);
    inspection->entry.published_ns = context->published_ns;
    if (context->schema == OTEL_SCHEMA_THREAD_LOCAL)
        inspection->publishes |= CONTEXT_BIT(CONTEXT_OTEL_THREAD);
    if (context->schema == OTEL_SCHEMA_NODEJS)
        inspection->publishes |= CONTEXT_BIT(CONTEXT_OTEL_NODEJS);
    if (context->schema == OTEL_SCHEMA_GO_LABELS)
        inspection->publishes |= CONTEXT_BIT(CONTEXT_GO_LABELS);
    if (context->schema == OTEL_SCHEMA_OTHER)
        inspection_unreadable(inspection, CONTEXT_UNREADABLE_SCHEMA);
}

/* Every Go program has the variable. It counts as a publisher once a read has given labels. */
static void inspection_check_go_labels(struct inspection *inspection)
{
    struct context_process entry;
    const struct symbolizer *symbolizer = inspection->symbolizer;
    const unsigned go = CONTEXT_BIT(CONTEXT_GO_LABELS);
    bool alone = inspection_sources(inspection) == go && inspection->process->sources == go;
    if (alone && ((inspection->process->publishes & go) ||
                  (!attach_entry(symbolizer, inspection->process, &entry) && entry.n_found)))
        inspection->publishes |= go;
}

static bool inspection_flags_are_set(const struct inspection *inspection, unsigned sources)
{
    const unsigned with_flags = CONTEXT_BIT(CONTEXT_OTEL_THREAD) | CONTEXT_BIT(CONTEXT_ELASTIC) |
                                CONTEXT_BIT(CONTEXT_OTEL_NODEJS);
    return (sources & with_flags) && !inspection->flags_unsure;
}

static void context_digest(const struct symbolizer_message *message, uint8_t digest[16])
{
    const struct symbolizer_context *context = &message->context;
    const uint8_t head[] = {context->sources, context->publishes, context->sets_trace_flags,
                            context->runtime, context->publisher, context->unreadable};
    const struct runtime_frames *frames = &context->frames;
    const uint8_t read[] = {frames->state, frames->runtime, frames->refusal, frames->version.major,
                            frames->version.minor};
    struct fnv128 fnv;
    fnv128_init(&fnv);
    fnv128_add(&fnv, head, sizeof(head));
    fnv128_add(&fnv, read, sizeof(read));
    fnv128_add(&fnv, &context->resource.len, sizeof(context->resource.len));
    fnv128_add(&fnv, context->resource.data, context->resource.len);
    for (uint32_t i = 0; i < context->n_keys; i++) {
        fnv128_add(&fnv, &context->keys[i].len, sizeof(context->keys[i].len));
        fnv128_add(&fnv, context->keys[i].data, context->keys[i].len);
    }
    fnv128_finish(&fnv, digest);
}

static void inspection_send_if_changed(struct inspection *inspection,
                                       const struct symbolizer_message *message)
{
    const struct symbolizer_context *context = &message->context;
    struct tracked_process *process = inspection->process;
    uint8_t digest[16];
    bool something = context->sources || context->publishes || context->resource.len ||
                     context->n_keys || context->runtime || context->publisher;
    context_digest(message, digest);
    if (process->reported ? !memcmp(digest, process->reported_digest, sizeof(digest)) : !something)
        return;
    symbolizer_send(&inspection->symbolizer->out, message);
    memcpy(process->reported_digest, digest, sizeof(digest));
    process->reported = something;
    process->publishes = context->publishes;
}

/* Go's labels are found in every Go program, so what is found counts only with `publishes`. */
static enum publisher_state inspection_publisher(const struct inspection *inspection,
                                                 unsigned sources)
{
    const struct environment *environment = inspection->process->environment;
    if (inspection->publishes & sources)
        return PUBLISHER_READ;
    if (inspection->publishes || inspection->failed)
        return PUBLISHER_UNREADABLE;
    enum publisher_state refusal = refusal_find(buf_bytes(&inspection->symbolizer->maps));
    if (inspection->has_context)
        return refusal == PUBLISHER_TAKEN ? PUBLISHER_TAKEN : PUBLISHER_PROCESS;
    if (environment && environment->switched_off)
        return PUBLISHER_OFF;
    if (refusal != PUBLISHER_NONE)
        return refusal;
    if (inspection->has_library)
        return PUBLISHER_LOADED;
    if (environment && (environment->switched_on & RUNTIME_BIT(inspection->runtime)))
        return PUBLISHER_STARTED;
    return PUBLISHER_NONE;
}

static void inspection_report(struct inspection *inspection, uint64_t time_ns, unsigned sources)
{
    const struct otel_context *context = &inspection->symbolizer->context;
    struct symbolizer_message message = {
        .kind = SYMBOLIZER_CONTEXT,
        .context = {.pid = inspection->process->pid,
                    .time_ns = time_ns,
                    .sources = (uint8_t)sources,
                    .publishes = (uint8_t)inspection->publishes,
                    .runtime = (uint8_t)inspection->runtime,
                    .publisher = (uint8_t)inspection_publisher(inspection, sources),
                    .unreadable = (uint8_t)(inspection->failed ? inspection->unreadable
                                                               : CONTEXT_UNREADABLE_NO_VARIABLE),
                    .frames =
                        process_runtimes_frames(inspection->process->runtimes, inspection->runtime),
                    .sets_trace_flags = inspection_flags_are_set(inspection, sources)}};
    _cleanup_buf_ struct buf resource = {0};
    if (inspection_make_resource(inspection, &resource))
        buf_clear(&resource);
    message.context.resource = buf_bytes(&resource);
    if (inspection->has_context) {
        message.context.n_keys = context->n_keys;
        message.context.keys = inspection->symbolizer->context.keys;
    }
    inspection_send_if_changed(inspection, &message);
}

/* False: nothing was found out. What was reported before stays: it may still hold. */
static bool inspection_look(struct inspection *inspection, uint64_t time_ns)
{
    struct tracked_process *process = inspection->process;
    inspection_read_environment(inspection);
    inspection->failed = false; /* of its contexts nothing was read yet */
    int outcome = inspection_find_context(inspection);
    if ((outcome == OTEL_CONTEXT_BUSY && process->address) || outcome == -EAGAIN ||
        outcome == -ESRCH)
        return false;
    if (!outcome)
        inspection_use_context(inspection);
    inspection_find_variables(inspection);
    inspection_read_elastic(inspection);
    if (inspection->unanswered || !reader_client_is_ready())
        return false;
    if (outcome)
        process->address = process->published_ns = 0;
    process->inspected_ns = time_ns;
    return true;
}

static void inspection_act(struct inspection *inspection, uint64_t time_ns)
{
    struct tracked_process *process = inspection->process;
    inspection_check_go_labels(inspection);
    process_runtimes_attach(inspection->symbolizer, process->pid, process->start_ns,
                            &inspection->runtimes, &process->runtimes);
    inspection_report(inspection, time_ns, inspection_sources(inspection));
    int error = inspection_attach(inspection);
    if (error && error != -ENOENT) {
        process->inspected_ns = 0; /* the next inspection reads its maps again */
        inspection_report(inspection, time_ns, 0);
    }
    inspection_connect_elastic(inspection);
}

void inspection_run(struct symbolizer *symbolizer, struct tracked_process *process)
{
    LOOP_THREAD(symbolizer->settings.loop);
    struct inspection inspection = {.symbolizer = symbolizer, .process = process};
    uint64_t time_ns = clock_monotonic_ns();
    if (inspection_look(&inspection, time_ns))
        inspection_act(&inspection, time_ns);
    process_runtimes_release(&inspection.runtimes);
}

bool inspection_still_holds(struct symbolizer *symbolizer, struct tracked_process *process)
{
    LOOP_THREAD(symbolizer->settings.loop);
    uint64_t published_ns;
    if (!process->inspected_ns || !attach_holds(symbolizer, process) || !elastic_holds(process) ||
        !process_runtimes_hold(process->runtimes))
        return false;
    if (!process->address)
        return true;
    int error = otel_context_poll(process->pid, process->address, &published_ns);
    return !error && published_ns == process->published_ns;
}
