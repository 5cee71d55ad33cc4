/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pprof.h"
#include "proto/wire.h"
#include "test/unit/proto/proto_alloc_fault.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* BYTES() is no constant expression. */
#define TEXT(literal)                                                                              \
    {                                                                                              \
        (const uint8_t *)(literal), sizeof(literal) - 1                                            \
    }

static const struct pprof_frame shop[] = {
    {.function = TEXT("round_up"),
     .file = TEXT("tax.c"),
     .line = 7,
     .module = TEXT("/usr/bin/shop"),
     .build_id = TEXT("\xab\xcd"),
     .address = 0x1010,
     .inlined = true},
    {.function = TEXT("tax"),
     .file = TEXT("tax.c"),
     .line = 40,
     .module = TEXT("/usr/bin/shop"),
     .build_id = TEXT("\xab\xcd"),
     .address = 0x1010},
    {.function = TEXT("main"),
     .module = TEXT("/usr/bin/shop"),
     .build_id = TEXT("\xab\xcd"),
     .address = 0x2020},
};
static const struct pprof_frame unknown[] = {
    {.module = TEXT("/usr/lib/libx.so"), .address = 0x99},
    {.function = TEXT("main"),
     .module = TEXT("/usr/bin/shop"),
     .build_id = TEXT("\xab\xcd"),
     .address = 0x2020},
};
static const struct pprof_label labels[] = {{"trace_id", TEXT("0af7")}, {"thread", {NULL, 0}}};

static int add_both(struct pprof *pprof)
{
    int error = pprof_add(pprof, &(struct pprof_sample){.frames = shop,
                                                        .n_frames = 3,
                                                        .labels = labels,
                                                        .n_labels = 2,
                                                        .count = 3,
                                                        .cpu_ns = 30});
    return error
               ? error
               : pprof_add(pprof, &(struct pprof_sample){
                                      .frames = unknown, .n_frames = 2, .count = 1, .cpu_ns = 10});
}

static const struct pprof_time when = {1000, 200, 10};

/* What a reader makes of it, as text: strings by their index, then each message. */
struct reading {
    struct bytes strings[64];
    size_t n_strings;
    char text[4096];
    size_t len;
};

static void say(struct reading *reading, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    reading->len += (size_t)vsnprintf(reading->text + reading->len,
                                      sizeof(reading->text) - reading->len, format, arguments);
    va_end(arguments);
    assert_true(reading->len < sizeof(reading->text));
}

static void say_fields(struct reading *reading, struct bytes message, const char *texts,
                       const char *messages)
{
    struct wire_reader reader = wire_read(message);
    struct wire_field field;
    int outcome;
    while ((outcome = wire_next(&reader, &field)) == WIRE_FIELD) {
        say(reading, " %u=", field.number);
        if (field.type == WIRE_VARINT && strchr(texts, (int)('0' + field.number))) {
            assert_true(field.value < reading->n_strings);
            struct bytes text = reading->strings[field.value];
            say(reading, "%.*s", (int)text.len, (const char *)text.data);
        } else if (field.type == WIRE_VARINT) {
            say(reading, "%llu", (unsigned long long)field.value);
        } else if (strchr(messages, (int)('0' + field.number))) {
            say(reading, "{");
            say_fields(reading, field.bytes, texts, "");
            say(reading, " }");
        } else {
            struct wire_reader packed = wire_read(field.bytes);
            uint64_t value;
            say(reading, "[");
            while (wire_next_varint(&packed, &value))
                say(reading, " %llu", (unsigned long long)value);
            say(reading, " ]");
        }
    }
    assert_int_equal(outcome, WIRE_END);
}

static void read_strings(struct reading *reading, struct bytes profile)
{
    struct wire_reader reader = wire_read(profile);
    struct wire_field field;
    while (wire_next(&reader, &field) == WIRE_FIELD)
        if (field.number == 6)
            reading->strings[reading->n_strings++] = field.bytes;
}

static void read_profile(struct reading *reading, struct bytes profile)
{
    /* of each field of Profile: which of its fields are texts, and which are messages */
    static const char *const forms[15][2] = {
        [1] = {"12", ""}, [2] = {"12", "3"}, [3] = {"56", ""},
        [4] = {"", "4"},  [5] = {"234", ""}, [11] = {"12", ""}};
    struct wire_reader reader = wire_read(profile);
    struct wire_field field;
    read_strings(reading, profile);
    while (wire_next(&reader, &field) == WIRE_FIELD) {
        assert_true(field.number < 15);
        if (field.number == 14) {
            assert_true(field.value < reading->n_strings);
            say(reading, "14: %.*s\n", (int)reading->strings[field.value].len,
                (const char *)reading->strings[field.value].data);
        } else if (field.type == WIRE_VARINT) {
            say(reading, "%u: %llu\n", field.number, (unsigned long long)field.value);
        }
        if (field.type != WIRE_BYTES || field.number == 6)
            continue;
        say(reading, "%u:", field.number);
        say_fields(reading, field.bytes, forms[field.number][0], forms[field.number][1]);
        say(reading, "\n");
    }
}

static size_t n_samples(const struct pprof *pprof)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct wire_field field;
    size_t n = 0;
    assert_int_equal(pprof_finish(pprof, &when, &out), 0);
    struct wire_reader reader = wire_read(buf_bytes(&out));
    while (wire_next(&reader, &field) == WIRE_FIELD)
        n += field.number == 2;
    return n;
}

static void test_all_that_was_said_is_there(void **state)
{
    struct reading *reading = calloc(1, sizeof(*reading));
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct pprof *pprof = NULL;
    (void)state;
    assert_int_equal(pprof_open(1 << 20, &pprof), 0);
    assert_int_equal(add_both(pprof), 0);
    assert_int_equal(n_samples(pprof), 2);
    assert_int_equal(pprof_finish(pprof, &when, &out), 0);
    read_profile(reading, buf_bytes(&out));
    assert_string_equal(reading->text, "2: 1=[ 1 2 ] 2=[ 3 30 ] 3={ 1=trace_id 2=0af7 }\n"
                                       "2: 1=[ 3 2 ] 2=[ 1 10 ]\n"
                                       "3: 1=1 5=/usr/bin/shop 6=abcd 7=1\n"
                                       "3: 1=2 5=/usr/lib/libx.so\n"
                                       "4: 1=1 2=1 3=4112 4={ 1=1 2=7 } 4={ 1=2 2=40 }\n"
                                       "4: 1=2 2=1 3=8224 4={ 1=3 2=0 }\n"
                                       "4: 1=3 2=2 3=153\n"
                                       "5: 1=1 2=round_up 4=tax.c\n"
                                       "5: 1=2 2=tax 4=tax.c\n"
                                       "5: 1=3 2=main\n"
                                       "1: 1=samples 2=count\n"
                                       "1: 1=cpu 2=nanoseconds\n"
                                       "11: 1=cpu 2=nanoseconds\n"
                                       "14: cpu\n"
                                       "9: 1000\n"
                                       "10: 200\n"
                                       "12: 10\n");
    assert_int_equal(reading->strings[0].len, 0);
    pprof_close(pprof);
    free(reading);
}

/* Pyroscope drops samples with a location that has neither. */
static void test_each_location_has_an_address_or_a_name(void **state)
{
    static const struct pprof_frame nameless[] = {{.address = 0}, {.address = 7}};
    struct reading *reading = calloc(1, sizeof(*reading));
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct pprof *pprof = NULL;
    (void)state;
    assert_int_equal(pprof_open(1 << 20, &pprof), 0);
    assert_int_equal(pprof_add(pprof,
                               &(struct pprof_sample){
                                   .frames = nameless, .n_frames = 2, .count = 1, .cpu_ns = 10}),
                     0);
    assert_int_equal(pprof_finish(pprof, &when, &out), 0);
    read_profile(reading, buf_bytes(&out));
    assert_non_null(strstr(reading->text, "4: 1=1 3=0 4={ 1=1 2=0 }\n4: 1=2 3=7\n"
                                          "5: 1=1 2=[unknown]\n"));
    pprof_close(pprof);
    free(reading);
}

static void test_texts_are_utf8(void **state)
{
    static const struct pprof_frame odd = {
        .function = TEXT("f\xff"), .file = TEXT("gr\xc3\xb6\xc3"), .module = TEXT("/\xed\xa0\x80")};
    static const struct pprof_label cut = {"thread", TEXT("gr\xc3\xb6\xc3\x9f"
                                                          "en-stra\xc3")};
    struct reading *reading = calloc(1, sizeof(*reading));
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct pprof *pprof = NULL;
    (void)state;
    assert_int_equal(pprof_open(1 << 20, &pprof), 0);
    assert_int_equal(pprof_add(pprof, &(struct pprof_sample){.frames = &odd,
                                                             .n_frames = 1,
                                                             .labels = &cut,
                                                             .n_labels = 1,
                                                             .count = 1,
                                                             .cpu_ns = 10}),
                     0);
    assert_int_equal(pprof_finish(pprof, &when, &out), 0);
    read_profile(reading, buf_bytes(&out));
    for (size_t i = 0; i < reading->n_strings; i++)
        assert_true(bytes_utf8_valid(reading->strings[i]));
    assert_non_null(strstr(reading->text, "3={ 1=thread 2=gr\xc3\xb6\xc3\x9f"
                                          "en-stra? }"));
    assert_non_null(strstr(reading->text, "5: 1=1 2=f? 4=gr\xc3\xb6?\n"));
    pprof_close(pprof);
    free(reading);
}

/* Also what its types are called, where a function has that name. */
static void test_no_text_stands_twice(void **state)
{
    static const struct pprof_frame named[] = {{.function = TEXT("samples")},
                                               {.function = TEXT("cpu")}};
    struct reading *reading = calloc(1, sizeof(*reading));
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct pprof *pprof = NULL;
    (void)state;
    assert_int_equal(pprof_open(1 << 20, &pprof), 0);
    assert_int_equal(
        pprof_add(pprof,
                  &(struct pprof_sample){.frames = named, .n_frames = 2, .count = 1, .cpu_ns = 10}),
        0);
    for (int i = 0; i < 2; i++) { /* told again it is the same */
        buf_clear(&out);
        memset(reading, 0, sizeof(*reading));
        assert_int_equal(pprof_finish(pprof, &when, &out), 0);
        read_profile(reading, buf_bytes(&out));
        for (size_t k = 0; k < reading->n_strings; k++)
            for (size_t m = 0; m < k; m++)
                assert_false(bytes_equal(reading->strings[k], reading->strings[m]));
        assert_non_null(strstr(reading->text, "1: 1=samples 2=count\n"
                                              "1: 1=cpu 2=nanoseconds\n"
                                              "11: 1=cpu 2=nanoseconds\n"
                                              "14: cpu\n"));
    }
    pprof_close(pprof);
    free(reading);
}

/* Whatever lies between them: values are summed up, and no sample stands there twice. */
static void test_equal_samples_are_one(void **state)
{
    struct reading *reading = calloc(1, sizeof(*reading));
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct pprof *pprof = NULL;
    (void)state;
    assert_int_equal(pprof_open(1 << 20, &pprof), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(add_both(pprof), 0);
    assert_int_equal(pprof_add(pprof, &(struct pprof_sample){.frames = shop, /* no label */
                                                             .n_frames = 3,
                                                             .count = 5,
                                                             .cpu_ns = 50}),
                     0);
    assert_int_equal(n_samples(pprof), 3);
    assert_int_equal(pprof_finish(pprof, &when, &out), 0);
    read_profile(reading, buf_bytes(&out));
    const char *wanted = "2: 1=[ 1 2 ] 2=[ 3000 30000 ] 3={ 1=trace_id 2=0af7 }\n"
                         "2: 1=[ 3 2 ] 2=[ 1000 10000 ]\n"
                         "2: 1=[ 1 2 ] 2=[ 5 50 ]\n3:";
    assert_memory_equal(reading->text, wanted, strlen(wanted));
    pprof_close(pprof);
    free(reading);
}

/* A full profile still takes what it knows. */
static void test_equal_samples_take_no_room(void **state)
{
    struct pprof *pprof = NULL;
    struct pprof_frame frame = {.function = TEXT("f")};
    const struct pprof_sample sample = {.frames = &frame, .n_frames = 1, .count = 1};
    int error = 0;
    (void)state;
    assert_int_equal(pprof_open(400, &pprof), 0);
    for (; !error; frame.address++)
        error = pprof_add(pprof, &sample);
    assert_int_equal(error, -EMSGSIZE);
    size_t n = n_samples(pprof);
    assert_true(n > 2);
    frame.address = 0;
    for (int i = 0; i < 10000; i++)
        assert_int_equal(pprof_add(pprof, &sample), 0);
    assert_int_equal(n_samples(pprof), n);
    pprof_close(pprof);
}

static void test_what_passes_the_limit_is_not_added(void **state)
{
    struct pprof *pprof = NULL;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    (void)state;
    assert_int_equal(pprof_open(PPROF_BYTES_MAX + 1, &pprof), -EINVAL);
    assert_int_equal(pprof_open(400, &pprof), 0);
    int error = 0;
    for (uint64_t i = 0; !error; i++) {
        struct pprof_frame frame = {.function = TEXT("f"), .address = i};
        error = pprof_add(pprof, &(struct pprof_sample){.frames = &frame, .n_frames = 1});
    }
    assert_int_equal(error, -EMSGSIZE);
    assert_true(n_samples(pprof) > 3);
    assert_int_equal(pprof_finish(pprof, &when, &out), 0);
    assert_true(out.len <= 400 + 80); /* and what is in every profile */
    pprof_close(pprof);
}

static void test_too_much_of_one_sample_is_refused(void **state)
{
    struct pprof *pprof = NULL;
    (void)state;
    assert_int_equal(pprof_open(1 << 20, &pprof), 0);
    assert_int_equal(pprof_add(pprof, &(struct pprof_sample){.n_frames = PPROF_FRAMES_MAX + 1}),
                     -EINVAL);
    assert_int_equal(pprof_add(pprof, &(struct pprof_sample){.n_labels = PPROF_LABELS_MAX + 1}),
                     -EINVAL);
    pprof_close(pprof);
}

static int build(struct buf *out)
{
    struct pprof *pprof = NULL;
    int error = pprof_open(1 << 20, &pprof);
    error = error ? error : add_both(pprof);
    error = error ? error : pprof_finish(pprof, &when, out);
    pprof_close(pprof);
    return error;
}

static void test_without_memory(void **state)
{
    (void)state;
    int error = -ENOMEM;
    for (long n = 0; error; n++) {
        _cleanup_buf_ struct buf out = BUF_INIT(0);
        allocations_left = n;
        error = build(&out);
        allocations_left = -1;
        assert_true(error == 0 || error == -ENOMEM);
        assert_true(error == 0 || out.len == 0);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_was_said_is_there),
        cmocka_unit_test(test_each_location_has_an_address_or_a_name),
        cmocka_unit_test(test_texts_are_utf8),
        cmocka_unit_test(test_no_text_stands_twice),
        cmocka_unit_test(test_equal_samples_are_one),
        cmocka_unit_test(test_equal_samples_take_no_room),
        cmocka_unit_test(test_what_passes_the_limit_is_not_added),
        cmocka_unit_test(test_too_much_of_one_sample_is_refused),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
