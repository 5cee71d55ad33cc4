/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of message has one function that names its fields in the order of the wire
 * (message_io.h). */
#include "agent-bpf/symbolizer_messages.h"
#include "agent-bpf/message_io.h"
#include "agent-bpf/record_frame.h"
#include <assert.h>
#include <errno.h>

/* Names are shown on pages and sent to backends. */
static bool is_printable(struct bytes name)
{
    bool printable = bytes_utf8_valid(name);
    for (size_t i = 0; i < name.len; i++)
        printable &= name.data[i] >= 0x20 && name.data[i] != 0x7f;
    return printable;
}

static void io_name(struct message_io *io, struct bytes *name)
{
    io_bytes(io, name, SYMBOLIZER_NAME_BYTES);
    if (io_is_reading(io))
        io_check(io, is_printable(*name));
}

/* ---- parts of several kinds ---- */

static void io_mapping(struct message_io *io, struct process_mapping *mapping)
{
    io_u64(io, &mapping->start);
    io_u64(io, &mapping->length);
    io_u64(io, &mapping->file_offset);
    io_u32(io, &mapping->device_major);
    io_u32(io, &mapping->device_minor);
    io_u64(io, &mapping->inode);
    io_u64(io, &mapping->inode_generation);
    io_string(io, &mapping->path, SYMBOLIZER_PATH_MAX);
}

static void io_executable_ref(struct message_io *io, struct symbolizer_executable_ref *ref)
{
    io_fixed(io, ref->identity, sizeof(ref->identity));
    io_u32(io, &ref->pid);
    for (int i = 0; i < SYMBOLIZER_ANCESTORS_MAX; i++)
        io_u32(io, &ref->ancestors[i]);
    io_mapping(io, &ref->mapping);
}

/* Its words, as many as its kind has. */
static void io_frame(struct message_io *io, struct record_frame *frame)
{
    io_u64(io, (uint64_t *)&frame->words[0]);
    uint32_t words = record_frame_words(record_frame_kind(frame->words[0]));
    io_check(io, words > 0);
    for (uint32_t i = 1; i < words && !io->error; i++)
        io_u64(io, (uint64_t *)&frame->words[i]);
}

/* ---- kinds ---- */

static void io_process(struct message_io *io, struct symbolizer_process *process)
{
    io_u32(io, &process->pid);
    io_u64(io, &process->time_ns);
}

static void io_names_wanted(struct message_io *io, struct symbolizer_names_wanted *wanted)
{
    io_executable_ref(io, &wanted->executable);
    IO_LIST(io, wanted->addresses, wanted->n, SYMBOLIZER_NAMES_MAX);
    for (uint32_t i = 0; i < wanted->n; i++)
        io_u64(io, &wanted->addresses[i]);
}

static void io_event(struct message_io *io, struct process_event *event)
{
    uint8_t kind = (uint8_t)event->kind;
    io_u8(io, &kind);
    io_check(io, kind <= PROCESS_LOST);
    event->kind = (enum process_event_kind)kind;
    io_u64(io, &event->time_ns);
    io_u32(io, &event->pid);
    io_u32(io, &event->parent_pid);
    io_mapping(io, &event->mapping);
}

static void io_scan_done(struct message_io *io, struct symbolizer_scan_done *done)
{
    io_u64(io, &done->start_ns);
    io_u64(io, &done->end_ns);
}

static void io_details(struct message_io *io, struct symbolizer_details *details)
{
    io_u32(io, &details->pid);
    io_u64(io, &details->time_ns);
    io_u32(io, &details->own_pid);
    io_u64(io, &details->start_ns);
    io_bytes(io, &details->exe, SYMBOLIZER_PATH_MAX);
    io_bytes(io, &details->container_id, SYMBOLIZER_CONTAINER_MAX);
    io_bytes(io, &details->pod_uid, SYMBOLIZER_CONTAINER_MAX);
}

static void io_frames(struct message_io *io, struct runtime_frames *frames)
{
    io_u8(io, &frames->state);
    io_u8(io, &frames->runtime);
    io_u8(io, &frames->refusal);
    io_u8(io, &frames->version.major);
    io_u8(io, &frames->version.minor);
    io_u8(io, &frames->version.parts);
    io_check(io, frames->state < RUNTIME_FRAMES_PERF_MAP && frames->runtime < RUNTIMES &&
                     frames->refusal < RUNTIME_REFUSALS);
}

static void io_context(struct message_io *io, struct symbolizer_context *context)
{
    io_u32(io, &context->pid);
    io_u64(io, &context->time_ns);
    io_u8(io, &context->sources);
    io_u8(io, &context->publishes);
    io_u8(io, &context->sets_trace_flags);
    io_u8(io, &context->runtime);
    io_u8(io, &context->publisher);
    io_u8(io, &context->unreadable);
    io_check(io, context->runtime < RUNTIMES && context->publisher < PUBLISHER_STATES &&
                     context->unreadable < CONTEXT_UNREADABLES);
    io_frames(io, &context->frames);
    io_bytes(io, &context->resource, SYMBOLIZER_MESSAGE_MAX);
    IO_LIST(io, context->keys, context->n_keys, SYMBOLIZER_KEYS_MAX);
    for (uint32_t i = 0; i < context->n_keys; i++) {
        io_bytes(io, &context->keys[i], SYMBOLIZER_MESSAGE_MAX);
        if (io_is_reading(io))
            io_check(io, bytes_utf8_valid(context->keys[i]));
    }
}

static void io_executable(struct message_io *io, struct symbolizer_executable *executable)
{
    io_fixed(io, executable->identity, sizeof(executable->identity));
    io_u8(io, &executable->found);
    io_fixed(io, executable->htlhash, sizeof(executable->htlhash));
    io_bytes(io, &executable->build_id, 64);
    io_bytes(io, &executable->go_build_id, 256);
    executable->n_segments = io_count(io, executable->n_segments, SYMBOLIZER_SEGMENTS_MAX);
    for (uint32_t i = 0; i < executable->n_segments; i++) {
        io_u64(io, &executable->segments[i].file_offset);
        io_u64(io, &executable->segments[i].size);
        io_u64(io, &executable->segments[i].vaddr);
    }
}

static void io_names(struct message_io *io, struct symbolizer_names *names)
{
    io_fixed(io, names->identity, sizeof(names->identity));
    io_u8(io, &names->more);
    IO_LIST(io, names->names, names->n, SYMBOLIZER_NAMES_MAX);
    for (uint32_t i = 0; i < names->n; i++) {
        io_u64(io, &names->names[i].address);
        io_name(io, &names->names[i].function);
        io_name(io, &names->names[i].system_name);
        io_name(io, &names->names[i].file);
        io_u32(io, &names->names[i].line);
    }
}

static void io_kernel(struct message_io *io, struct symbolizer_kernel *kernel)
{
    io_u64(io, &kernel->text_start);
    io_u64(io, &kernel->text_end);
    io_bytes(io, &kernel->build_id, 64);
}

static void io_unwind_wanted(struct message_io *io, struct symbolizer_unwind_wanted *wanted)
{
    io_u64(io, &wanted->ticket);
    io_u32(io, &wanted->pid);
    io_bytes(io, &wanted->stack, sizeof(struct record_stack) + RECORD_STACK_MAX);
    IO_LIST(io, wanted->mappings, wanted->n, SYMBOLIZER_MAPPINGS_MAX);
    for (uint32_t i = 0; i < wanted->n; i++)
        io_executable_ref(io, &wanted->mappings[i]);
}

static void io_unwound(struct message_io *io, struct symbolizer_unwound *unwound)
{
    io_u64(io, &unwound->ticket);
    io_u8(io, &unwound->end);
    io_check(io, unwound->end < UNWIND_ENDS);
    IO_LIST(io, unwound->frames, unwound->n, RECORD_MAX_USER_FRAMES);
    for (uint32_t i = 0; i < unwound->n; i++)
        io_frame(io, &unwound->frames[i]);
}

static void io_code_wanted(struct message_io *io, struct symbolizer_code_wanted *wanted)
{
    io_u64(io, &wanted->ticket);
    io_u32(io, &wanted->pid);
    IO_LIST(io, wanted->frames, wanted->n, RECORD_MAX_USER_FRAMES);
    for (uint32_t i = 0; i < wanted->n; i++)
        io_frame(io, &wanted->frames[i]);
}

static void io_line(struct message_io *io, struct symbolizer_line *line)
{
    io_name(io, &line->function);
    io_name(io, &line->system_name);
    io_name(io, &line->file);
    io_u32(io, &line->line);
    io_u32(io, &line->column);
    io_u32(io, &line->start_line);
}

static void io_code_frame(struct message_io *io, struct symbolizer_code_frame *frame)
{
    io_frame(io, &frame->frame);
    IO_LIST(io, frame->lines, frame->n, SYMBOLIZER_LINES_MAX);
    io_check(io, frame->n > 0);
    for (uint32_t i = 0; i < frame->n; i++)
        io_line(io, &frame->lines[i]);
}

static void io_code(struct message_io *io, struct symbolizer_code *code)
{
    io_u64(io, &code->ticket);
    io_u32(io, &code->pid);
    io_u8(io, &code->map);
    io_u8(io, &code->runtime);
    io_u8(io, &code->cut);
    io_check(io, code->map <= CODE_MAP_NOT_ASKED && code->runtime < RUNTIMES && code->cut <= 1);
    IO_LIST(io, code->ranges, code->n, RECORD_MAX_USER_FRAMES);
    for (uint32_t i = 0; i < code->n; i++) {
        struct symbolizer_code_range *range = &code->ranges[i];
        io_u64(io, &range->start);
        io_u64(io, &range->last);
        io_name(io, &range->function);
        io_check(io, range->start <= range->last);
    }
    IO_LIST(io, code->frames, code->n_frames, RECORD_MAX_USER_FRAMES);
    for (uint32_t i = 0; i < code->n_frames; i++)
        io_code_frame(io, &code->frames[i]);
}

/* False: there is no such kind. */
static bool io_body(struct message_io *io, struct symbolizer_message *message)
{
    switch (message->kind) {
    case SYMBOLIZER_SCAN_WANTED:
        return true;
    case SYMBOLIZER_PROCESS_WANTED:
    case SYMBOLIZER_CONTEXT_WANTED:
    case SYMBOLIZER_PROCESS_LEFT:
    case SYMBOLIZER_MAPPINGS_WANTED:
    case SYMBOLIZER_GONE:
    case SYMBOLIZER_CORRELATION:
        io_process(io, &message->process);
        return true;
    case SYMBOLIZER_EXECUTABLE_WANTED:
        io_executable_ref(io, &message->executable_ref);
        return true;
    case SYMBOLIZER_NAMES_WANTED:
    case SYMBOLIZER_KERNEL_NAMES_WANTED:
        io_names_wanted(io, &message->names_wanted);
        return true;
    case SYMBOLIZER_EVENT:
        io_event(io, &message->event);
        return true;
    case SYMBOLIZER_SCAN_DONE:
        io_scan_done(io, &message->scan_done);
        return true;
    case SYMBOLIZER_DETAILS:
        io_details(io, &message->details);
        return true;
    case SYMBOLIZER_CONTEXT:
        io_context(io, &message->context);
        return true;
    case SYMBOLIZER_EXECUTABLE:
        io_executable(io, &message->executable);
        return true;
    case SYMBOLIZER_NAMES:
    case SYMBOLIZER_KERNEL_NAMES:
        io_names(io, &message->names);
        return true;
    case SYMBOLIZER_KERNEL:
        io_kernel(io, &message->kernel);
        return true;
    case SYMBOLIZER_UNWIND_WANTED:
        io_unwind_wanted(io, &message->unwind_wanted);
        return true;
    case SYMBOLIZER_UNWOUND:
        io_unwound(io, &message->unwound);
        return true;
    case SYMBOLIZER_CODE_WANTED:
        io_code_wanted(io, &message->code_wanted);
        return true;
    case SYMBOLIZER_CODE:
        io_code(io, &message->code);
        return true;
    }
    return false;
}

int symbolizer_message_encode(const struct symbolizer_message *message, struct buf *out)
{
    struct symbolizer_message fields = *message;
    struct message_io io = {.out = out};
    size_t before = out->len;
    uint8_t kind = (uint8_t)message->kind;
    io_u8(&io, &kind);
    if (!io_body(&io, &fields))
        io.error = -EINVAL;
    if (!io.error && out->len - before > SYMBOLIZER_MESSAGE_MAX)
        io.error = BUF_FULL;
    if (io.error)
        out->len = before;
    return io.error;
}

int symbolizer_message_decode(struct bytes datagram, struct arena *arena,
                              struct symbolizer_message *message)
{
    memset(message, 0, sizeof(*message));
    if (datagram.len > SYMBOLIZER_MESSAGE_MAX)
        return SYMBOLIZER_MALFORMED;
    struct message_io io = {.in = datagram, .arena = arena};
    uint8_t kind = 0;
    io_u8(&io, &kind);
    message->kind = (enum symbolizer_kind)kind;
    io_check(&io, io_body(&io, message));
    io_check(&io, io.at == datagram.len);
    return io.error;
}
