/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files and --set texts. Whatever loads must print to a configuration that loads
 * again and prints the same. The first byte chooses: 's' a --set over a valid file, else the rest
 * is a file.
 */
#include "config/load/config_load.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char base[] =
    "receivers: {otlp: {protocols: {grpc: }}, sampler: }\n"
    "processors: {join: }\n"
    "exporters: {otlp_grpc: {endpoint: 'http://b:1', headers: {a: b}}, debug: }\n"
    "extensions: {sqlite_storage: }\n"
    "service:\n"
    "  extensions: [sqlite_storage]\n"
    "  pipelines:\n"
    "    traces: {receivers: [otlp], processors: [join], exporters: [otlp_grpc, debug]}\n"
    "    profiles: {receivers: [sampler], processors: [join], exporters: [otlp_grpc]}\n";

static int file = -1;
static char path[64];

static void open_file(void)
{
    file = memfd_create("config", MFD_CLOEXEC);
    assert(file >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    setenv("A", "${env:B}", 1);
    setenv("B", "[x, '${env:C}']", 1);
    setenv("C", "text", 1);
    setenv("SELF", "{a: [${env:SELF}, ${env:SELF}]}", 1);
}

static void write_file(const void *data, size_t size)
{
    if (file < 0)
        open_file();
    ssize_t n = pwrite(file, data, size, 0);
    assert(n == (ssize_t)size && ftruncate(file, n) == 0);
    (void)n;
}

static struct config *load(const struct config_source *sources, size_t n)
{
    struct config *config;
    struct buf errors = BUF_INIT(0);
    int error = config_load(sources, n, &config, &errors);
    assert((error == 0) == (errors.len == 0));
    assert((error == 0) == (config != NULL));
    buf_close(&errors);
    return config;
}

static void print(const struct config *config, struct buf *out)
{
    int error = config_print(config, out);
    assert(error == 0);
    (void)error;
}

static void check_round_trip(const struct config *config)
{
    struct config_source source = {CONFIG_SOURCE_FILE, path};
    struct buf printed = BUF_INIT(0), again = BUF_INIT(0);
    print(config, &printed);
    write_file(printed.data, printed.len);
    struct config *second = load(&source, 1);
    assert(second);
    print(second, &again);
    assert(bytes_equal(buf_bytes(&printed), buf_bytes(&again)));
    config_close(second);
    buf_close(&printed);
    buf_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool set = size && data[0] == 's';
    char *text = calloc(1, size + 1);
    assert(text);
    if (size)
        memcpy(text, data + 1, size - 1);
    if (set)
        write_file(base, sizeof(base) - 1);
    else
        write_file(text, size ? size - 1 : 0);
    struct config_source sources[] = {{CONFIG_SOURCE_FILE, path}, {CONFIG_SOURCE_SET, text}};
    struct config *config = load(sources, set ? 2 : 1);
    if (config)
        check_round_trip(config);
    config_close(config);
    free(text);
    return 0;
}
