/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reader and writer walk the same fields in the same order, one pair of functions a kind. The
 * reader carries a "bad" mark instead of an error from each call: after the first bad field
 * everything reads as zero, and the mark is looked at once, at the end.
 */
#include "agent-bpf/symbolizer_messages.h"
#include <errno.h>

struct reader {
    struct bytes in;
    size_t at;
    struct arena *arena;
    bool bad;
    bool out_of_memory;
};

static uint64_t get_int(struct reader *reader, size_t size)
{
    if (reader->bad || reader->in.len - reader->at < size) {
        reader->bad = true;
        return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)reader->in.data[reader->at + i] << (8 * i);
    reader->at += size;
    return value;
}

static uint8_t get_u8(struct reader *reader)
{
    return (uint8_t)get_int(reader, 1);
}

static uint32_t get_u32(struct reader *reader)
{
    return (uint32_t)get_int(reader, 4);
}

static uint64_t get_u64(struct reader *reader)
{
    return get_int(reader, 8);
}

/* A range of fixed or announced length, borrowed. */
static struct bytes get_range(struct reader *reader, size_t size)
{
    if (reader->bad || reader->in.len - reader->at < size) {
        reader->bad = true;
        return (struct bytes){0};
    }
    struct bytes range = BYTES(reader->in.data + reader->at, size);
    reader->at += size;
    return range;
}

static struct bytes get_bytes(struct reader *reader, size_t limit)
{
    uint32_t size = get_u32(reader);
    if (size > limit) {
        reader->bad = true;
        return (struct bytes){0};
    }
    return get_range(reader, size);
}

static void get_fixed(struct reader *reader, uint8_t *out, size_t size)
{
    struct bytes range = get_range(reader, size);
    if (range.len == size)
        memcpy(out, range.data, size);
    else
        memset(out, 0, size);
}

static void *get_memory(struct reader *reader, size_t size)
{
    if (reader->bad)
        return NULL;
    void *memory = arena_zalloc(reader->arena, size ? size : 1);
    if (!memory)
        reader->bad = reader->out_of_memory = true;
    return memory;
}

/* NUL-terminated copy; a NUL inside is malformed. */
static const char *get_text(struct reader *reader, size_t limit)
{
    struct bytes range = get_bytes(reader, limit);
    if (reader->bad || (range.len && memchr(range.data, 0, range.len))) {
        reader->bad = true;
        return "";
    }
    char *text = get_memory(reader, range.len + 1);
    if (!text)
        return "";
    if (range.len)
        memcpy(text, range.data, range.len);
    return text;
}

static uint32_t get_count(struct reader *reader, uint32_t limit)
{
    uint32_t n = get_u32(reader);
    if (n > limit) {
        reader->bad = true;
        return 0;
    }
    return n;
}

static int put_int(struct buf *out, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    return buf_append(out, bytes, size);
}

static int put_bytes(struct buf *out, struct bytes bytes)
{
    int error = put_int(out, bytes.len, 4);
    return error ? error : buf_append_bytes(out, bytes);
}

static void get_mapping(struct reader *reader, struct process_mapping *mapping)
{
    mapping->start = get_u64(reader);
    mapping->length = get_u64(reader);
    mapping->file_offset = get_u64(reader);
    mapping->device_major = get_u32(reader);
    mapping->device_minor = get_u32(reader);
    mapping->inode = get_u64(reader);
    mapping->inode_generation = get_u64(reader);
    struct bytes build_id = get_bytes(reader, PROCESS_BUILD_ID_MAX);
    mapping->build_id_len = (uint8_t)build_id.len;
    if (build_id.len)
        memcpy(mapping->build_id, build_id.data, build_id.len);
    mapping->path = get_text(reader, SYMBOLIZER_PATH_MAX);
}

static int put_mapping(struct buf *out, const struct process_mapping *mapping)
{
    int error = put_int(out, mapping->start, 8);
    error = error ? error : put_int(out, mapping->length, 8);
    error = error ? error : put_int(out, mapping->file_offset, 8);
    error = error ? error : put_int(out, mapping->device_major, 4);
    error = error ? error : put_int(out, mapping->device_minor, 4);
    error = error ? error : put_int(out, mapping->inode, 8);
    error = error ? error : put_int(out, mapping->inode_generation, 8);
    error = error ? error : put_bytes(out, BYTES(mapping->build_id, mapping->build_id_len));
    const char *path = mapping->path ? mapping->path : "";
    return error ? error : put_bytes(out, BYTES(path, strnlen(path, SYMBOLIZER_PATH_MAX)));
}

static void get_executable_ref(struct reader *reader, struct symbolizer_executable_ref *ref)
{
    get_fixed(reader, ref->identity, sizeof(ref->identity));
    ref->pid = get_u32(reader);
    for (int i = 0; i < SYMBOLIZER_ANCESTORS_MAX; i++)
        ref->ancestors[i] = get_u32(reader);
    get_mapping(reader, &ref->mapping);
}

static int put_executable_ref(struct buf *out, const struct symbolizer_executable_ref *ref)
{
    int error = buf_append(out, ref->identity, sizeof(ref->identity));
    error = error ? error : put_int(out, ref->pid, 4);
    for (int i = 0; i < SYMBOLIZER_ANCESTORS_MAX && !error; i++)
        error = put_int(out, ref->ancestors[i], 4);
    return error ? error : put_mapping(out, &ref->mapping);
}

static void get_names_wanted(struct reader *reader, struct symbolizer_names_wanted *wanted)
{
    get_executable_ref(reader, &wanted->executable);
    wanted->n = get_count(reader, SYMBOLIZER_NAMES_MAX);
    wanted->addresses = get_memory(reader, wanted->n * sizeof(*wanted->addresses));
    for (uint32_t i = 0; i < wanted->n && wanted->addresses; i++)
        wanted->addresses[i] = get_u64(reader);
}

static int put_names_wanted(struct buf *out, const struct symbolizer_names_wanted *wanted)
{
    int error = put_executable_ref(out, &wanted->executable);
    error = error ? error : put_int(out, wanted->n, 4);
    for (uint32_t i = 0; i < wanted->n && !error; i++)
        error = put_int(out, wanted->addresses[i], 8);
    return error;
}

static void get_event(struct reader *reader, struct process_event *event)
{
    uint8_t kind = get_u8(reader);
    event->kind = (enum process_event_kind)kind;
    if (kind > PROCESS_LOST)
        reader->bad = true;
    event->time_ns = get_u64(reader);
    event->pid = get_u32(reader);
    event->parent_pid = get_u32(reader);
    get_mapping(reader, &event->mapping);
}

static int put_event(struct buf *out, const struct process_event *event)
{
    int error = put_int(out, event->kind, 1);
    error = error ? error : put_int(out, event->time_ns, 8);
    error = error ? error : put_int(out, event->pid, 4);
    error = error ? error : put_int(out, event->parent_pid, 4);
    return error ? error : put_mapping(out, &event->mapping);
}

static void get_details(struct reader *reader, struct symbolizer_details *details)
{
    details->pid = get_u32(reader);
    details->time_ns = get_u64(reader);
    details->own_pid = get_u32(reader);
    details->start_ns = get_u64(reader);
    details->exe = get_bytes(reader, SYMBOLIZER_PATH_MAX);
    details->container_id = get_bytes(reader, SYMBOLIZER_CONTAINER_MAX);
    details->pod_uid = get_bytes(reader, SYMBOLIZER_CONTAINER_MAX);
}

static int put_details(struct buf *out, const struct symbolizer_details *details)
{
    int error = put_int(out, details->pid, 4);
    error = error ? error : put_int(out, details->time_ns, 8);
    error = error ? error : put_int(out, details->own_pid, 4);
    error = error ? error : put_int(out, details->start_ns, 8);
    error = error ? error : put_bytes(out, details->exe);
    error = error ? error : put_bytes(out, details->container_id);
    return error ? error : put_bytes(out, details->pod_uid);
}

static void get_context(struct reader *reader, struct symbolizer_context *context)
{
    context->pid = get_u32(reader);
    context->time_ns = get_u64(reader);
    context->sources = get_u8(reader);
    context->publishes = get_u8(reader);
    context->sets_trace_flags = get_u8(reader);
    context->resource = get_bytes(reader, SYMBOLIZER_MESSAGE_MAX);
    context->n_keys = get_count(reader, SYMBOLIZER_KEYS_MAX);
    context->keys = get_memory(reader, context->n_keys * sizeof(*context->keys));
    for (uint32_t i = 0; i < context->n_keys && context->keys; i++) {
        context->keys[i] = get_bytes(reader, SYMBOLIZER_MESSAGE_MAX);
        if (!bytes_utf8_valid(context->keys[i]))
            reader->bad = true;
    }
}

static int put_context(struct buf *out, const struct symbolizer_context *context)
{
    int error = put_int(out, context->pid, 4);
    error = error ? error : put_int(out, context->time_ns, 8);
    error = error ? error : put_int(out, context->sources, 1);
    error = error ? error : put_int(out, context->publishes, 1);
    error = error ? error : put_int(out, context->sets_trace_flags, 1);
    error = error ? error : put_bytes(out, context->resource);
    error = error ? error : put_int(out, context->n_keys, 4);
    for (uint32_t i = 0; i < context->n_keys && !error; i++)
        error = put_bytes(out, context->keys[i]);
    return error;
}

static void get_executable(struct reader *reader, struct symbolizer_executable *executable)
{
    get_fixed(reader, executable->identity, sizeof(executable->identity));
    executable->found = get_u8(reader);
    get_fixed(reader, executable->htlhash, sizeof(executable->htlhash));
    executable->build_id = get_bytes(reader, 64);
    executable->go_build_id = get_bytes(reader, 256);
    executable->n_segments = get_count(reader, SYMBOLIZER_SEGMENTS_MAX);
    for (uint32_t i = 0; i < executable->n_segments; i++) {
        executable->segments[i].file_offset = get_u64(reader);
        executable->segments[i].size = get_u64(reader);
        executable->segments[i].vaddr = get_u64(reader);
    }
}

static int put_executable(struct buf *out, const struct symbolizer_executable *executable)
{
    int error = buf_append(out, executable->identity, sizeof(executable->identity));
    error = error ? error : put_int(out, executable->found, 1);
    error = error ? error : buf_append(out, executable->htlhash, sizeof(executable->htlhash));
    error = error ? error : put_bytes(out, executable->build_id);
    error = error ? error : put_bytes(out, executable->go_build_id);
    error = error ? error : put_int(out, executable->n_segments, 4);
    for (uint32_t i = 0; i < executable->n_segments && !error; i++) {
        error = put_int(out, executable->segments[i].file_offset, 8);
        error = error ? error : put_int(out, executable->segments[i].size, 8);
        error = error ? error : put_int(out, executable->segments[i].vaddr, 8);
    }
    return error;
}

/* Names end up on pages and in a backend: their promise (see the struct) is checked here again. */
static struct bytes get_name(struct reader *reader)
{
    struct bytes name = get_bytes(reader, SYMBOLIZER_NAME_BYTES);
    if (!bytes_utf8_valid(name))
        reader->bad = true;
    for (size_t i = 0; i < name.len; i++)
        if (name.data[i] < 0x20 || name.data[i] == 0x7f)
            reader->bad = true;
    return name;
}

static void get_names(struct reader *reader, struct symbolizer_names *names)
{
    get_fixed(reader, names->identity, sizeof(names->identity));
    names->more = get_u8(reader);
    names->n = get_count(reader, SYMBOLIZER_NAMES_MAX);
    names->names = get_memory(reader, names->n * sizeof(*names->names));
    for (uint32_t i = 0; i < names->n && names->names; i++) {
        names->names[i].address = get_u64(reader);
        names->names[i].function = get_name(reader);
        names->names[i].system_name = get_name(reader);
        names->names[i].file = get_name(reader);
        names->names[i].line = get_u32(reader);
    }
}

static int put_names(struct buf *out, const struct symbolizer_names *names)
{
    int error = buf_append(out, names->identity, sizeof(names->identity));
    error = error ? error : put_int(out, names->more, 1);
    error = error ? error : put_int(out, names->n, 4);
    for (uint32_t i = 0; i < names->n && !error; i++) {
        error = put_int(out, names->names[i].address, 8);
        error = error ? error : put_bytes(out, names->names[i].function);
        error = error ? error : put_bytes(out, names->names[i].system_name);
        error = error ? error : put_bytes(out, names->names[i].file);
        error = error ? error : put_int(out, names->names[i].line, 4);
    }
    return error;
}

static void get_unwind_wanted(struct reader *reader, struct symbolizer_unwind_wanted *wanted)
{
    wanted->ticket = get_u64(reader);
    wanted->pid = get_u32(reader);
    wanted->stack = get_bytes(reader, sizeof(struct record_stack) + RECORD_STACK_MAX);
    wanted->n = get_count(reader, SYMBOLIZER_MAPPINGS_MAX);
    wanted->mappings = get_memory(reader, wanted->n * sizeof(*wanted->mappings));
    for (uint32_t i = 0; i < wanted->n && wanted->mappings; i++)
        get_executable_ref(reader, &wanted->mappings[i]);
}

static int put_unwind_wanted(struct buf *out, const struct symbolizer_unwind_wanted *wanted)
{
    int error = put_int(out, wanted->ticket, 8);
    error = error ? error : put_int(out, wanted->pid, 4);
    error = error ? error : put_bytes(out, wanted->stack);
    error = error ? error : put_int(out, wanted->n, 4);
    for (uint32_t i = 0; i < wanted->n && !error; i++)
        error = put_executable_ref(out, &wanted->mappings[i]);
    return error;
}

static void get_unwound(struct reader *reader, struct symbolizer_unwound *unwound)
{
    unwound->ticket = get_u64(reader);
    unwound->end = get_u8(reader);
    if (unwound->end >= UNWIND_ENDS)
        reader->bad = true;
    unwound->n = get_count(reader, RECORD_MAX_USER_FRAMES);
    unwound->frames = get_memory(reader, unwound->n * sizeof(*unwound->frames));
    for (uint32_t i = 0; i < unwound->n && unwound->frames; i++) {
        unwound->frames[i].pc = get_u64(reader);
        unwound->frames[i].is_return = get_u8(reader);
    }
}

static int put_unwound(struct buf *out, const struct symbolizer_unwound *unwound)
{
    int error = put_int(out, unwound->ticket, 8);
    error = error ? error : put_int(out, unwound->end, 1);
    error = error ? error : put_int(out, unwound->n, 4);
    for (uint32_t i = 0; i < unwound->n && !error; i++) {
        error = put_int(out, unwound->frames[i].pc, 8);
        error = error ? error : put_int(out, unwound->frames[i].is_return, 1);
    }
    return error;
}

static void get_code_wanted(struct reader *reader, struct symbolizer_code_wanted *wanted)
{
    wanted->ticket = get_u64(reader);
    wanted->pid = get_u32(reader);
    wanted->n = get_count(reader, RECORD_MAX_USER_FRAMES);
    wanted->addresses = get_memory(reader, wanted->n * sizeof(*wanted->addresses));
    for (uint32_t i = 0; i < wanted->n && wanted->addresses; i++)
        wanted->addresses[i] = get_u64(reader);
}

static int put_code_wanted(struct buf *out, const struct symbolizer_code_wanted *wanted)
{
    int error = put_int(out, wanted->ticket, 8);
    error = error ? error : put_int(out, wanted->pid, 4);
    error = error ? error : put_int(out, wanted->n, 4);
    for (uint32_t i = 0; i < wanted->n && !error; i++)
        error = put_int(out, wanted->addresses[i], 8);
    return error;
}

static void get_code(struct reader *reader, struct symbolizer_code *code)
{
    code->ticket = get_u64(reader);
    code->pid = get_u32(reader);
    code->named = get_u8(reader);
    code->n = get_count(reader, RECORD_MAX_USER_FRAMES);
    code->ranges = get_memory(reader, code->n * sizeof(*code->ranges));
    for (uint32_t i = 0; i < code->n && code->ranges; i++) {
        struct symbolizer_code_range *range = &code->ranges[i];
        range->start = get_u64(reader);
        range->last = get_u64(reader);
        range->function = get_name(reader);
        if (range->start > range->last)
            reader->bad = true;
    }
}

static int put_code(struct buf *out, const struct symbolizer_code *code)
{
    int error = put_int(out, code->ticket, 8);
    error = error ? error : put_int(out, code->pid, 4);
    error = error ? error : put_int(out, code->named, 1);
    error = error ? error : put_int(out, code->n, 4);
    for (uint32_t i = 0; i < code->n && !error; i++) {
        error = put_int(out, code->ranges[i].start, 8);
        error = error ? error : put_int(out, code->ranges[i].last, 8);
        error = error ? error : put_bytes(out, code->ranges[i].function);
    }
    return error;
}

static void get_kernel(struct reader *reader, struct symbolizer_kernel *kernel)
{
    kernel->text_start = get_u64(reader);
    kernel->text_end = get_u64(reader);
    kernel->build_id = get_bytes(reader, 64);
}

static int put_kernel(struct buf *out, const struct symbolizer_kernel *kernel)
{
    int error = put_int(out, kernel->text_start, 8);
    error = error ? error : put_int(out, kernel->text_end, 8);
    return error ? error : put_bytes(out, kernel->build_id);
}

static void get_scan_done(struct reader *reader, struct symbolizer_scan_done *done)
{
    done->start_ns = get_u64(reader);
    done->end_ns = get_u64(reader);
}

static int put_process(struct buf *out, const struct symbolizer_process *process)
{
    int error = put_int(out, process->pid, 4);
    return error ? error : put_int(out, process->time_ns, 8);
}

static int put_body(const struct symbolizer_message *message, struct buf *out)
{
    switch (message->kind) {
    case SYMBOLIZER_SCAN_WANTED:
        return 0;
    case SYMBOLIZER_PROCESS_WANTED:
    case SYMBOLIZER_CONTEXT_WANTED:
    case SYMBOLIZER_PROCESS_LEFT:
    case SYMBOLIZER_GONE:
    case SYMBOLIZER_CORRELATION:
        return put_process(out, &message->process);
    case SYMBOLIZER_EXECUTABLE_WANTED:
        return put_executable_ref(out, &message->executable_ref);
    case SYMBOLIZER_NAMES_WANTED:
    case SYMBOLIZER_KERNEL_NAMES_WANTED:
        return put_names_wanted(out, &message->names_wanted);
    case SYMBOLIZER_EVENT:
        return put_event(out, &message->event);
    case SYMBOLIZER_SCAN_DONE: {
        int error = put_int(out, message->scan_done.start_ns, 8);
        return error ? error : put_int(out, message->scan_done.end_ns, 8);
    }
    case SYMBOLIZER_DETAILS:
        return put_details(out, &message->details);
    case SYMBOLIZER_CONTEXT:
        return put_context(out, &message->context);
    case SYMBOLIZER_EXECUTABLE:
        return put_executable(out, &message->executable);
    case SYMBOLIZER_NAMES:
    case SYMBOLIZER_KERNEL_NAMES:
        return put_names(out, &message->names);
    case SYMBOLIZER_KERNEL:
        return put_kernel(out, &message->kernel);
    case SYMBOLIZER_UNWIND_WANTED:
        return put_unwind_wanted(out, &message->unwind_wanted);
    case SYMBOLIZER_UNWOUND:
        return put_unwound(out, &message->unwound);
    case SYMBOLIZER_CODE_WANTED:
        return put_code_wanted(out, &message->code_wanted);
    case SYMBOLIZER_CODE:
        return put_code(out, &message->code);
    }
    return -EINVAL;
}

int symbolizer_message_encode(const struct symbolizer_message *message, struct buf *out)
{
    size_t before = out->len;
    int error = put_int(out, message->kind, 1);
    error = error ? error : put_body(message, out);
    if (!error && out->len - before > SYMBOLIZER_MESSAGE_MAX)
        error = BUF_FULL;
    if (error)
        out->len = before;
    return error;
}

static void get_body(struct reader *reader, struct symbolizer_message *message)
{
    switch (message->kind) {
    case SYMBOLIZER_SCAN_WANTED:
        break;
    case SYMBOLIZER_PROCESS_WANTED:
    case SYMBOLIZER_CONTEXT_WANTED:
    case SYMBOLIZER_PROCESS_LEFT:
    case SYMBOLIZER_GONE:
    case SYMBOLIZER_CORRELATION:
        message->process.pid = get_u32(reader);
        message->process.time_ns = get_u64(reader);
        break;
    case SYMBOLIZER_EXECUTABLE_WANTED:
        get_executable_ref(reader, &message->executable_ref);
        break;
    case SYMBOLIZER_NAMES_WANTED:
    case SYMBOLIZER_KERNEL_NAMES_WANTED:
        get_names_wanted(reader, &message->names_wanted);
        break;
    case SYMBOLIZER_EVENT:
        get_event(reader, &message->event);
        break;
    case SYMBOLIZER_SCAN_DONE:
        get_scan_done(reader, &message->scan_done);
        break;
    case SYMBOLIZER_DETAILS:
        get_details(reader, &message->details);
        break;
    case SYMBOLIZER_CONTEXT:
        get_context(reader, &message->context);
        break;
    case SYMBOLIZER_EXECUTABLE:
        get_executable(reader, &message->executable);
        break;
    case SYMBOLIZER_NAMES:
    case SYMBOLIZER_KERNEL_NAMES:
        get_names(reader, &message->names);
        break;
    case SYMBOLIZER_KERNEL:
        get_kernel(reader, &message->kernel);
        break;
    case SYMBOLIZER_UNWIND_WANTED:
        get_unwind_wanted(reader, &message->unwind_wanted);
        break;
    case SYMBOLIZER_UNWOUND:
        get_unwound(reader, &message->unwound);
        break;
    case SYMBOLIZER_CODE_WANTED:
        get_code_wanted(reader, &message->code_wanted);
        break;
    case SYMBOLIZER_CODE:
        get_code(reader, &message->code);
        break;
    default:
        reader->bad = true;
    }
}

int symbolizer_message_decode(struct bytes datagram, struct arena *arena,
                              struct symbolizer_message *message)
{
    memset(message, 0, sizeof(*message));
    if (datagram.len > SYMBOLIZER_MESSAGE_MAX)
        return SYMBOLIZER_MALFORMED;
    struct reader reader = {.in = datagram, .arena = arena};
    message->kind = (enum symbolizer_kind)get_u8(&reader);
    get_body(&reader, message);
    if (reader.out_of_memory)
        return -ENOMEM;
    return reader.bad || reader.at != datagram.len ? SYMBOLIZER_MALFORMED : 0;
}
