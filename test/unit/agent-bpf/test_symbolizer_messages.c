/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between service and symbolizer: encoded and decoded, cut short, and malformed. */
#include "agent-bpf/record_frame.h"
#include "agent-bpf/symbolizer_messages.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static uint64_t wanted_addresses[] = {1, 0x1234, UINT64_MAX};
static struct bytes context_keys[] = {{(const uint8_t *)"http.route", 10}, {NULL, 0}};
static struct symbolizer_name answered_names[] = {
    {.address = 5,
     .function = {(const uint8_t *)"main", 4},
     .system_name = {(const uint8_t *)"_Z4mainv", 8},
     .file = {(const uint8_t *)"a.c", 3},
     .line = 7},
    {.address = 6},
};

static struct record_frame wanted_frames[] = {
    {{0x1234 | (uint64_t)FRAME_NATIVE << RECORD_FRAME_SHIFT}},
    {{5 | (uint64_t)FRAME_PYTHON << RECORD_FRAME_SHIFT, 6, UINT64_MAX}},
};
static struct symbolizer_line code_lines[] = {
    {BYTES_LIT("inlined"), BYTES_LIT(""), BYTES_LIT("a.py"), 7, 8, 5},
    {BYTES_LIT("outer"), BYTES_LIT("mangled"), BYTES_LIT("b.py"), UINT32_MAX, 0, 0},
};
static struct symbolizer_code_frame code_frames[] = {
    {{{5 | (uint64_t)FRAME_PYTHON << RECORD_FRAME_SHIFT, 6, UINT64_MAX}}, 2, code_lines},
};
static struct symbolizer_code_range code_ranges[] = {
    {.start = 1, .last = 1, .function = {(const uint8_t *)"JS:*f", 5}},
    {.start = 2, .last = 9},
    {.start = 10, .last = UINT64_MAX, .function = {(const uint8_t *)"g", 1}},
};

#define MAPPING                                                                                    \
    {                                                                                              \
        .start = 0x1000, .length = 0x2000, .file_offset = 0x3000, .device_major = 8,               \
        .device_minor = 1, .inode = 99, .inode_generation = 3, .path = "/usr/bin/a"                \
    }

static const struct symbolizer_message messages[] = {
    {.kind = SYMBOLIZER_SCAN_WANTED},
    {.kind = SYMBOLIZER_PROCESS_WANTED, .process = {.pid = 10}},
    {.kind = SYMBOLIZER_CONTEXT_WANTED, .process = {.pid = 11}},
    {.kind = SYMBOLIZER_PROCESS_LEFT, .process = {.pid = UINT32_MAX}},
    {.kind = SYMBOLIZER_EXECUTABLE_WANTED,
     .executable_ref =
         {.identity = {1}, .pid = 4, .ancestors = {3, 2, UINT32_MAX, 1}, .mapping = MAPPING}},
    {.kind = SYMBOLIZER_NAMES_WANTED,
     .names_wanted = {.executable = {.identity = {2}, .pid = 4, .mapping = MAPPING},
                      .n = 3,
                      .addresses = wanted_addresses}},
    {.kind = SYMBOLIZER_KERNEL_NAMES_WANTED,
     .names_wanted = {.n = 1, .addresses = wanted_addresses}},
    {.kind = SYMBOLIZER_EVENT,
     .event =
         {.kind = PROCESS_MAPPED, .time_ns = 77, .pid = 5, .parent_pid = 4, .mapping = MAPPING}},
    {.kind = SYMBOLIZER_SCAN_DONE, .scan_done = {.start_ns = 3, .end_ns = 4}},
    {.kind = SYMBOLIZER_DETAILS,
     .details = {.pid = 9,
                 .time_ns = 8,
                 .own_pid = 7,
                 .start_ns = 6,
                 .exe = {(const uint8_t *)"/bin/x", 6},
                 .container_id = {(const uint8_t *)"abc", 3},
                 .pod_uid = {(const uint8_t *)"def", 3}}},
    {.kind = SYMBOLIZER_CONTEXT,
     .context =
         {.pid = 9,
          .time_ns = 8,
          .sources = 2,
          .publishes = 6,
          .sets_trace_flags = 1,
          .runtime = RUNTIME_JAVA,
          .publisher = PUBLISHER_UNREADABLE,
          .unreadable = CONTEXT_UNREADABLE_NO_ROOM,
          .frames = {RUNTIME_FRAMES_REFUSED, RUNTIME_NODE, RUNTIME_REFUSAL_NO_ROOM, {13, 6, 2}},
          .resource = {(const uint8_t *)"\x0a\x00", 2},
          .n_keys = 2,
          .keys = context_keys}},
    {.kind = SYMBOLIZER_GONE, .process = {.pid = 3, .time_ns = 5}},
    {.kind = SYMBOLIZER_EXECUTABLE,
     .executable = {.identity = {3},
                    .found = 1,
                    .htlhash = {9},
                    .build_id = {(const uint8_t *)"\1\2", 2},
                    .go_build_id = {(const uint8_t *)"go", 2},
                    .n_segments = 2,
                    .segments = {{1, 2, 3}, {4, 5, 6}}}},
    {.kind = SYMBOLIZER_NAMES,
     .names = {.identity = {4}, .more = 1, .n = 2, .names = answered_names}},
    {.kind = SYMBOLIZER_KERNEL_NAMES, .names = {.n = 2, .names = answered_names}},
    {.kind = SYMBOLIZER_KERNEL,
     .kernel = {.text_start = 0xffffffff81000000,
                .text_end = 3,
                .build_id = {(const uint8_t *)"\7", 1}}},
    {.kind = SYMBOLIZER_CORRELATION, .process = {.pid = 3, .time_ns = 5}},
    {.kind = SYMBOLIZER_CODE_WANTED,
     .code_wanted = {.ticket = 1, .pid = 2, .n = 2, .frames = wanted_frames}},
    {.kind = SYMBOLIZER_CODE,
     .code = {.ticket = 1,
              .pid = 2,
              .map = CODE_MAP_READ,
              .cut = 1,
              .n = 3,
              .ranges = code_ranges,
              .n_frames = 1,
              .frames = code_frames}},
};
#define N_MESSAGES (sizeof(messages) / sizeof(*messages))

static void there_and_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESSAGES; i++) {
        _cleanup_buf_ struct buf first = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
        _cleanup_buf_ struct buf second = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
        struct symbolizer_message decoded;
        struct arena arena;
        arena_init(&arena, 65536);
        assert_int_equal(symbolizer_message_encode(&messages[i], &first), 0);
        assert_int_equal(symbolizer_message_decode(buf_bytes(&first), &arena, &decoded), 0);
        assert_int_equal(decoded.kind, messages[i].kind);
        assert_int_equal(symbolizer_message_encode(&decoded, &second), 0);
        assert_true(bytes_equal(buf_bytes(&first), buf_bytes(&second)));
        arena_close(&arena);
    }
    struct symbolizer_message decoded;
    struct arena arena;
    _cleanup_buf_ struct buf text = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
    arena_init(&arena, 65536);
    assert_int_equal(symbolizer_message_encode(&messages[10], &text), 0);
    assert_int_equal(symbolizer_message_decode(buf_bytes(&text), &arena, &decoded), 0);
    assert_int_equal(decoded.context.sources, 2);
    assert_int_equal(decoded.context.publishes, 6);
    assert_int_equal(decoded.context.runtime, RUNTIME_JAVA);
    assert_int_equal(decoded.context.publisher, PUBLISHER_UNREADABLE);
    assert_int_equal(decoded.context.unreadable, CONTEXT_UNREADABLE_NO_ROOM);
    assert_int_equal(decoded.context.n_keys, 2);
    assert_true(bytes_is(decoded.context.keys[0], "http.route"));
    buf_clear(&text);
    assert_int_equal(symbolizer_message_encode(&messages[7], &text), 0);
    assert_int_equal(symbolizer_message_decode(buf_bytes(&text), &arena, &decoded), 0);
    assert_string_equal(decoded.event.mapping.path, "/usr/bin/a");
    assert_int_equal(decoded.event.mapping.inode, 99);
    arena_close(&arena);
}

/* ---- each kind with random values ---- */

enum field_type { INTEGER, FIXED, TEXT_BYTES, PATH, STRUCT, LIST };

/* A field of a message, for the test: the codec has its own order and knows nothing of this. */
struct field {
    enum field_type type;
    size_t offset;
    size_t size;                 /* of it; of an element of a list */
    uint64_t max;                /* value, bytes or elements */
    const struct field *element; /* of a struct or list; ended by size 0 */
    size_t n_offset;             /* of a list's count, u32; of a build id's length, u8 */
};

#define SIZE_OF(type, member)     sizeof(((struct type *)NULL)->member)
#define AT(kind, struct_, member) .type = (kind), .offset = offsetof(struct struct_, member)
#define INT_TO(struct_, member, limit)                                                             \
    {                                                                                              \
        AT(INTEGER, struct_, member), .size = SIZE_OF(struct_, member), .max = (limit)             \
    }
#define INT(struct_, member) INT_TO(struct_, member, UINT64_MAX)
#define RAW(struct_, member)                                                                       \
    {                                                                                              \
        AT(FIXED, struct_, member), .size = SIZE_OF(struct_, member)                               \
    }
#define TEXT(struct_, member, limit)                                                               \
    {                                                                                              \
        AT(TEXT_BYTES, struct_, member), .size = 1, .max = (limit)                                 \
    }
#define PART(struct_, member, fields)                                                              \
    {                                                                                              \
        AT(STRUCT, struct_, member), .size = 1, .element = (fields)                                \
    }
#define ELEMENTS(struct_, member, count, limit, fields)                                            \
    {                                                                                              \
        AT(LIST, struct_, member), .size = sizeof(*((struct struct_ *)NULL)->member),              \
                                   .max = (limit), .element = (fields),                            \
                                   .n_offset = offsetof(struct struct_, count)                     \
    }
#define END_OF_FIELDS                                                                              \
    {                                                                                              \
        .size = 0                                                                                  \
    }

static const struct field mapping_fields[] = {
    INT(process_mapping, start),
    INT(process_mapping, length),
    INT(process_mapping, file_offset),
    INT(process_mapping, device_major),
    INT(process_mapping, device_minor),
    INT(process_mapping, inode),
    INT(process_mapping, inode_generation),
    {AT(PATH, process_mapping, path), .size = 1, .max = 300},
    END_OF_FIELDS,
};
static const struct field ref_fields[] = {
    RAW(symbolizer_executable_ref, identity),
    INT(symbolizer_executable_ref, pid),
    RAW(symbolizer_executable_ref, ancestors),
    PART(symbolizer_executable_ref, mapping, mapping_fields),
    END_OF_FIELDS,
};
static const struct field process_fields[] = {INT(symbolizer_process, pid),
                                              INT(symbolizer_process, time_ns), END_OF_FIELDS};
static const struct field word_fields[] = {{.type = INTEGER, .size = 8, .max = UINT64_MAX},
                                           END_OF_FIELDS};
static const struct field text_fields[] = {{.type = TEXT_BYTES, .size = 1, .max = 200},
                                           END_OF_FIELDS};
static const struct field names_wanted_fields[] = {
    PART(symbolizer_names_wanted, executable, ref_fields),
    ELEMENTS(symbolizer_names_wanted, addresses, n, SYMBOLIZER_NAMES_MAX, word_fields),
    END_OF_FIELDS,
};
static const struct field event_fields[] = {
    INT_TO(process_event, kind, PROCESS_LOST),
    INT(process_event, time_ns),
    INT(process_event, pid),
    INT(process_event, parent_pid),
    PART(process_event, mapping, mapping_fields),
    END_OF_FIELDS,
};
static const struct field scan_done_fields[] = {INT(symbolizer_scan_done, start_ns),
                                                INT(symbolizer_scan_done, end_ns), END_OF_FIELDS};
static const struct field details_fields[] = {
    INT(symbolizer_details, pid),
    INT(symbolizer_details, time_ns),
    INT(symbolizer_details, own_pid),
    INT(symbolizer_details, start_ns),
    TEXT(symbolizer_details, exe, SYMBOLIZER_PATH_MAX),
    TEXT(symbolizer_details, container_id, SYMBOLIZER_CONTAINER_MAX),
    TEXT(symbolizer_details, pod_uid, SYMBOLIZER_CONTAINER_MAX),
    END_OF_FIELDS,
};
static const struct field context_fields[] = {
    INT(symbolizer_context, pid),
    INT(symbolizer_context, time_ns),
    INT(symbolizer_context, sources),
    INT(symbolizer_context, publishes),
    INT(symbolizer_context, sets_trace_flags),
    INT_TO(symbolizer_context, runtime, RUNTIMES - 1),
    INT_TO(symbolizer_context, publisher, PUBLISHER_STATES - 1),
    INT_TO(symbolizer_context, unreadable, CONTEXT_UNREADABLES - 1),
    INT_TO(symbolizer_context, frames.state, RUNTIME_FRAMES_PERF_MAP - 1),
    INT_TO(symbolizer_context, frames.runtime, RUNTIMES - 1),
    INT_TO(symbolizer_context, frames.refusal, RUNTIME_REFUSALS - 1),
    INT(symbolizer_context, frames.version.major),
    INT(symbolizer_context, frames.version.minor),
    INT(symbolizer_context, frames.version.parts),
    TEXT(symbolizer_context, resource, 2000),
    ELEMENTS(symbolizer_context, keys, n_keys, SYMBOLIZER_KEYS_MAX, text_fields),
    END_OF_FIELDS,
};
static const struct field executable_fields[] = {
    RAW(symbolizer_executable, identity),
    INT(symbolizer_executable, found),
    RAW(symbolizer_executable, htlhash),
    TEXT(symbolizer_executable, build_id, 64),
    TEXT(symbolizer_executable, go_build_id, 256),
    /* The segments are an array: with all of them there, each of their words is read back. */
    INT_TO(symbolizer_executable, n_segments, SYMBOLIZER_SEGMENTS_MAX),
    END_OF_FIELDS,
};
static const struct field name_fields[] = {
    INT(symbolizer_name, address),
    TEXT(symbolizer_name, function, SYMBOLIZER_NAME_BYTES),
    TEXT(symbolizer_name, system_name, SYMBOLIZER_NAME_BYTES),
    TEXT(symbolizer_name, file, SYMBOLIZER_NAME_BYTES),
    INT(symbolizer_name, line),
    END_OF_FIELDS,
};
static const struct field names_fields[] = {
    RAW(symbolizer_names, identity),
    INT(symbolizer_names, more),
    ELEMENTS(symbolizer_names, names, n, SYMBOLIZER_NAMES_MAX, name_fields),
    END_OF_FIELDS,
};
static const struct field kernel_fields[] = {
    INT(symbolizer_kernel, text_start),
    INT(symbolizer_kernel, text_end),
    TEXT(symbolizer_kernel, build_id, 64),
    END_OF_FIELDS,
};
static const struct field unwind_wanted_fields[] = {
    INT(symbolizer_unwind_wanted, ticket),
    INT(symbolizer_unwind_wanted, pid),
    TEXT(symbolizer_unwind_wanted, stack, sizeof(struct record_stack) + RECORD_STACK_MAX),
    ELEMENTS(symbolizer_unwind_wanted, mappings, n, SYMBOLIZER_MAPPINGS_MAX, ref_fields),
    END_OF_FIELDS,
};
/* Its words are those of its kind: fill_rest(). */
static const struct field frame_fields[] = {{.type = FIXED, .size = sizeof(struct record_frame)},
                                            END_OF_FIELDS};
static const struct field unwound_fields[] = {
    INT(symbolizer_unwound, ticket),
    INT_TO(symbolizer_unwound, end, UNWIND_ENDS - 1),
    ELEMENTS(symbolizer_unwound, frames, n, RECORD_MAX_USER_FRAMES, frame_fields),
    END_OF_FIELDS,
};
static const struct field code_wanted_fields[] = {
    INT(symbolizer_code_wanted, ticket),
    INT(symbolizer_code_wanted, pid),
    ELEMENTS(symbolizer_code_wanted, frames, n, RECORD_MAX_USER_FRAMES, frame_fields),
    END_OF_FIELDS,
};
static const struct field range_fields[] = {
    INT_TO(symbolizer_code_range, start, 1000),
    INT_TO(symbolizer_code_range, last, 1000),
    TEXT(symbolizer_code_range, function, 200),
    END_OF_FIELDS,
};
static const struct field line_fields[] = {
    TEXT(symbolizer_line, function, 50),
    TEXT(symbolizer_line, system_name, 50),
    TEXT(symbolizer_line, file, 50),
    INT(symbolizer_line, line),
    INT(symbolizer_line, column),
    INT(symbolizer_line, start_line),
    END_OF_FIELDS,
};
static const struct field code_frame_fields[] = {
    {.type = FIXED, .size = sizeof(struct record_frame)},
    ELEMENTS(symbolizer_code_frame, lines, n, 4, line_fields),
    END_OF_FIELDS,
};
static const struct field code_fields[] = {
    INT(symbolizer_code, ticket),
    INT(symbolizer_code, pid),
    INT_TO(symbolizer_code, map, CODE_MAP_NOT_ASKED),
    INT_TO(symbolizer_code, runtime, RUNTIMES - 1),
    ELEMENTS(symbolizer_code, ranges, n, 200, range_fields),
    ELEMENTS(symbolizer_code, frames, n_frames, 40, code_frame_fields),
    END_OF_FIELDS,
};
static const struct field nothing[] = {END_OF_FIELDS};

static const struct {
    enum symbolizer_kind kind;
    const struct field *fields;
} kinds[] = {
    {SYMBOLIZER_SCAN_WANTED, nothing},
    {SYMBOLIZER_PROCESS_WANTED, process_fields},
    {SYMBOLIZER_CONTEXT_WANTED, process_fields},
    {SYMBOLIZER_PROCESS_LEFT, process_fields},
    {SYMBOLIZER_EXECUTABLE_WANTED, ref_fields},
    {SYMBOLIZER_NAMES_WANTED, names_wanted_fields},
    {SYMBOLIZER_KERNEL_NAMES_WANTED, names_wanted_fields},
    {SYMBOLIZER_UNWIND_WANTED, unwind_wanted_fields},
    {SYMBOLIZER_CODE_WANTED, code_wanted_fields},
    {SYMBOLIZER_EVENT, event_fields},
    {SYMBOLIZER_SCAN_DONE, scan_done_fields},
    {SYMBOLIZER_DETAILS, details_fields},
    {SYMBOLIZER_CONTEXT, context_fields},
    {SYMBOLIZER_GONE, process_fields},
    {SYMBOLIZER_EXECUTABLE, executable_fields},
    {SYMBOLIZER_NAMES, names_fields},
    {SYMBOLIZER_KERNEL_NAMES, names_fields},
    {SYMBOLIZER_KERNEL, kernel_fields},
    {SYMBOLIZER_CORRELATION, process_fields},
    {SYMBOLIZER_UNWOUND, unwound_fields},
    {SYMBOLIZER_CODE, code_fields},
};

static uint64_t next_random(void)
{
    static uint64_t state = 0x2545f4914f6cdd1d;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t random_to(uint64_t max)
{
    return max == UINT64_MAX ? next_random() : next_random() % (max + 1);
}

static void *random_text(struct arena *arena, size_t len)
{
    char *text = arena_zalloc(arena, len + 1);
    assert_non_null(text);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)(' ' + random_to('~' - ' '));
    return text;
}

static void fill(struct arena *arena, const struct field *field, uint8_t *to)
{
    for (; field->size; field++) {
        uint8_t *at = to + field->offset;
        uint64_t value = random_to(field->max);
        uint32_t n = (uint32_t)random_to(field->max < 9 ? field->max : 9);
        switch (field->type) {
        case INTEGER:
            memcpy(at, &value, field->size);
            break;
        case FIXED:
            for (size_t i = 0; i < field->size; i++)
                at[i] = (uint8_t)next_random();
            break;
        case TEXT_BYTES:
            *(struct bytes *)at = BYTES(random_text(arena, value), value);
            break;
        case PATH:
            *(const char **)at = random_text(arena, value);
            break;
        case STRUCT:
            fill(arena, field->element, at);
            break;
        case LIST:
            memcpy(to + field->n_offset, &n, sizeof(n));
            uint8_t *elements = arena_zalloc(arena, n * field->size + 1);
            assert_non_null(elements);
            memcpy(at, &elements, sizeof(elements));
            for (uint32_t i = 0; i < n; i++)
                fill(arena, field->element, elements + i * field->size);
        }
    }
}

static void assert_same(const struct field *field, const uint8_t *a, const uint8_t *b)
{
    for (; field->size; field++) {
        const uint8_t *x = a + field->offset, *y = b + field->offset;
        const uint8_t *left, *right;
        uint32_t n, other;
        switch (field->type) {
        case INTEGER:
        case FIXED:
            assert_memory_equal(x, y, field->size);
            break;
        case TEXT_BYTES:
            assert_true(bytes_equal(*(const struct bytes *)x, *(const struct bytes *)y));
            break;
        case PATH:
            assert_string_equal(*(char *const *)x, *(char *const *)y);
            break;
        case STRUCT:
            assert_same(field->element, x, y);
            break;
        case LIST:
            memcpy(&n, a + field->n_offset, sizeof(n));
            memcpy(&other, b + field->n_offset, sizeof(other));
            assert_int_equal(n, other);
            memcpy(&left, x, sizeof(left));
            memcpy(&right, y, sizeof(right));
            for (uint32_t i = 0; i < n; i++)
                assert_same(field->element, left + i * field->size, right + i * field->size);
        }
    }
}

/* What the table of fields cannot say. */
static void fill_frame(struct record_frame *frame)
{
    uint64_t kind = FRAME_KERNEL + next_random() % (FRAME_KINDS - FRAME_KERNEL);
    frame->words[0] = (frame->words[0] & RECORD_FRAME_MASK) | kind << RECORD_FRAME_SHIFT;
    for (uint32_t i = record_frame_words((uint32_t)kind); i < RECORD_FRAME_WORDS_MAX; i++)
        frame->words[i] = 0;
}

static void fill_frames(struct record_frame *frames, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        fill_frame(&frames[i]);
}

static void fill_rest(struct symbolizer_message *message)
{
    if (message->kind == SYMBOLIZER_UNWOUND)
        fill_frames(message->unwound.frames, message->unwound.n);
    if (message->kind == SYMBOLIZER_CODE_WANTED)
        fill_frames(message->code_wanted.frames, message->code_wanted.n);
    for (uint32_t i = 0; message->kind == SYMBOLIZER_CODE && i < message->code.n_frames; i++) {
        fill_frame(&message->code.frames[i].frame);
        if (!message->code.frames[i].n) /* malformed */
            message->code.n_frames = i;
    }
    for (uint32_t i = 0; message->kind == SYMBOLIZER_CODE && i < message->code.n; i++)
        message->code.ranges[i].last += message->code.ranges[i].start;
    for (int i = 0; message->kind == SYMBOLIZER_EXECUTABLE && i < SYMBOLIZER_SEGMENTS_MAX; i++)
        message->executable.segments[i] =
            (struct symbolizer_segment){next_random(), next_random(), next_random()};
}

static void assert_same_rest(const struct symbolizer_message *a, const struct symbolizer_message *b)
{
    if (a->kind == SYMBOLIZER_EXECUTABLE)
        assert_memory_equal(a->executable.segments, b->executable.segments,
                            a->executable.n_segments * sizeof(*a->executable.segments));
}

static void random_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        for (int round = 0; round < 200; round++) {
            _cleanup_buf_ struct buf datagram = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
            struct symbolizer_message message = {.kind = kinds[i].kind}, decoded;
            uint8_t *body = (uint8_t *)&message + offsetof(struct symbolizer_message, process);
            struct arena given, read;
            arena_init(&given, 1 << 20);
            arena_init(&read, 1 << 20);
            fill(&given, kinds[i].fields, body);
            fill_rest(&message);
            assert_int_equal(symbolizer_message_encode(&message, &datagram), 0);
            assert_int_equal(symbolizer_message_decode(buf_bytes(&datagram), &read, &decoded), 0);
            assert_int_equal(decoded.kind, message.kind);
            assert_same(kinds[i].fields, body,
                        (uint8_t *)&decoded + offsetof(struct symbolizer_message, process));
            assert_same_rest(&message, &decoded);
            arena_close(&given);
            arena_close(&read);
        }
    }
}

static int decode(struct bytes datagram, size_t limit)
{
    uint8_t *copy = malloc(datagram.len ? datagram.len : 1);
    struct symbolizer_message message;
    struct arena arena;
    if (datagram.len)
        memcpy(copy, datagram.data, datagram.len);
    arena_init(&arena, limit);
    int outcome = symbolizer_message_decode(BYTES(copy, datagram.len), &arena, &message);
    arena_close(&arena);
    free(copy);
    return outcome;
}

static void malformed(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MESSAGES; i++) {
        _cleanup_buf_ struct buf text = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
        assert_int_equal(symbolizer_message_encode(&messages[i], &text), 0);
        for (size_t cut = 0; cut < text.len; cut++)
            assert_int_equal(decode(BYTES(text.data, cut), 65536), SYMBOLIZER_MALFORMED);
        assert_int_equal(buf_append(&text, "x", 1), 0);
        assert_int_equal(decode(buf_bytes(&text), 65536), SYMBOLIZER_MALFORMED);
    }
    assert_int_equal(decode(BYTES_LIT("\x3f"), 65536), SYMBOLIZER_MALFORMED);
    struct symbolizer_message bad = messages[13];
    struct symbolizer_name name = {.function = BYTES_LIT("a\x1b[2J")};
    bad.names.names = &name;
    bad.names.n = 1;
    _cleanup_buf_ struct buf text = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
    assert_int_equal(symbolizer_message_encode(&bad, &text), 0);
    assert_int_equal(decode(buf_bytes(&text), 65536),
                     SYMBOLIZER_MALFORMED); /* control characters */
    buf_clear(&text);
    name.function = BYTES_LIT("\xff");
    assert_int_equal(symbolizer_message_encode(&bad, &text), 0);
    assert_int_equal(decode(buf_bytes(&text), 65536), SYMBOLIZER_MALFORMED);
    buf_clear(&text);
    struct symbolizer_code_range range = {.start = 2, .last = 1};
    bad = (struct symbolizer_message){.kind = SYMBOLIZER_CODE, .code = {.n = 1, .ranges = &range}};
    assert_int_equal(symbolizer_message_encode(&bad, &text), 0);
    assert_int_equal(decode(buf_bytes(&text), 65536), SYMBOLIZER_MALFORMED);
}

static void largest(void **state)
{
    (void)state;
    uint8_t *resource = calloc(1, SYMBOLIZER_MESSAGE_MAX);
    struct symbolizer_message message = {.kind = SYMBOLIZER_CONTEXT};
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    message.context.resource = BYTES(resource, 65536);
    assert_int_equal(symbolizer_message_encode(&message, &text), 0);
    assert_int_equal(decode(buf_bytes(&text), 65536), 0);
    size_t before = text.len;
    message.context.resource = BYTES(resource, SYMBOLIZER_MESSAGE_MAX);
    assert_int_equal(symbolizer_message_encode(&message, &text), BUF_FULL);
    assert_int_equal(text.len, before);
    free(resource);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(random_values),
        cmocka_unit_test(malformed),
        cmocka_unit_test(largest),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
