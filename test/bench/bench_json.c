/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP/JSON read and written: lines `name value unit`. The requests are those of
 * test/bench/make_spans.py, 100 spans each. MB/s are of text. Best of several rounds.
 */
#include "base/clock.h"
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPANS = 100, ROUNDS = 200, REPEATS = 10 };

#define LIMIT ((size_t)20 << 20)

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, error);
    exit(1);
}

static void load(const char *name, struct buf *out)
{
    char path[4096];
    uint8_t chunk[4096];
    size_t n;
    snprintf(path, sizeof(path), "%s/test/bench/%s", SPANPROF_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    must(file ? 0 : -1, path);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        must(buf_append(out, chunk, n), "memory");
    fclose(file);
}

static void convert(struct bytes in, bool reads, struct buf *out)
{
    const ProtobufCMessageDescriptor *request = otlp_schema_request(SIGNAL_TRACES);
    struct otlp_json_error error;
    buf_clear(out);
    must(reads ? otlp_json_read(request, in, out, &error) : otlp_json_write(request, in, out),
         "convert");
}

static void measure(const char *name, struct bytes in, bool reads, struct buf *out)
{
    uint64_t best_ns = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start_ns = clock_monotonic_ns();
        for (int i = 0; i < REPEATS; i++)
            convert(in, reads, out);
        uint64_t ns = clock_monotonic_ns() - start_ns;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    double seconds = (double)best_ns / 1e9, text = (double)(reads ? in.len : out->len);
    printf("%s_ns_per_span %.0f ns\n", name, 1e9 * seconds / (SPANS * REPEATS));
    printf("%s_rate %.0f MB/s\n", name, text * REPEATS / seconds / 1e6);
}

static void run(const char *size)
{
    char name[64];
    _cleanup_buf_ struct buf message = BUF_INIT(LIMIT), text = BUF_INIT(LIMIT);
    _cleanup_buf_ struct buf back = BUF_INIT(LIMIT);
    snprintf(name, sizeof(name), "spans_%s.bin", size);
    load(name, &message);
    snprintf(name, sizeof(name), "json_write_%s", size);
    measure(name, buf_bytes(&message), false, &text);
    snprintf(name, sizeof(name), "json_read_%s", size);
    measure(name, buf_bytes(&text), true, &back);
    printf("json_size_%s %.2f times_protobuf\n", size, (double)text.len / (double)message.len);
}

int main(void)
{
    run("330");
    run("800");
    return 0;
}
