/* SPDX-License-Identifier: Apache-2.0 */
/* What service and symbolizer say to each other: there and back, cut short, and with lies in it. */
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

static struct symbolizer_code_range code_ranges[] = {
    {.start = 1, .last = 1, .function = {(const uint8_t *)"JS:*f", 5}},
    {.start = 2, .last = 9},
    {.start = 10, .last = UINT64_MAX, .function = {(const uint8_t *)"g", 1}},
};

#define MAPPING                                                                                    \
    {                                                                                              \
        .start = 0x1000, .length = 0x2000, .file_offset = 0x3000, .device_major = 8,               \
        .device_minor = 1, .inode = 99, .inode_generation = 3, .build_id = {1, 2, 3},              \
        .build_id_len = 3, .path = "/usr/bin/a"                                                    \
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
     .context = {.pid = 9,
                 .time_ns = 8,
                 .sources = 2,
                 .publishes = 6,
                 .sets_trace_flags = 1,
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
     .code_wanted = {.ticket = 1, .pid = 2, .n = 3, .addresses = wanted_addresses}},
    {.kind = SYMBOLIZER_CODE,
     .code = {.ticket = 1, .pid = 2, .named = 1, .n = 3, .ranges = code_ranges}},
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
    assert_int_equal(decoded.context.n_keys, 2);
    assert_true(bytes_is(decoded.context.keys[0], "http.route"));
    buf_clear(&text);
    assert_int_equal(symbolizer_message_encode(&messages[7], &text), 0);
    assert_int_equal(symbolizer_message_decode(buf_bytes(&text), &arena, &decoded), 0);
    assert_string_equal(decoded.event.mapping.path, "/usr/bin/a");
    assert_int_equal(decoded.event.mapping.inode, 99);
    arena_close(&arena);
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
        cmocka_unit_test(malformed),
        cmocka_unit_test(largest),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
