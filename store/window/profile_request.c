/* SPDX-License-Identifier: Apache-2.0 */
#include "store/window/profile_request.h"
#include "base/stats.h"
#include "context/context_source.h"
#include "proto/otlp/otlp_spans.h"
#include "proto/wire.h"
#include "store/stacks/processes.h"
#include "store/stacks/process_resource.h"
#include "store/stacks/stacks.h"
#include <errno.h>

#define REMEMBERED_BYTES_MAX ((size_t)64 << 20)
#define ATTRIBUTES_MAX       128

STAT_LOSS(bad_attributes, "spanprof_window_attributes_left_out_total",
          "Attributes of contexts and spans that were malformed or too many.");

static const char *const kind_names[] = {NULL,     "internal", "server",
                                         "client", "producer", "consumer"};
#define NAME_OF(names, index) ((index) < sizeof(names) / sizeof(*(names)) ? (names)[index] : NULL)

struct resource_key {
    const void *base; /* the span's Resource; NULL: the process's own, or a prepared one */
    int64_t process;  /* or the number of the prepared Resource */
};

struct location_key {
    int64_t executable;
    uint64_t address;
    uint32_t kind;
    uint32_t truncation; /* enum unwind_end; 0 = not truncated at this frame */
};

struct seen_resource {
    struct resource_key key;
    int32_t index;
};

struct seen_stack {
    int64_t id;
    int32_t index;
    char public_id[33]; /* empty: not asked for yet, or there is none */
};

struct seen_location {
    struct location_key key;
    int32_t index;
};

void profile_request_open(struct profile_request *request, const struct stack_dictionary *stacks,
                          struct processes *processes)
{
    *request = (struct profile_request){.stacks = *stacks, .processes = processes};
    arena_init(&request->arena, REMEMBERED_BYTES_MAX);
    MAP_INIT(&request->resources_seen, struct seen_resource, key);
    MAP_INIT(&request->stacks_seen, struct seen_stack, id);
    MAP_INIT(&request->locations_seen, struct seen_location, key);
}

static void forget_seen(struct profile_request *request)
{
    map_close(&request->resources_seen);
    map_close(&request->stacks_seen);
    map_close(&request->locations_seen);
}

void profile_request_close(struct profile_request *request)
{
    otlp_profiles_close(request->profiles);
    request->profiles = NULL;
    forget_seen(request);
    arena_close(&request->arena);
}

int profile_request_begin(struct profile_request *request, size_t max_bytes)
{
    otlp_profiles_close(request->profiles);
    request->profiles = NULL;
    request->first_unix_ns = UINT64_MAX;
    forget_seen(request);
    arena_reset(&request->arena);
    return otlp_profiles_open(max_bytes, &request->profiles);
}

/* Resource */

static int32_t new_resource(struct profile_request *request, int64_t process,
                            const struct join_span_facts *span)
{
    static const struct process_facts unknown;
    const struct process_facts *facts = &unknown;
    struct buf resource _cleanup_buf_ = {0};
    int error = process ? processes_get(request->processes, process, &facts) : 0;
    if (error == -ENOENT)
        facts = &unknown;
    else if (error)
        return error;
    error = profile_resource(&resource, span ? &span->resource : NULL, facts);
    return error ? error : otlp_profiles_resource(request->profiles, buf_bytes(&resource));
}

static int32_t note_resource(struct profile_request *request, const struct resource_key *key,
                             int32_t index)
{
    struct seen_resource *seen = arena_zalloc(&request->arena, sizeof(*seen));
    if (!seen)
        return -ENOMEM;
    seen->key = *key;
    seen->index = index;
    return map_put(&request->resources_seen, seen, NULL) ? -ENOMEM : index;
}

static int32_t resource_of(struct profile_request *request, const struct sample *sample,
                           const struct join_span_facts *span)
{
    struct resource_key key = {span ? (const void *)span->resource.data : NULL, sample->process};
    struct seen_resource *seen = map_get(&request->resources_seen, &key);
    if (seen)
        return seen->index;
    int32_t index = new_resource(request, sample->process, span);
    return index < 0 ? index : note_resource(request, &key, index);
}

/* Stacks */

static int32_t add_mapping(struct profile_request *request, const struct executable_facts *facts,
                           const struct executable_segment *segment)
{
    struct otlp_mapping mapping = {
        .filename = facts->path,
        .gnu_build_id = facts->build_id,
        .go_build_id = facts->go_build_id,
        .htlhash = facts->htlhash_known ? facts->htlhash : NULL,
    };
    if (segment) {
        mapping.memory_start = segment->vaddr;
        mapping.memory_limit = segment->vaddr + segment->size;
        mapping.file_offset = segment->file_offset;
        if (mapping.memory_limit < mapping.memory_start) /* a crafted file */
            mapping.memory_start = mapping.memory_limit = 0;
    }
    return otlp_profiles_mapping(request->profiles, &mapping);
}

static int profile_request_place(struct profile_request *request, const struct frame *frame,
                                 struct otlp_location *location)
{
    const struct executable_facts *facts;
    int error = frame->executable && frame->kind != STACK_FRAME_SPECIAL
                    ? request->stacks.executable(request->stacks.context, frame->executable, &facts)
                    : -ENOENT;
    location->address = frame_is_code(frame) ? 0 : frame->address;
    location->frame_type =
        frame->kind == STACK_FRAME_KERNEL ? BYTES_LIT("kernel") : BYTES_LIT("native");
    if (error)
        return error == -ENOENT ? 0 : error;
    const struct executable_segment *segment = executable_segment_of(facts, frame->address);
    if (segment)
        location->address = frame->address - segment->file_offset + segment->vaddr;
    location->mapping = add_mapping(request, facts, segment);
    return location->mapping < 0 ? location->mapping : 0;
}

static int32_t new_location(struct profile_request *request, const struct frame *frame,
                            uint32_t truncation)
{
    struct otlp_location location = {.truncated = stacks_truncation(truncation)};
    struct frame_name names[STACKS_INLINED_MAX + 1], compiled;
    struct otlp_line lines[STACKS_INLINED_MAX + 1];
    int error = profile_request_place(request, frame, &location);
    if (error)
        return error;
    error = request->stacks.name(request->stacks.context, frame, &compiled);
    if (error && error != -ENOENT)
        return error;
    size_t n = error ? 0 : stacks_inlined(&compiled, names);
    if (!error)
        names[n++] = compiled;
    if (frame_is_code(frame))
        location.frame_type = error ? BYTES_LIT("jit") : compiled.type;
    for (size_t i = 0; i < n; i++)
        lines[i] = (struct otlp_line){.function = names[i].function,
                                      .system_name = names[i].system_name,
                                      .file = names[i].file,
                                      .line = names[i].line,
                                      .column = names[i].column,
                                      .start_line = names[i].start_line};
    location.lines = lines;
    location.n_lines = n;
    return otlp_profiles_location(request->profiles, &location);
}

static int32_t location_of(struct profile_request *request, const struct frame *frame,
                           uint32_t truncation)
{
    struct location_key key = {frame->executable, frame->address, frame->kind, truncation};
    struct seen_location *seen = map_get(&request->locations_seen, &key);
    if (seen)
        return seen->index;
    int32_t index = new_location(request, frame, truncation);
    if (index < 0)
        return index;
    seen = arena_zalloc(&request->arena, sizeof(*seen));
    if (!seen)
        return -ENOMEM;
    seen->key = key;
    seen->index = index;
    return map_put(&request->locations_seen, seen, NULL) ? -ENOMEM : index;
}

static int32_t new_stack(struct profile_request *request, int64_t id)
{
    int32_t locations[STACKS_FRAMES_MAX];
    const struct frame *frames;
    size_t n = 0;
    uint32_t truncation = 0;
    int error = request->stacks.frames(request->stacks.context, id, &frames, &n);
    if (error == -ENOENT) /* an empty stack: the sample still counts */
        n = 0;
    else if (error)
        return error;
    if (n && frame_is_truncation(&frames[n - 1]))
        truncation = (uint32_t)frames[--n].address;
    for (size_t i = 0; i < n; i++) {
        locations[i] = location_of(request, &frames[i], i + 1 == n ? truncation : 0);
        if (locations[i] < 0)
            return locations[i];
    }
    return otlp_profiles_stack(request->profiles, locations, n);
}

static int fill_public_id(struct profile_request *request, struct seen_stack *seen)
{
    uint8_t id[16];
    if (seen->public_id[0])
        return 0;
    int error = request->stacks.public_id(request->stacks.context, seen->id, id);
    if (error)
        return error == -ENOENT ? 0 : error;
    bytes_to_hex(BYTES(id, sizeof(id)), seen->public_id);
    return 0;
}

/* Most stacks are canonical, and already in the request. */
static int find_stack(struct profile_request *request, int64_t *id, struct seen_stack **seen)
{
    int64_t own = *id;
    *seen = map_get(&request->stacks_seen, id);
    if (*seen)
        return 0;
    int error = request->stacks.canonical(request->stacks.context, own, id);
    if (*id != own)
        *seen = map_get(&request->stacks_seen, id);
    return error == -ENOENT ? 0 : error;
}

static int stack_of(struct profile_request *request, int64_t id, struct seen_stack **result)
{
    struct seen_stack *seen;
    int error = find_stack(request, &id, &seen);
    *result = seen;
    if (seen || error)
        return error;
    int32_t index = new_stack(request, id);
    if (index < 0)
        return index;
    seen = arena_zalloc(&request->arena, sizeof(*seen));
    if (!seen)
        return -ENOMEM;
    seen->id = id;
    seen->index = index;
    *result = seen;
    return map_put(&request->stacks_seen, seen, NULL);
}

/* Attributes */

struct attributes {
    struct otlp_profiles *profiles;
    int error; /* the first error; later puts do nothing */
    size_t n;
    int32_t indices[ATTRIBUTES_MAX];
};

static void request_put(struct attributes *attributes, int32_t index)
{
    if (index == -EINVAL || attributes->n == ATTRIBUTES_MAX)
        stat_add(&bad_attributes, 1);
    else if (index < 0)
        attributes->error = index;
    else
        attributes->indices[attributes->n++] = index;
}

static void put_text(struct attributes *attributes, const char *key, struct bytes text)
{
    if (!attributes->error && text.len)
        request_put(attributes, otlp_profiles_attribute_string(attributes->profiles, key, text));
}

static void put_int(struct attributes *attributes, const char *key, int64_t number)
{
    if (!attributes->error)
        request_put(attributes, otlp_profiles_attribute_int(attributes->profiles, key, number));
}

static void put_hex(struct attributes *attributes, const char *key, const uint8_t *id, size_t size)
{
    char hex[33];
    if (bytes_zero(id, size))
        return;
    bytes_to_hex(BYTES(id, size), hex);
    put_text(attributes, key, BYTES_STR(hex));
}

static void put_name(struct attributes *attributes, const char *key, const char *name)
{
    if (name)
        put_text(attributes, key, BYTES_STR(name));
}

/* KeyValue messages framed as attributes of a Span. */
static void put_framed(struct attributes *attributes, struct bytes framed)
{
    struct wire_reader reader = wire_read(framed);
    struct wire_field field;
    int outcome = WIRE_END;
    while (!attributes->error && (outcome = wire_next(&reader, &field)) == WIRE_FIELD)
        if (field.number == OTLP_SPAN_ATTRIBUTES && field.type == WIRE_BYTES)
            request_put(attributes, otlp_profiles_attribute(attributes->profiles, field.bytes));
    stat_add(&bad_attributes, outcome == WIRE_MALFORMED);
}

static bool can_link(const struct sample *sample)
{
    return !bytes_zero(sample->trace_id, 16) &&
           !(bytes_zero(sample->span_id, 8) && bytes_zero(sample->local_root_id, 8));
}

/* Spans and agents name a stack by its id, so samples without a context need none: it is made of
 * the frames. */
static void put_context(struct attributes *attributes, const struct sample *sample,
                        const struct join_span_facts *span, const char *stack_id)
{
    if (!sample->context_source)
        return;
    put_name(attributes, "spanprof.context.source", context_source_name(sample->context_source));
    put_text(attributes, "spanprof.stack.id", BYTES_STR(stack_id));
    put_hex(attributes, "spanprof.local_root.span_id", sample->local_root_id, 8);
    if (!span && !can_link(sample)) { /* an incomplete id makes no Link */
        put_hex(attributes, "spanprof.trace_id", sample->trace_id, 16);
        put_hex(attributes, "spanprof.span_id", sample->span_id, 8);
    }
}

/* If a key occurs twice, the first attribute counts: facts of this node come before attributes from
 * outside. */
static void put_all(struct attributes *attributes, const struct sample *sample,
                    const struct join_span_facts *span, const char *stack_id)
{
    put_text(attributes, "thread.name", BYTES(sample->comm, strnlen(sample->comm, SAMPLE_COMM)));
    put_int(attributes, "thread.id", sample->tid);
    if (sample->cpu != SAMPLE_NO_CPU)
        put_int(attributes, "cpu.logical_number", sample->cpu);
    put_context(attributes, sample, span, stack_id);
    if (span) {
        put_text(attributes, "span.name", span->name);
        put_name(attributes, "span.kind", NAME_OF(kind_names, span->kind));
        put_framed(attributes, span->attributes);
    }
    put_framed(attributes, sample->attributes);
}

/* Samples */

static int32_t link_of(struct profile_request *request, const struct sample *sample,
                       const struct join_span_facts *span)
{
    if (span)
        return otlp_profiles_link(request->profiles, span->trace_id, span->span_id);
    if (!can_link(sample))
        return 0;
    bool has_span = !bytes_zero(sample->span_id, 8);
    return otlp_profiles_link(request->profiles, sample->trace_id,
                              has_span ? sample->span_id : sample->local_root_id);
}

static enum otlp_profile_type type_of(const struct sample *sample)
{
    return sample->kind == SAMPLE_OFF_CPU ? PROFILE_OFF_CPU
           : sample->kind == SAMPLE_EVENT ? PROFILE_EVENTS
                                          : PROFILE_CPU;
}

static int request_add(struct profile_request *request, int32_t resource,
                       const struct sample *sample, const struct join_span_facts *span)
{
    struct attributes attributes = {.profiles = request->profiles};
    struct seen_stack *stack;
    int error = stack_of(request, sample->stack, &stack);
    if (!error && sample->context_source)
        error = fill_public_id(request, stack);
    if (error)
        return error;
    int32_t link = link_of(request, sample, span);
    if (link < 0)
        return link;
    put_all(&attributes, sample, span, stack->public_id);
    if (attributes.error)
        return attributes.error;
    error = otlp_profiles_add(request->profiles, &(struct otlp_sample){
                                                     .resource = resource,
                                                     .type = type_of(sample),
                                                     .stack = stack->index,
                                                     .link = link,
                                                     .attributes = attributes.indices,
                                                     .n_attributes = attributes.n,
                                                     .time_unix_ns = sample->time_unix_ns,
                                                     .value = (int64_t)sample->value_ns,
                                                     .period_ns = sample->period_ns,
                                                 });
    if (!error && sample->time_unix_ns < request->first_unix_ns)
        request->first_unix_ns = sample->time_unix_ns;
    return error;
}

int profile_request_add(struct profile_request *request, const struct sample *sample,
                        const struct join_span_facts *span)
{
    int32_t resource = resource_of(request, sample, span);
    return resource < 0 ? resource : request_add(request, resource, sample, span);
}

int profile_request_put(struct profile_request *request, int64_t number, struct bytes resource,
                        const struct sample *sample, const struct join_span_facts *span)
{
    struct resource_key key = {NULL, number};
    struct seen_resource *seen = map_get(&request->resources_seen, &key);
    int32_t index = seen ? seen->index : otlp_profiles_resource(request->profiles, resource);
    if (index == -EINVAL) /* damaged */
        index = otlp_profiles_resource(request->profiles, BYTES(NULL, 0));
    if (!seen && index >= 0)
        index = note_resource(request, &key, index);
    return index < 0 ? index : request_add(request, index, sample, span);
}
