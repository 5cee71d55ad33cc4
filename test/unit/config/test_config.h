/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Loads configurations from text in tests of config/. The current directory is a new one, the text
 * is its file c.yaml (d.yaml: the second), so that messages have the same places everywhere.
 */
#include "config/load/config_load.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

/* The least that is valid. */
#define MINIMAL                                                                                    \
    "receivers: {otlp: {protocols: {grpc: }}}\n"                                                   \
    "exporters: {debug: }\n"                                                                       \
    "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n"

static char test_directory[] = "/tmp/spanprof-config-XXXXXX";

static inline int enter_directory(void **state)
{
    (void)state;
    return mkdtemp(test_directory) ? chdir(test_directory) : -1;
}

static inline int leave_directory(void **state)
{
    (void)state;
    unlink("c.yaml");
    unlink("d.yaml");
    return chdir("/") || rmdir(test_directory) ? -1 : 0;
}

static inline void write_bytes(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

/* The second text and set may be NULL. errors is ended with NUL, also when empty. */
static inline int load_texts(const char *first, const char *second, const char *set,
                             struct config **config, struct buf *errors)
{
    struct config_source sources[3];
    size_t n = 0;
    write_text("c.yaml", first);
    sources[n++] = (struct config_source){CONFIG_SOURCE_FILE, "c.yaml"};
    if (second) {
        write_text("d.yaml", second);
        sources[n++] = (struct config_source){CONFIG_SOURCE_FILE, "d.yaml"};
    }
    if (set)
        sources[n++] = (struct config_source){CONFIG_SOURCE_SET, set};
    int error = config_load(sources, n, config, errors);
    assert_int_equal(buf_append(errors, "", 1), 0);
    return error;
}

/* A valid configuration. */
static inline struct config *load_valid(const char *first, const char *second, const char *set)
{
    struct config *config;
    struct buf errors = BUF_INIT(0);
    int error = load_texts(first, second, set, &config, &errors);
    if (error)
        print_error("%s", (const char *)errors.data);
    assert_int_equal(error, 0);
    assert_int_equal(errors.len, 1);
    buf_close(&errors);
    return config;
}

/* An invalid one, with exactly these messages. */
static inline void expect_errors(const char *text, const char *set, const char *expected)
{
    struct config *config = (void *)1;
    struct buf errors = BUF_INIT(0);
    assert_int_equal(load_texts(text, NULL, set, &config, &errors), -EINVAL);
    assert_null(config);
    assert_string_equal((const char *)errors.data, expected);
    buf_close(&errors);
}
