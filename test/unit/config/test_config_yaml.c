/* SPDX-License-Identifier: Apache-2.0 */
#include "test_config.h"

/* Texts that are refused as a whole, and the one message that they get. */
static void malformed_texts(void **state)
{
#define HINT "; check indentation (spaces, no tabs), quotes and the colons after keys\n"
#define FLOW_HINT                                                                                  \
    "; check indentation (spaces, no tabs), quotes and the colons after keys; within { } and [ ] " \
    "a "                                                                                           \
    "${...} needs quotes\n"
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"",
         "c.yaml:1:1: the configuration is empty; write receivers, exporters and service, as in "
         "spanprof.yaml\n"},
        {"# nothing\n---\n",
         "c.yaml:1:1: the configuration is empty; write receivers, exporters and "
         "service, as in spanprof.yaml\n"},
        {"{}", "c.yaml:1:1: the configuration is empty; write receivers, exporters and service, as "
               "in spanprof.yaml\n"},
        {"hello",
         "c.yaml:1:1: expected a map with receivers, exporters and service, found a text\n"},
        {"5", "c.yaml:1:1: expected a map with receivers, exporters and service, found a number\n"},
        {"- a\n",
         "c.yaml:1:1: expected a map with receivers, exporters and service, found a list\n"},
        {"a: 1\n b: 2\n",
         "c.yaml:2:3: not YAML: mapping values are not allowed in this context" HINT},
        {"a:\n\tb: 1\n", "c.yaml:2:1: not YAML: found character that cannot start any token" HINT},
        {"a: 'x\nb: 1\n",
         "c.yaml:3:1: not YAML: while scanning a quoted scalar that begins in line "
         "1: found unexpected end of stream" HINT},
        {"a:\n  b: [1,\nc: 1\n",
         "c.yaml:4:1: not YAML: while parsing a flow sequence that begins in "
         "line 2: did not find expected ',' or ']'" FLOW_HINT},
        {"a: \xff", "c.yaml:1:4: not YAML: invalid leading UTF-8 octet" HINT},
        {"a: 1\nb: \x01\n", "c.yaml:2:4: not YAML: control characters are not allowed" HINT},
        {"a: &x 1\nb: *x\n", "c.yaml:1:4: anchors (&name) are not supported; write the value where "
                             "it is needed\n"},
        {"a: &x [1]\n",
         "c.yaml:1:4: anchors (&name) are not supported; write the value where it is "
         "needed\n"},
        {"a: *x\n", "c.yaml:1:4: aliases (*name) are not supported; write the value out\n"},
        {"*x : 1\n", "c.yaml:1:1: aliases (*name) are not supported; write the value out\n"},
        {"a: !!str 1\n", "c.yaml:1:4: tags (!name) are not supported; write the value without its "
                         "tag\n"},
        {"a: !x {}\n", "c.yaml:1:4: tags (!name) are not supported; write the value without its "
                       "tag\n"},
        {"a: 1\n---\nb: 2\n", "c.yaml:2:1: a second document (---) begins; give each its own "
                              "--config\n"},
        {"a: 1\na: 2\n",
         "c.yaml:2:1: the key \"a\" stands twice in this map (first in line 1); keep "
         "one\n"},
        {"[a]: 1\n", "c.yaml:1:1: a key is not a text; write key: value\n"},
        {"a: \"x\\0y\"\n", "c.yaml:1:4: a text holds a NUL character; remove it\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_errors(cases[i].text, NULL, cases[i].message);
#undef FLOW_HINT
#undef HINT
}

static void expect_file_error(const char *path, const char *expected)
{
    struct config *config;
    struct buf errors = BUF_INIT(0);
    const struct config_source source = {CONFIG_SOURCE_FILE, path};
    assert_int_equal(config_load(&source, 1, &config, &errors), -EINVAL);
    assert_null(config);
    assert_int_equal(buf_append(&errors, "", 1), 0);
    assert_string_equal((const char *)errors.data, expected);
    buf_close(&errors);
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    expect_file_error("none.yaml",
                      "none.yaml: cannot be opened: No such file or directory (check the path)\n");
    expect_file_error(".", ".: is a directory; name a file in it\n");
    expect_file_error("c.yaml/x", "c.yaml/x: cannot be opened: Not a directory\n");
    expect_file_error("/dev/zero", "/dev/zero: is larger than 1 MiB; a configuration is smaller\n");
}

static void files_of_ten_megabytes(void **state)
{
    (void)state;
    size_t size = 10 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '#', size);
    write_bytes("c.yaml", text, size);
    expect_file_error("c.yaml", "c.yaml: is larger than 1 MiB; a configuration is smaller\n");
    write_bytes("c.yaml", text, CONFIG_FILE_MAX + 1);
    expect_file_error("c.yaml", "c.yaml: is larger than 1 MiB; a configuration is smaller\n");
    memcpy(text + 1, "\n" MINIMAL "#", strlen("\n" MINIMAL "#"));
    write_bytes("c.yaml", text, CONFIG_FILE_MAX); /* a comment of 1 MiB: the largest that is read */
    const struct config_source source = {CONFIG_SOURCE_FILE, "file:c.yaml"};
    struct config *config;
    struct buf errors = BUF_INIT(0);
    assert_int_equal(config_load(&source, 1, &config, &errors), 0);
    config_close(config);
    free(text);
}

static void repeat(char *out, const char *what, size_t n, const char *end)
{
    for (size_t i = 0; i < n; i++)
        out = stpcpy(out, what);
    strcpy(out, end);
}

static void depth_and_count_have_limits(void **state)
{
    (void)state;
    static char text[200000];
    repeat(text, "[", 100000, "");
    expect_errors(text, NULL, "c.yaml:1:33: nested deeper than 32 levels\n");
    repeat(text, "{a: ", 33, "");
    expect_errors(text, NULL, "c.yaml:1:129: nested deeper than 32 levels\n");
    strcpy(text, "a: [");
    repeat(text + 4, "b,", 20000, "]");
    expect_errors(text, NULL,
                  "c.yaml:1:20001: more than 10000 values; a configuration is smaller\n");
}

static void errors_have_a_limit(void **state)
{
    (void)state;
    static char text[20000];
    char *end = stpcpy(text, MINIMAL);
    for (int i = 0; i < 100; i++)
        end += sprintf(end, "\"\\e%d\": 1\n", i); /* an escape sequence for the terminal */
    struct config *config;
    struct buf errors = BUF_INIT(0);
    assert_int_equal(load_texts(text, NULL, NULL, &config, &errors), -EINVAL);
    size_t lines = 0;
    for (size_t i = 0; i < errors.len; i++)
        lines += errors.data[i] == '\n';
    assert_int_equal(lines, CONFIG_ERRORS_MAX + 1);
    assert_non_null(strstr((char *)errors.data, "c.yaml:4:1: unknown key \"?0\";"));
    assert_null(memchr(errors.data, 0x1b, errors.len));
    assert_string_equal(strstr((char *)errors.data, "... and"), "... and 36 more errors\n");
    buf_close(&errors);
}

static void set_is_a_source(void **state)
{
    (void)state;
    expect_errors(MINIMAL, "x", "--set x: has no =; write --set key.key=value\n");
    static const char *const malformed[] = {"=1", ".a=1", "a.=1", "a..b=1"};
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        char expected[256];
        snprintf(expected, sizeof(expected),
                 "--set %s: the keys before = are not understood; write --set key.key=value, for "
                 "example --set receivers.sampler.frequency=49\n",
                 malformed[i]);
        expect_errors(MINIMAL, malformed[i], expected);
    }
    expect_errors(MINIMAL, "service.telemetry.logs.level=loud",
                  "--set service.telemetry.logs.level=loud: service::telemetry::logs::level: "
                  "expected one of debug, info, warn, error, found a text \"loud\"\n");
    expect_errors(MINIMAL, "a={b: 1, b: 2}",
                  "--set a={b: 1, b: 2}: a key stands twice in one map\n");
    struct config *config = load_valid(
        MINIMAL "processors: {join: }\nextensions: {sqlite_storage/x: {directory: /d}}\n",
        "service: {extensions: [sqlite_storage/x]}", "extensions.sqlite_storage/x.max_size_mib=64");
    assert_int_equal(config->extensions[0].sqlite_storage.max_size_bytes, 64 << 20);
    assert_string_equal(config->extensions[0].sqlite_storage.directory, "/d");
    config_close(config);
    config = load_valid(MINIMAL, NULL, "service.telemetry.logs.level=");
    assert_int_equal(config->service.log_level, LOG_LEVEL_INFO);
    config_close(config);
}

static void sources_merge_from_left_to_right(void **state)
{
    (void)state;
    struct config *config = load_valid(
        MINIMAL "processors:\n  join: {wait: 5s, top_stacks: 3, span_attributes: [a, b]}\n",
        "processors: {join: {wait: 7s, span_attributes: [c]}}\n"
        "receivers: {otlp: {protocols: {http: {endpoint: 'localhost:1'}}}}\n",
        "processors.join.wait=9s");
    const struct config_processor_join *join = &config->processors[0].join;
    assert_int_equal(join->wait_ns, 9000000000);
    assert_int_equal(join->top_stacks, 3);
    assert_int_equal(join->span_attributes.count, 1); /* lists are replaced */
    assert_string_equal(join->span_attributes.items[0], "c");
    assert_true(config->receivers[0].otlp.grpc.enabled); /* maps merge */
    assert_true(config->receivers[0].otlp.http.enabled);
    config_close(config);
    config = load_valid(MINIMAL "processors: {join: {wait: 5s}}\n", "processors: {join: }\n", NULL);
    assert_int_equal(config->processors[0].join.wait_ns, 60000000000); /* null empties a map */
    config_close(config);
    config = load_valid(MINIMAL, "# nothing in it\n", NULL);
    config_close(config);
}

/* A value that a later source replaces is never looked at; errors name the source they are in. */
static void merged_values_keep_their_places(void **state)
{
    struct config *config;
    struct buf errors = BUF_INIT(0);
    (void)state;
    config = load_valid(MINIMAL "processors: {join: {wait: nonsense}}\n",
                        "processors: {join: {wait: 1s}}\n", NULL);
    config_close(config);
    int error = load_texts(MINIMAL "processors: {join: {wait: nonsense}}\n",
                           "\nprocessors: {join: {top_stacks: 99}}\n",
                           "processors.join.max_recent_spans=x", &config, &errors);
    assert_int_equal(error, -EINVAL);
    assert_string_equal(
        (char *)errors.data,
        "c.yaml:4:27: processors::join::wait: expected a duration like 500ms, 5s or "
        "1h30m, found a text \"nonsense\"\n"
        "d.yaml:2:33: processors::join::top_stacks: 99 is out of range; write 0 to "
        "16\n"
        "--set processors.join.max_recent_spans=x: "
        "processors::join::max_recent_spans: expected a whole number (without "
        "quotes), found a text \"x\"\n");
    buf_close(&errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_texts),
        cmocka_unit_test(files_that_cannot_be_read),
        cmocka_unit_test(files_of_ten_megabytes),
        cmocka_unit_test(depth_and_count_have_limits),
        cmocka_unit_test(errors_have_a_limit),
        cmocka_unit_test(set_is_a_source),
        cmocka_unit_test(sources_merge_from_left_to_right),
        cmocka_unit_test(merged_values_keep_their_places),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
