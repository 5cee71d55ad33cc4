/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the labels of a sample cost on the writer: finding the ids, per sample, for the label sets
 * of known libraries and for the fullest set that holds none. Prints `name value unit`, the best of
 * several rounds.
 */
#include "agent-bpf/drain/labels.h"
#include "base/buf.h"
#include "base/clock.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 15, REPEATS = 100000 };

static void put(struct buf *out, const char *key, const char *value)
{
    uint8_t lengths[2] = {(uint8_t)strlen(key), (uint8_t)strlen(value)};
    if (buf_append(out, lengths, 2) || buf_append(out, key, lengths[0]) ||
        buf_append(out, value, lengths[1]))
        exit(1);
}

static void measure(const char *name, const struct buf *labels, bool expected)
{
    static const char *const own[] = {"traceID", NULL};
    static const struct label_names names = {own, own};
    struct label_ids ids;
    uint64_t best_ns = UINT64_MAX;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t began_ns = clock_monotonic_ns();
        for (unsigned i = 0; i < REPEATS; i++)
            if (labels_ids(buf_bytes(labels), &names, &ids) != expected)
                exit(1);
        uint64_t spent_ns = clock_monotonic_ns() - began_ns;
        best_ns = spent_ns < best_ns ? spent_ns : best_ns;
    }
    printf("labels_ids_%s %.1f ns/sample\n", name, (double)best_ns / REPEATS);
}

int main(void)
{
    _cleanup_buf_ struct buf grafana = BUF_INIT(0), datadog = BUF_INIT(0), many = BUF_INIT(0);
    put(&grafana, "span_id", "00f067aa0ba902b7");
    put(&grafana, "span_name", "GET /cart");
    put(&grafana, "trace_id", "4bf92f3577b34da6a3ce929d0e0e4736");
    put(&datadog, "local root span id", "13235353014750950193");
    put(&datadog, "span id", "67667974448284343");
    put(&datadog, "trace endpoint", "GET /cart");
    for (unsigned i = 0; i < 32; i++)
        put(&many, "tenant", "00f067aa0ba902b7");
    measure("grafana", &grafana, true);
    measure("datadog", &datadog, true);
    measure("32_others", &many, false);
    return 0;
}
