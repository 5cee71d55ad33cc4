/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs a program to say which span a thread is in: the median over rounds. */
#include "context/spanprof_context.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_ROUNDS = 41, N_SWITCHES = 200000 };

static uint8_t trace_id[16] = "0123456789abcde", span_id[8] = "0123456";
static int key;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void set_and_clear(void)
{
    spanprof_context_set(trace_id, span_id, 1);
    spanprof_context_clear();
}

static void enter_and_leave(void)
{
    struct spanprof_context outer;
    spanprof_context_enter(trace_id, span_id, 1, &outer);
    spanprof_context_attach(&outer);
}

static void enter_with_attribute(void)
{
    struct spanprof_context outer;
    spanprof_context_enter(trace_id, span_id, 1, &outer);
    spanprof_context_set_attribute(key, "0123456789abcdef", 16);
    spanprof_context_attach(&outer);
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* One switch is half a pair: into the span and out of it. */
static void measure(const char *name, void (*pair)(void))
{
    double rounds[N_ROUNDS];
    for (int i = 0; i < N_ROUNDS; i++) {
        double before = now_ns();
        for (int k = 0; k < N_SWITCHES / 2; k++) {
            span_id[0] = (uint8_t)(k | 1);
            pair();
        }
        rounds[i] = (now_ns() - before) / N_SWITCHES;
    }
    qsort(rounds, N_ROUNDS, sizeof(rounds[0]), ascending);
    printf("%s %.2f ns\n", name, rounds[N_ROUNDS / 2]);
}

int main(void)
{
    key = spanprof_context_key("local_root_span_id");
    measure("context_switch_ns", set_and_clear);
    spanprof_context_set(trace_id, span_id, 1);
    spanprof_context_set_attribute(key, "0123456789abcdef", 16);
    measure("context_switch_nested_ns", enter_and_leave);
    measure("context_switch_attributes_ns", enter_with_attribute);
    return 0;
}
