/* SPDX-License-Identifier: Apache-2.0 */
#include "config/load/cli.h"
#include "test_config.h"

struct outcome {
    int code;
    struct cli cli;
    char out[65536];
    char err[4096];
};

/* args: separated by blanks. The command is run too, unless it is CLI_RUN. */
static void run(struct outcome *outcome, const char *args)
{
    char text[512] = "spanprof ";
    char *argv[80], *rest = text;
    int argc = 0;
    strncat(text, args, sizeof(text) - 16);
    for (char *arg; (arg = strsep(&rest, " "));)
        if (*arg)
            argv[argc++] = arg;
    argv[argc] = NULL;
    memset(outcome, 0, sizeof(*outcome));
    FILE *out = fmemopen(outcome->out, sizeof(outcome->out) - 1, "w");
    FILE *err = fmemopen(outcome->err, sizeof(outcome->err) - 1, "w");
    assert_true(out && err);
    outcome->code = cli_parse(argc, argv, &outcome->cli, err);
    if (outcome->code == 0 && outcome->cli.command != CLI_RUN)
        outcome->code = cli_run_command(&outcome->cli, "1.2.3", out, err);
    fclose(out);
    fclose(err);
}

static void sources_keep_their_order(void **state)
{
    struct outcome outcome;
    const struct config_source *sources = outcome.cli.sources;
    (void)state;
    run(&outcome, "--config a --set b=c=d --config=e --set=f=g");
    assert_int_equal(outcome.code, 0);
    assert_int_equal(outcome.cli.command, CLI_RUN);
    assert_int_equal(outcome.cli.n_sources, 4);
    assert_int_equal(sources[0].kind, CONFIG_SOURCE_FILE);
    assert_int_equal(sources[1].kind, CONFIG_SOURCE_SET);
    assert_int_equal(sources[2].kind, CONFIG_SOURCE_FILE);
    assert_int_equal(sources[3].kind, CONFIG_SOURCE_SET);
}

static void source_texts_are_what_was_given(void **state)
{
    char *argv[] = {"spanprof", "--config=a b", "--set", "k=v", NULL};
    struct cli cli;
    (void)state;
    assert_int_equal(cli_parse(4, argv, &cli, stderr), 0);
    assert_string_equal(cli.sources[0].text, "a b");
    assert_string_equal(cli.sources[1].text, "k=v");
}

static void commands_and_flags_mix(void **state)
{
    struct outcome outcome;
    (void)state;
    write_text("c.yaml", MINIMAL);
    run(&outcome, "--config c.yaml validate");
    assert_int_equal(outcome.code, 0);
    assert_int_equal(outcome.cli.command, CLI_VALIDATE);
    assert_string_equal(outcome.out, "");
    assert_string_equal(outcome.err, "");
    run(&outcome, "print-config --config c.yaml --set service.user=nobody");
    assert_int_equal(outcome.code, 0);
    assert_non_null(strstr(outcome.out, "  user: nobody\n"));
    run(&outcome, "components");
    assert_int_equal(outcome.code, 0);
    assert_non_null(strstr(outcome.out, "  - name: sampler\n"));
    run(&outcome, "print-reference");
    assert_int_equal(outcome.code, 0);
    assert_non_null(strstr(outcome.out, "# Configuration\n"));
    run(&outcome, "print-metrics");
    assert_int_equal(outcome.code, 0);
    assert_non_null(strstr(outcome.out, "# Metrics\n"));
}

static void version_and_help(void **state)
{
    static const char *const helps[] = {"--help", "-h", "help", "validate --help"};
    struct outcome outcome;
    (void)state;
    run(&outcome, "--version");
    assert_int_equal(outcome.code, 0);
    assert_string_equal(outcome.out, "spanprof 1.2.3\n");
    for (size_t i = 0; i < 4; i++) {
        run(&outcome, helps[i]);
        assert_int_equal(outcome.code, 0);
        assert_non_null(strstr(outcome.out, "--config FILE"));
        assert_null(strstr(outcome.out, "print-reference")); /* hidden */
    }
}

static void a_wrong_configuration_is_told(void **state)
{
    struct outcome outcome;
    (void)state;
    write_text("c.yaml", MINIMAL "foo: 1\n");
    run(&outcome, "validate --config c.yaml");
    assert_int_equal(outcome.code, CLI_EXIT_FAILURE);
    assert_string_equal(outcome.err,
                        "c.yaml:4:1: unknown key \"foo\"; keys here: receivers, processors, "
                        "exporters, extensions, service\n"
                        "spanprof: the configuration is not valid; all keys are in "
                        "docs/configuration.md\n");
    run(&outcome, "print-config --config c.yaml");
    assert_int_equal(outcome.code, CLI_EXIT_FAILURE);
    assert_string_equal(outcome.out, "");
    write_text("d.yaml", "processors: {join: }\n");
    write_text("c.yaml", MINIMAL);
    run(&outcome, "validate --config c.yaml --config d.yaml --set "
                  "service.pipelines.traces.processors=[join]");
    assert_int_equal(outcome.code, 0);
    assert_int_equal(strncmp(outcome.err, "warning: c.yaml:3:22: ", 22), 0);
}

static void wrong_command_lines(void **state)
{
    static const struct {
        const char *args, *message;
    } cases[] = {
        {"", "spanprof: no configuration; give --config FILE, for example --config "
             "/etc/spanprof/spanprof.yaml, or try spanprof --help\n"},
        {"validate", "spanprof: no configuration; give --config FILE, for example --config "
                     "/etc/spanprof/spanprof.yaml, or try spanprof --help\n"},
        {"--config", "spanprof: nothing behind --config; try spanprof --help\n"},
        {"--config=", "spanprof: empty value of --config; name a file, or KEY=VALUE\n"},
        {"--set", "spanprof: nothing behind --set; try spanprof --help\n"},
        {"--verbose", "spanprof: unknown flag --verbose; the flags are --config, --set, --version "
                      "and --help\n"},
        {"--configs=x", "spanprof: unknown flag --configs=x; the flags are --config, --set, "
                        "--version and --help\n"},
        {"-c x", "spanprof: unknown flag -c; write --config FILE\n"},
        {"--feature-gates=service.profilesSupport",
         "spanprof: unknown flag --feature-gates=service.profilesSupport; spanprof has no feature "
         "gates (profiles are always on); leave it out\n"},
        {"spanprof.yaml",
         "spanprof: unknown command spanprof.yaml; a configuration file is given by "
         "--config FILE\n"},
        {"start",
         "spanprof: unknown command start; the commands are validate, print-config, limits and "
         "components; try spanprof --help\n"},
        {"validate components", "spanprof: a second command, components; give one\n"},
        {"\x1b[31m",
         "spanprof: unknown command ?[31m; the commands are validate, print-config, limits and "
         "components; try spanprof --help\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outcome outcome;
        run(&outcome, cases[i].args);
        assert_int_equal(outcome.code, -EINVAL);
        assert_string_equal(outcome.err, cases[i].message);
    }
}

static void sources_have_a_limit(void **state)
{
    char *argv[CLI_SOURCES_MAX + 3] = {"spanprof"}, err[256] = "";
    struct cli cli;
    (void)state;
    for (int i = 1; i <= CLI_SOURCES_MAX + 1; i++)
        argv[i] = "--set=a";
    FILE *file = fmemopen(err, sizeof(err) - 1, "w");
    assert_int_equal(cli_parse(CLI_SOURCES_MAX + 2, argv, &cli, file), -EINVAL);
    argv[CLI_SOURCES_MAX + 1] = NULL;
    assert_int_equal(cli_parse(CLI_SOURCES_MAX + 1, argv, &cli, file), 0);
    assert_int_equal(cli.n_sources, CLI_SOURCES_MAX);
    fclose(file);
    assert_string_equal(err, "spanprof: too many sources at a; at most 64 --config and --set "
                             "together\n");
}

static void loading_for_the_service(void **state)
{
    struct config *config;
    char err[512] = "";
    (void)state;
    write_text("c.yaml", MINIMAL);
    char *argv[] = {"spanprof", "--config", "c.yaml", NULL};
    struct cli cli;
    assert_int_equal(cli_parse(3, argv, &cli, stderr), 0);
    FILE *file = fmemopen(err, sizeof(err) - 1, "w");
    assert_int_equal(cli_load_config(&cli, &config, file), 0);
    config_close(config);
    fclose(file);
    assert_string_equal(err, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_keep_their_order),
        cmocka_unit_test(source_texts_are_what_was_given),
        cmocka_unit_test(commands_and_flags_mix),
        cmocka_unit_test(version_and_help),
        cmocka_unit_test(a_wrong_configuration_is_told),
        cmocka_unit_test(wrong_command_lines),
        cmocka_unit_test(sources_have_a_limit),
        cmocka_unit_test(loading_for_the_service),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
