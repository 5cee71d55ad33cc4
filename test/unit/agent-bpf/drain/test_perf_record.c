/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the process stream as the kernel lays them out, and such as it never would. */
#include "agent-bpf/drain/perf_record.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <linux/perf_event.h>
#include <sys/mman.h>

struct writer {
    uint64_t words[8192 / 8];
    size_t size;
};

static void put(struct writer *writer, const void *data, size_t size)
{
    memcpy((uint8_t *)writer->words + writer->size, data, size);
    writer->size += size;
}

static void put32(struct writer *writer, uint32_t value)
{
    put(writer, &value, sizeof(value));
}

static void put64(struct writer *writer, uint64_t value)
{
    put(writer, &value, sizeof(value));
}

static void begin(struct writer *writer, uint32_t type, uint16_t misc)
{
    struct perf_event_header header = {.type = type, .misc = misc};
    writer->size = 0;
    put(writer, &header, sizeof(header));
}

static void set_size(struct writer *writer, size_t size)
{
    struct perf_event_header header;
    memcpy(&header, writer->words, sizeof(header));
    header.size = (uint16_t)size;
    memcpy(writer->words, &header, sizeof(header));
    writer->size = size;
}

static enum perf_record_outcome parse(struct writer *writer, struct process_event *event)
{
    return perf_record_parse(writer->words, writer->size, event);
}

/* With its sample id. */
static enum perf_record_outcome finish(struct writer *writer, struct process_event *event)
{
    put32(writer, 77);
    put32(writer, 78);
    put64(writer, 123456789);
    set_size(writer, writer->size);
    return parse(writer, event);
}

static enum perf_record_outcome task(uint32_t type, uint32_t pid, uint32_t tid,
                                     struct process_event *event)
{
    struct writer writer;
    begin(&writer, type, 0);
    put32(&writer, pid);
    put32(&writer, 5);
    put32(&writer, tid);
    put32(&writer, 6);
    put64(&writer, 1);
    return finish(&writer, event);
}

static void test_fork_and_exit(void **state)
{
    struct process_event event;
    (void)state;
    assert_int_equal(task(PERF_RECORD_FORK, 10, 10, &event), PERF_RECORD_EVENT);
    assert_int_equal(event.kind, PROCESS_FORKED);
    assert_int_equal(event.pid, 10);
    assert_int_equal(event.parent_pid, 5);
    assert_int_equal(event.time_ns, 123456789);
    assert_int_equal(task(PERF_RECORD_FORK, 10, 11, &event), PERF_RECORD_NEW_THREAD);
    assert_int_equal(task(PERF_RECORD_EXIT, 10, 11, &event), PERF_RECORD_NEW_THREAD);
    assert_int_equal(task(PERF_RECORD_EXIT, 10, 10, &event), PERF_RECORD_LEADER_LEFT);
    assert_int_equal(event.kind, PROCESS_EXITED);
    assert_int_equal(task(PERF_RECORD_FORK, 0, 0, &event), PERF_RECORD_NEW_THREAD);
    assert_int_equal(task(PERF_RECORD_EXIT, UINT32_MAX, UINT32_MAX, &event),
                     PERF_RECORD_NEW_THREAD);
}

static void test_exec_and_other_names(void **state)
{
    struct process_event event;
    struct writer writer;
    (void)state;
    for (int exec = 0; exec < 2; exec++) {
        begin(&writer, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
        put32(&writer, 10);
        put32(&writer, 10);
        put(&writer, "name\0\0\0", 8);
        assert_int_equal(finish(&writer, &event),
                         exec ? PERF_RECORD_EVENT : PERF_RECORD_NEW_THREAD);
    }
    assert_int_equal(event.kind, PROCESS_EXECED);
    assert_int_equal(event.pid, 10);
}

static void test_lost(void **state)
{
    struct process_event event;
    struct writer writer;
    (void)state;
    begin(&writer, PERF_RECORD_LOST, 0);
    put64(&writer, 1);
    put64(&writer, 2);
    assert_int_equal(finish(&writer, &event), PERF_RECORD_EVENT);
    assert_int_equal(event.kind, PROCESS_LOST);
    begin(&writer, 4711, 0);
    assert_int_equal(finish(&writer, &event), PERF_RECORD_NEW_THREAD);
}

struct mapping {
    uint16_t misc;
    uint64_t address, length;
    uint8_t identity[24];
    const char *path;
    size_t path_size;
    bool shared;
};

static enum perf_record_outcome map(const struct mapping *mapping, struct writer *writer,
                                    struct process_event *event)
{
    begin(writer, PERF_RECORD_MMAP2, mapping->misc);
    put32(writer, 10);
    put32(writer, 11);
    put64(writer, mapping->address);
    put64(writer, mapping->length);
    put64(writer, 0x2000);
    put(writer, mapping->identity, sizeof(mapping->identity));
    put32(writer, 5);
    put32(writer, mapping->shared ? MAP_SHARED : MAP_PRIVATE);
    put(writer, mapping->path, mapping->path_size);
    return finish(writer, event);
}

static void test_mapping_by_inode(void **state)
{
    struct process_event event;
    struct writer writer;
    struct mapping mapping = {
        .address = 0x400000, .length = 0x1000, .path = "/bin/x\0", .path_size = 8};
    uint32_t numbers[6] = {8, 1, 4711, 0, 3, 0};
    (void)state;
    memcpy(mapping.identity, numbers, sizeof(numbers));
    assert_int_equal(map(&mapping, &writer, &event), PERF_RECORD_EVENT);
    assert_int_equal(event.kind, PROCESS_MAPPED);
    assert_int_equal(event.pid, 10);
    assert_int_equal(event.mapping.start, 0x400000);
    assert_int_equal(event.mapping.length, 0x1000);
    assert_int_equal(event.mapping.file_offset, 0x2000);
    assert_int_equal(event.mapping.device_major, 8);
    assert_int_equal(event.mapping.device_minor, 1);
    assert_int_equal(event.mapping.inode, 4711);
    assert_int_equal(event.mapping.inode_generation, 3);
    assert_string_equal(event.mapping.path, "/bin/x");
}

/* Code that a compiler writes at run time through another mapping of a memfd lies in no file; a
 * program that was loaded from one does. */
static void test_code_of_memfd(void **state)
{
    struct process_event event;
    struct writer writer;
    struct mapping mapping = {.address = 0x400000, .length = 0x1000};
    uint32_t numbers[6] = {0, 1, 4711, 0, 0, 0};
    (void)state;
    memcpy(mapping.identity, numbers, sizeof(numbers));
    mapping.path = "/memfd:vmem (deleted)\0\0\0";
    mapping.path_size = 24;
    assert_int_equal(map(&mapping, &writer, &event), PERF_RECORD_EVENT);
    assert_int_equal(event.mapping.inode, 4711);
    mapping.shared = true;
    assert_int_equal(map(&mapping, &writer, &event), PERF_RECORD_EVENT);
    assert_int_equal(event.mapping.inode, 0);
    mapping.path = "/tmp/shared\0\0\0\0\0";
    mapping.path_size = 16;
    assert_int_equal(map(&mapping, &writer, &event), PERF_RECORD_EVENT);
    assert_int_equal(event.mapping.inode, 4711);
}

static void test_mappings_that_cannot_be(void **state)
{
    struct process_event event;
    struct writer writer;
    struct mapping good = {
        .address = 0x400000, .length = 0x1000, .path = "/bin/x\0", .path_size = 8};
    (void)state;
    struct mapping endless = good, empty = good, around = good, none = good;
    endless.path = "12345678";
    empty.length = 0;
    around.address = UINT64_MAX - 100;
    none.path_size = 0;
    assert_int_equal(map(&endless, &writer, &event), PERF_RECORD_MALFORMED);
    assert_int_equal(map(&empty, &writer, &event), PERF_RECORD_MALFORMED);
    assert_int_equal(map(&around, &writer, &event), PERF_RECORD_MALFORMED);
    assert_int_equal(map(&none, &writer, &event), PERF_RECORD_MALFORMED);
}

static void test_short_records(void **state)
{
    static const uint32_t types[] = {PERF_RECORD_FORK, PERF_RECORD_EXIT, PERF_RECORD_COMM,
                                     PERF_RECORD_MMAP2};
    struct process_event event;
    struct writer writer;
    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        memset(&writer, 0, sizeof(writer));
        begin(&writer, types[i], 0);
        for (size_t size = 8; size < 32; size += 8) {
            set_size(&writer, size);
            assert_int_equal(parse(&writer, &event), PERF_RECORD_MALFORMED);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork_and_exit), cmocka_unit_test(test_exec_and_other_names),
        cmocka_unit_test(test_lost),          cmocka_unit_test(test_mapping_by_inode),
        cmocka_unit_test(test_code_of_memfd), cmocka_unit_test(test_mappings_that_cannot_be),
        cmocka_unit_test(test_short_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
