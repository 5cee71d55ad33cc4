/* SPDX-License-Identifier: Apache-2.0 */
#include "test_config.h"

/* What span_attributes (a list of texts), directory (a text) and frequency (a number) become. */
#define WITH(attributes, directory, frequency)                                                     \
    "receivers:\n"                                                                                 \
    "  otlp: {protocols: {grpc: }}\n"                                                              \
    "  sampler:\n"                                                                                 \
    "    frequency: " frequency "\n"                                                               \
    "processors:\n"                                                                                \
    "  join:\n"                                                                                    \
    "    span_attributes: " attributes "\n"                                                        \
    "exporters: {debug: }\n"                                                                       \
    "extensions:\n"                                                                                \
    "  sqlite_storage:\n"                                                                          \
    "    directory: " directory "\n"                                                               \
    "service:\n"                                                                                   \
    "  extensions: [sqlite_storage]\n"                                                             \
    "  pipelines: {traces: {receivers: [otlp], processors: [join], exporters: [debug]},\n"         \
    "    profiles: {receivers: [sampler], processors: [join], exporters: [debug]}}\n"

static int set_environment(void **state)
{
    (void)state;
    setenv("TEXT", "/a/b", 1);
    setenv("EMPTY", "", 1);
    setenv("NUMBER", "49", 1);
    setenv("QUOTED", "\"49\"", 1);
    setenv("LIST", "[x, y]", 1);
    setenv("COMMAS", "x, y", 1);
    setenv("MAP", "{frequency: 7}", 1);
    setenv("WHICH", "TEXT", 1);
    setenv("CHAIN", "${env:TEXT}/c", 1);
    setenv("DOLLARS", "a$$b", 1);
    setenv("NO_YAML", "a: b: [", 1);
    setenv("ALIAS", "*x", 1);
    setenv("SELF", "${env:SELF}", 1);
    setenv("FORK", "[${env:FORK}, ${env:FORK}]", 1);
    unsetenv("UNSET");
    return enter_directory(state);
}

static void texts(void **state)
{
    static const struct {
        const char *written, *found;
    } cases[] = {
        {"${env:TEXT}", "/a/b"},
        {"${TEXT}", "/a/b"},
        {"'${env:TEXT}'", "/a/b"},
        {"x${env:TEXT}y${TEXT}", "x/a/by/a/b"},
        {"${env:UNSET:-/d}", "/d"},
        {"${UNSET:-/d}", "/d"},
        {"'${env:UNSET:-a:-b}'", "a:-b"},
        {"x${env:UNSET:-}", "x"},
        {"x${env:EMPTY:-d}", "x"}, /* set but empty counts as set */
        {"${env:NUMBER}", "49"},   /* a text takes it as it stands */
        {"'${env:QUOTED}'", "\"49\""},
        {"${env:LIST}", "[x, y]"},
        {"${env:NO_YAML}", "a: b: ["},
        {"${env:ALIAS}", "*x"},
        {"${env:${env:WHICH}}", "/a/b"},
        {"${env:${WHICH}}/x", "/a/b/x"},
        {"${env:UNSET:-${env:TEXT}/d}", "/a/b/d"},
        {"${env:CHAIN}", "/a/b/c"},
        {"x${env:CHAIN}", "x/a/b/c"},
        {"${env:DOLLARS}", "a$b"},
        {"x${env:DOLLARS}", "xa$b"},
        {"$$", "$"},
        {"a$$b$$$$c", "a$b$$c"},
        {"$${env:TEXT}", "${env:TEXT}"},
        {"$$${env:TEXT}", "$/a/b"},
        {"$${env:TEXT}${env:TEXT}", "${env:TEXT}/a/b"},
        {"$TEXT", "$TEXT"},
        {"a$", "a$"},
        {"'${yaml:hello}'", "hello"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024];
        snprintf(text, sizeof(text), WITH("[]", "%s", "1"), cases[i].written);
        struct config *config = load_valid(text, NULL, NULL);
        assert_string_equal(config->extensions[0].sqlite_storage.directory, cases[i].found);
        assert_int_equal(config->n_warnings, 0);
        config_close(config);
    }
}

static void lists(void **state)
{
    static const char *const written[] = {
        "${env:LIST}", "${env:COMMAS}",          "'x,y'",
        "[x, y]",      "[x, '${env:UNSET:-y}']", "${yaml:[x, y]}"};
    (void)state;
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        char text[1024];
        snprintf(text, sizeof(text), WITH("%s", "/d", "1"), written[i]);
        struct config *config = load_valid(text, NULL, NULL);
        const struct config_list *list = &config->processors[0].join.span_attributes;
        assert_int_equal(list->count, 2);
        assert_string_equal(list->items[0], "x");
        assert_string_equal(list->items[1], "y");
        assert_null(list->items[2]);
        config_close(config);
    }
}

static void numbers_and_maps(void **state)
{
    (void)state;
    struct config *config = load_valid(WITH("[]", "/d", "${env:NUMBER}"), NULL, NULL);
    assert_int_equal(config->receivers[1].sampler.frequency, 49);
    config_close(config);
    config = load_valid(WITH("[]", "/d", "1"), "receivers: {sampler: '${env:MAP}'}", NULL);
    assert_int_equal(config->receivers[1].sampler.frequency, 7);
    config_close(config);
    config = load_valid(WITH("[]", "/d", "${env:EMPTY}"), NULL, NULL); /* null: the default */
    assert_int_equal(config->receivers[1].sampler.frequency, 97);
    config_close(config);
}

static void keys_are_not_expanded(void **state)
{
    (void)state;
    expect_errors(MINIMAL "${env:TEXT}: 1\n", NULL,
                  "c.yaml:4:1: unknown key \"${env:TEXT}\"; keys here: receivers, processors, "
                  "exporters, extensions, service\n");
}

static void unset_variables_warn(void **state)
{
    (void)state;
    struct config *config = load_valid(WITH("[]", "${env:UNSET}", "${env:UNSET}"), NULL, NULL);
    assert_int_equal(config->n_warnings, 2);
    assert_string_equal(
        config->warnings[0],
        "c.yaml:4:16: receivers::sampler::frequency: the environment variable UNSET "
        "is not set; give it a default with ${env:UNSET:-text}");
    assert_int_equal(config->receivers[1].sampler.frequency, 97);
    assert_string_equal(config->extensions[0].sqlite_storage.directory, "/var/lib/spanprof");
    config_close(config);
    config = load_valid(WITH("[]", "a${env:UNSET}b", "1"), NULL, NULL);
    assert_int_equal(config->n_warnings, 1);
    assert_string_equal(config->extensions[0].sqlite_storage.directory, "ab");
    config_close(config);
}

static void files_give_their_text(void **state)
{
    (void)state;
    write_text("d.yaml", "secret\n\n");
    struct config *config = load_valid(WITH("[]", "${file:d.yaml}", "1"), NULL, NULL);
    assert_string_equal(config->extensions[0].sqlite_storage.directory, "secret");
    config_close(config);
    expect_errors(
        WITH("[]", "${file:/dev/null}", "1"), NULL,
        "c.yaml:11:16: extensions::sqlite_storage::directory: the file /dev/null is not a "
        "regular file\n");
    expect_errors(WITH("[]", "${file:/none}", "1"), NULL,
                  "c.yaml:11:16: extensions::sqlite_storage::directory: the file /none cannot be "
                  "opened: No such file or directory (check the path)\n");
    write_bytes("d.yaml", "a\0b", 3);
    expect_errors(WITH("[]", "${file:d.yaml}", "1"), NULL,
                  "c.yaml:11:16: extensions::sqlite_storage::directory: the file d.yaml is not a "
                  "text\n");
}

#define AT_DIRECTORY "c.yaml:11:16: extensions::sqlite_storage::directory: "

static void malformed_references(void **state)
{
    static const struct {
        const char *written, *message;
    } cases[] = {
        {"'${env:1A}'", "\"1A\" is not the name of an environment variable (letters, digits, _, no "
                        "digit first); write ${env:NAME}, or $$ for a plain $"},
        {"'${}'", "\"\" is not the name of an environment variable (letters, digits, _, no digit "
                  "first); write ${env:NAME}, or $$ for a plain $"},
        {"'${env:A-B}'", "\"A-B\" is not the name of an environment variable (letters, digits, _, "
                         "no digit first); write ${env:NAME}, or $$ for a plain $"},
        {"'${env:TEXT'", "a ${ is not closed by }; write ${env:NAME}, or $$ for a plain $"},
        {"'x${'", "a ${ is not closed by }; write ${env:NAME}, or $$ for a plain $"},
        {"'${env:A$B}'", "a $ stands within ${...}; only ${...} may be nested there"},
        {"'${http://x}'", "\"${http://x\" names a source that is not supported; env, file and yaml "
                          "are, as in ${env:NAME}"},
        {"'${env:SELF}'", "references nested deeper than 16; does a variable refer to itself?"},
        {"'x${env:SELF}'", "references nested deeper than 16; does a variable refer to itself?"},
        {"'${env:FORK}'", "references nested deeper than 16; does a variable refer to itself?"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024], expected[512];
        snprintf(text, sizeof(text), WITH("[]", "%s", "1"), cases[i].written);
        snprintf(expected, sizeof(expected), AT_DIRECTORY "%s\n", cases[i].message);
        expect_errors(text, NULL, expected);
    }
}

/* Each level doubles: 2^14 references, and text that would be 2^14 times as long. */
static void references_do_not_unfold_without_end(void **state)
{
    (void)state;
    char name[8], value[64];
    for (int c = 'A'; c < 'O'; c++) {
        snprintf(name, sizeof(name), "X%c", c);
        snprintf(value, sizeof(value), "${env:X%c}${env:X%c}", c + 1, c + 1);
        setenv(name, value, 1);
    }
    setenv("XO", "lol", 1);
    expect_errors(WITH("[]", "'${env:XA}'", "1"), NULL,
                  AT_DIRECTORY
                  "more than 1000 references in one value; does a variable refer to itself?\n");
    char *large = malloc(300001);
    assert_non_null(large);
    memset(large, 'x', 300000);
    large[300000] = 0;
    setenv("XO", large, 1);
    expect_errors(WITH("[]", "'${env:XL}'", "1"), NULL, AT_DIRECTORY "a value grows past 1 MiB\n");
    free(large);
    unsetenv("XO");
}

/* The environment may change after loading. */
static void values_are_kept(void **state)
{
    (void)state;
    setenv("CHANGING", "before", 1);
    struct config *config = load_valid(WITH("[]", "${env:CHANGING}", "1"), NULL, NULL);
    setenv("CHANGING", "after!", 1);
    assert_string_equal(config->extensions[0].sqlite_storage.directory, "before");
    config_close(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(lists),
        cmocka_unit_test(numbers_and_maps),
        cmocka_unit_test(keys_are_not_expanded),
        cmocka_unit_test(unset_variables_warn),
        cmocka_unit_test(files_give_their_text),
        cmocka_unit_test(malformed_references),
        cmocka_unit_test(references_do_not_unfold_without_end),
        cmocka_unit_test(values_are_kept),
    };
    return cmocka_run_group_tests(tests, set_environment, leave_directory);
}
