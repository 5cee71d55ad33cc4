/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the tests of the process table share: one table, events, questions. Included once a program.
 */
#include "agent-bpf/process/analyst_client.h"
#include "agent-bpf/process/process.h"
#include "base/clock.h"
#include "base/stats.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static struct process_table *table;

static inline int open_table(void **state)
{
    (void)state;
    return process_table_open(&table);
}

static inline int close_table(void **state)
{
    (void)state;
    process_table_close(table);
    table = NULL;
    return 0;
}

static inline struct process_event mapped(uint32_t pid, uint64_t time, uint64_t start,
                                          uint64_t length, uint64_t offset, const char *path)
{
    return (struct process_event){
        .kind = PROCESS_MAPPED,
        .time_ns = time,
        .pid = pid,
        .mapping = {
            .start = start, .length = length, .file_offset = offset, .inode = 7, .path = path}};
}

static inline void map(uint32_t pid, uint64_t time, uint64_t start, uint64_t length,
                       uint64_t offset, const char *path)
{
    struct process_event event = mapped(pid, time, start, length, offset, path);
    assert_int_equal(process_table_apply(table, &event), 0);
}

static inline void apply(enum process_event_kind kind, uint32_t pid, uint32_t parent, uint64_t time)
{
    struct process_event event = {.kind = kind, .pid = pid, .parent_pid = parent, .time_ns = time};
    assert_int_equal(process_table_apply(table, &event), 0);
}

static inline void expect_at(uint32_t pid, uint64_t time, uint64_t address, const char *path,
                             uint64_t offset)
{
    struct process_place place;
    assert_int_equal(process_table_resolve(table, pid, time, address, &place), 0);
    assert_string_equal(place.path, path);
    assert_int_equal(place.file_offset, offset);
}

static inline void expect_none(uint32_t pid, uint64_t time, uint64_t address)
{
    struct process_place place;
    assert_int_equal(process_table_resolve(table, pid, time, address, &place), PROCESS_UNKNOWN);
}

/* Takes the requests and counts those of a kind. */
static unsigned taken[128];
static struct list last_requests;

static inline void take(void)
{
    analyst_requests_free(&last_requests);
    memset(taken, 0, sizeof(taken));
    process_table_take_requests(table, &last_requests);
    struct list *link, *tmp;
    list_each(link, tmp, &last_requests)
        taken[container_of(link, struct analyst_request, link)->kind]++;
}

/* Resource{attributes: KeyValue{"a", "b"}} */
static const uint8_t resource[] = {0x0a, 8, 0x0a, 1, 'a', 0x12, 3, 0x0a, 1, 'b'};
