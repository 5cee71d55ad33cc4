/* SPDX-License-Identifier: Apache-2.0 */
/* From a real outbox into a file. */
#include "base/clock.h"
#include "base/stats.h"
#include "exporter/file/file_exporter.h"
#include "proto/codec.h"
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"
#include "test/support/rigs/exporter_rig.h"
#include "test/support/net/h2_end.h"
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define SPAN_TEXT                                                                                  \
    "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"spanId\":\"0102030405060708\",\"name\":"  \
    "\"a\\nb\",\"kind\":2}]}]}]}"
#define PROFILE_TEXT "{\"dictionary\":{\"stringTable\":[\"\",\"x\"]}}"

static char path[256];

static void start(struct rig *rig, struct config_exporter_file config)
{
    exporter_close(rig->exporter);
    while (worker_queued(rig->reader)) /* of the former one: it looks at the configuration */
        rig_pause(rig, 1);
    snprintf(path, sizeof(path), "%s/out/data", rig->fixture.directory);
    config.path = path;
    config.append = true;
    rig->config.type = CONFIG_EXPORTER_FILE;
    rig->config.file = config;
    exporter_rig_start(rig);
}

static void put(struct rig *rig, enum signal signal, const char *text)
{
    _cleanup_buf_ struct buf message = BUF_INIT(1 << 20);
    struct otlp_json_error error;
    assert_int_equal(otlp_json_read(otlp_schema_request(signal), BYTES_STR(text), &message, &error),
                     0);
    rig_put_bytes(rig, signal, buf_bytes(&message));
}

static void load(struct buf *out)
{
    char chunk[4096];
    size_t n;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        assert_int_equal(buf_append(out, chunk, n), 0);
    fclose(file);
}

static void assert_file_is(const char *expected)
{
    _cleanup_buf_ struct buf got = BUF_INIT(0);
    load(&got);
    assert_int_equal(buf_append(&got, "", 1), 0);
    assert_string_equal((char *)got.data, expected);
}

static void test_lines(void **state)
{
    struct rig *rig = *state;
    int64_t sent = stats_find("spanprof_exporter_sent_items_total", "signal=\"traces\"");
    start(rig,
          (struct config_exporter_file){.create_directory = true, .flush_interval_ns = NS_PER_MS});
    put(rig, SIGNAL_TRACES, SPAN_TEXT);
    rig_await_empty(rig);
    put(rig, SIGNAL_PROFILES, PROFILE_TEXT);
    rig_await_empty(rig);
    assert_file_is(SPAN_TEXT "\n" PROFILE_TEXT "\n");
    assert_int_equal(stats_find("spanprof_exporter_sent_items_total", "signal=\"traces\""),
                     sent + 3);
    rig_pause(rig, 50); /* the flush timer fires meanwhile */
    put(rig, SIGNAL_PROFILES, PROFILE_TEXT);
    rig_await_empty(rig);
    assert_file_is(SPAN_TEXT "\n" PROFILE_TEXT "\n" PROFILE_TEXT "\n");
}

/* Without its directory nothing can be written; nothing is lost, and it goes on by itself. */
static void test_waits_while_it_cannot_be_written(void **state)
{
    struct rig *rig = *state;
    char directory[128];
    start(rig, (struct config_exporter_file){0});
    put(rig, SIGNAL_TRACES, SPAN_TEXT);
    rig_pause(rig, 200);
    assert_false(rig_is_empty(rig));
    snprintf(directory, sizeof(directory), "%s/out", rig->fixture.directory);
    assert_int_equal(mkdir(directory, 0700), 0);
    rig_await_empty(rig);
    assert_file_is(SPAN_TEXT "\n");
}

static void test_what_is_no_request_is_dropped_alone(void **state)
{
    struct rig *rig = *state;
    exporter_close(rig->exporter);
    rig->exporter = NULL;
    put(rig, SIGNAL_TRACES, SPAN_TEXT);
    rig_put(rig, SIGNAL_TRACES, "\x0a\x05 no");
    put(rig, SIGNAL_TRACES, SPAN_TEXT);
    int64_t dropped = rig_dropped("refused");
    start(rig, (struct config_exporter_file){.create_directory = true});
    rig_await_empty(rig);
    assert_int_equal(rig_dropped("refused"), dropped + 3);
    assert_file_is(SPAN_TEXT "\n" SPAN_TEXT "\n");
}

static void inflate_frame(struct buf *file, size_t *at, bool zstd, struct buf *out)
{
    uint32_t length;
    assert_true(file->len - *at >= sizeof(length));
    memcpy(&length, file->data + *at, sizeof(length));
    *at += sizeof(length);
    struct bytes body = BYTES(file->data + *at, be32toh(length));
    assert_true(body.len <= file->len - *at);
    *at += body.len;
    assert_int_equal(zstd ? codec_inflate_zstd(body, 1 << 20, out) : buf_append_bytes(out, body),
                     0);
}

static void check_frames(struct rig *rig, enum config_file_format format, bool zstd)
{
    _cleanup_buf_ struct buf file = BUF_INIT(0);
    size_t at = 0;
    start(rig,
          (struct config_exporter_file){.create_directory = true, .format = format, .zstd = zstd});
    (void)unlink(path);
    for (int i = 0; i < 2; i++) {
        put(rig, SIGNAL_TRACES, SPAN_TEXT);
        rig_await_empty(rig);
    }
    load(&file);
    for (int i = 0; i < 2; i++) {
        _cleanup_buf_ struct buf body = BUF_INIT(0), text = BUF_INIT(1 << 20);
        inflate_frame(&file, &at, zstd, &body);
        if (format == CONFIG_FILE_PROTO)
            assert_int_equal(
                otlp_json_write(otlp_schema_request(SIGNAL_TRACES), buf_bytes(&body), &text), 0);
        assert_true(bytes_is(buf_bytes(format == CONFIG_FILE_PROTO ? &text : &body), SPAN_TEXT));
    }
    assert_int_equal(at, file.len);
}

static void test_frames(void **state)
{
    check_frames(*state, CONFIG_FILE_PROTO, false);
    check_frames(*state, CONFIG_FILE_PROTO, true);
    check_frames(*state, CONFIG_FILE_JSON, true);
}

/* Closed at any moment: what was handed over is written whole, what was not stays in the store. */
static void test_closed_in_the_middle(void **state)
{
    struct rig *rig = *state;
    for (int ms = 0; ms < 6; ms++) {
        start(rig, (struct config_exporter_file){.create_directory = true});
        put(rig, SIGNAL_TRACES, SPAN_TEXT);
        rig_pause(rig, ms);
        exporter_close(rig->exporter);
        rig->exporter = NULL;
    }
    start(rig, (struct config_exporter_file){.create_directory = true});
    rig_await_empty(rig);
    _cleanup_buf_ struct buf got = BUF_INIT(0);
    load(&got);
    size_t len = strlen(SPAN_TEXT "\n");
    assert_true(got.len > 0 && got.data[got.len - 1] == '\n');
    assert_true(got.len >= len); /* those that were together in the store are one line */
}

static void test_records(void **state)
{
    struct config_exporter_file json = {0}, proto = {.format = CONFIG_FILE_PROTO};
    _cleanup_buf_ struct buf out = BUF_INIT(8);
    (void)state;
    assert_int_equal(file_exporter_record(&json, SIGNAL_LOGS, BYTES_LIT("\x0a\x05"), &out),
                     -EBADMSG);
    assert_int_equal(file_exporter_record(&proto, SIGNAL_LOGS, BYTES_LIT("\x0a\x05"), &out),
                     -EBADMSG);
    assert_int_equal(file_exporter_record(&json, SIGNAL_LOGS, BYTES(NULL, 0), &out), 0);
    assert_true(bytes_is(buf_bytes(&out), "{}\n"));
    assert_int_equal(file_exporter_record(&proto, SIGNAL_LOGS, BYTES_LIT("\x0a\0"), &out),
                     BUF_FULL);
    assert_int_equal(out.len, 3);
}

#define RIG_TEST(name)                                                                             \
    cmocka_unit_test_setup_teardown(name, exporter_rig_setup, exporter_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_lines),
        RIG_TEST(test_waits_while_it_cannot_be_written),
        RIG_TEST(test_what_is_no_request_is_dropped_alone),
        RIG_TEST(test_frames),
        RIG_TEST(test_closed_in_the_middle),
        cmocka_unit_test(test_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
