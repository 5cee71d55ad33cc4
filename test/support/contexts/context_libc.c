/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libspanprof-context without anything but a libc: built for musl, static and shared, where the
 * test framework is not at hand. Exits 0, or with the line of what does not hold.
 */
#include "context/context_layout.h"
#include "context/spanprof_context.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

extern _Thread_local struct otel_thread_record *otel_thread_ctx_v1;

static int n_mappings(void)
{
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof(line), maps))
        n += strstr(line, OTEL_PROCESS_NAME) != NULL;
    fclose(maps);
    return n;
}

static void check_thread(uint8_t value)
{
    uint8_t trace_id[16], span_id[8];
    struct spanprof_context outer;
    memset(trace_id, value, sizeof(trace_id));
    memset(span_id, value, sizeof(span_id));
    CHECK(!otel_thread_ctx_v1);
    CHECK(spanprof_context_set(trace_id, span_id, 1) == 0);
    CHECK(!memcmp(otel_thread_ctx_v1->trace_id, trace_id, 16));
    CHECK(otel_thread_ctx_v1->valid == 1 && otel_thread_ctx_v1->attributes_size == 0);
    CHECK(spanprof_context_set_attribute(spanprof_context_key("route"), "/x", 2) == 0);
    CHECK(!memcmp(otel_thread_ctx_v1->attributes, "\0\2/x", 4));
    span_id[0]++;
    CHECK(spanprof_context_enter(trace_id, span_id, 0, &outer) == 0);
    CHECK(otel_thread_ctx_v1->span_id[0] == span_id[0]);
    CHECK(spanprof_context_attach(&outer) == 0);
    CHECK(otel_thread_ctx_v1->span_id[0] == value && otel_thread_ctx_v1->attributes_size == 4);
    CHECK(spanprof_context_clear() == 0);
    CHECK(!otel_thread_ctx_v1);
}

static void *thread_main(void *argument)
{
    check_thread(*(uint8_t *)argument);
    return NULL;
}

static void check_process(void)
{
    struct spanprof_attribute attributes[] = {{"service.name", "libc"}};
    int status;
    CHECK(spanprof_context_publish(attributes, 1) == 0);
    CHECK(n_mappings() == 1);
    CHECK(spanprof_context_update(attributes, 1) == 0);
    pid_t child = fork();
    if (!child) {
        CHECK(n_mappings() == 0);
        CHECK(spanprof_context_publish(NULL, 0) == 0);
        CHECK(n_mappings() == 1);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && !status);
    CHECK(spanprof_context_withdraw() == 0);
    CHECK(spanprof_context_withdraw() == -ENOENT);
    CHECK(n_mappings() == 0);
}

int main(void)
{
    pthread_t threads[4];
    uint8_t values[4] = {1, 2, 3, 4};
    CHECK(spanprof_context_key("route") == 0);
    check_thread(9);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_main, &values[i]) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    check_process();
    return 0;
}
