/* SPDX-License-Identifier: Apache-2.0 */
/* Children publish contexts, good and bad; what is read of them. */
#include "agent-bpf/contexts/otel_context.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/proc_pid.h"
#include "agent-bpf/files/reader_client.h"
#include "context/spanprof_context.h"
#include "test/support/fixtures/context_fixture.h"
#include "test/support/rigs/reader_rig.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static uint8_t payload[OTEL_PROCESS_PAYLOAD_MAX];
static struct otel_context context;

static bool find(struct bytes maps, uint64_t *address)
{
    struct proc_map map;
    while (proc_maps_next(&maps, &map))
        if (otel_context_named(map.path) && !map.executable) {
            *address = map.start;
            return true;
        }
    return false;
}

/* What otel_context_read() says of the child. */
static int read_child(pid_t pid)
{
    struct fixture_texts texts = fixture_texts(pid);
    struct otel_context_source source = {.pid = (uint32_t)pid,
                                         .maps = BYTES(texts.maps, texts.maps_len),
                                         .mounts = BYTES(texts.mounts, texts.mounts_len)};
    int outcome = -ENOENT;
    if (find(source.maps, &source.address))
        outcome = otel_context_read(&source, payload, &context);
    fixture_texts_free(&texts);
    return outcome;
}

static int read_after(void (*body)(void *), void *argument)
{
    pid_t pid = fixture_child(body, argument);
    int outcome = read_child(pid);
    fixture_kill(pid);
    return outcome;
}

static uint8_t bytes[OTEL_PROCESS_PAYLOAD_MAX + 4096];

static void publish_good(void *argument)
{
    size_t size = fixture_payload(bytes, sizeof(bytes), argument);
    if (!fixture_publish(bytes, size))
        _exit(1);
}

static void good(void **state)
{
    (void)state;
    assert_int_equal(read_after(publish_good, (void *)OTEL_THREAD_SCHEMA_DEV), 0);
    assert_int_equal(context.published_ns, 1234);
    assert_int_equal(context.schema, OTEL_SCHEMA_THREAD_LOCAL);
    assert_false(context.schema_final);
    assert_int_equal(context.n_keys, 2);
    assert_true(bytes_is(context.keys[0], "http.route"));
    assert_true(bytes_is(context.keys[1], "user.id"));
    assert_true(context.resource.len > 10);
    assert_non_null(memmem(context.resource.data, context.resource.len, "shop", 4));
    assert_int_equal(read_after(publish_good, (void *)OTEL_THREAD_SCHEMA), 0);
    assert_true(context.schema_final);
    assert_int_equal(read_after(publish_good, (void *)OTEL_NODEJS_SCHEMA), 0);
    assert_int_equal(context.schema, OTEL_SCHEMA_NODEJS);
    assert_false(context.schema_final);
    assert_int_equal(read_after(publish_good, (void *)OTEL_NODEJS_SCHEMA_DEV), 0);
    assert_int_equal(context.schema, OTEL_SCHEMA_NODEJS);
    assert_int_equal(read_after(publish_good, (void *)"nodejs_v2"), 0);
    assert_int_equal(context.schema, OTEL_SCHEMA_OTHER);
    assert_int_equal(read_after(publish_good, NULL), 0);
    assert_int_equal(context.schema, OTEL_SCHEMA_NONE);
}

static void publish_by_library(void *argument)
{
    (void)argument;
    const struct spanprof_attribute attributes[] = {{"service.name", "by-library"}};
    if (spanprof_context_key("http.route") != 0 || spanprof_context_publish(attributes, 1))
        _exit(1);
}

static void our_own_library(void **state)
{
    (void)state;
    assert_int_equal(read_after(publish_by_library, NULL), 0);
    assert_int_equal(context.schema, OTEL_SCHEMA_THREAD_LOCAL);
    assert_int_equal(context.n_keys, 1);
    assert_true(bytes_is(context.keys[0], "http.route"));
    assert_non_null(memmem(context.resource.data, context.resource.len, "by-library", 10));
}

static void nothing(void *argument)
{
    (void)argument;
}

static void unpublished(void **state)
{
    (void)state;
    assert_int_equal(read_after(nothing, NULL), -ENOENT);
    uint64_t published_ns;
    assert_int_equal(otel_context_poll((uint32_t)getpid(), 0x10, &published_ns), -EFAULT);
    assert_true(otel_context_poll(0x7ffffff0, 0x10000, &published_ns) < 0);
}

/* Each way to be wrong. */
enum lie {
    SIGNATURE,
    VERSION,
    EMPTY,
    HUGE,
    HUGER,
    NULL_PAYLOAD,
    WILD,
    KERNEL,
    BEYOND,
    UNREADABLE,
    LIES
};

static void publish_lie(void *argument)
{
    publish_good(OTEL_THREAD_SCHEMA_DEV);
    size_t size = fixture_payload(bytes, sizeof(bytes), OTEL_THREAD_SCHEMA_DEV);
    struct otel_process_header *header = fixture_publish(bytes, size);
    uint64_t first;
    struct fixture_texts texts = fixture_texts(getpid()); /* the reader takes the first */
    if (!header || !find(BYTES(texts.maps, texts.maps_len), &first))
        _exit(1);
    header = (struct otel_process_header *)(uintptr_t)first;
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    switch (*(enum lie *)argument) {
    case SIGNATURE:
        header->signature[0] = 'o';
        break;
    case VERSION:
        header->version = 1;
        break;
    case EMPTY:
        header->payload_size = 0;
        break;
    case HUGE:
        header->payload_size = OTEL_PROCESS_PAYLOAD_MAX + 1;
        break;
    case HUGER:
        header->payload_size = UINT32_MAX;
        break;
    case NULL_PAYLOAD:
        header->payload = 0;
        break;
    case WILD:
        header->payload = 0x123456789000;
        break;
    case KERNEL:
        header->payload = UINT64_MAX - 10;
        break;
    case BEYOND: /* runs from a mapping into none */
        munmap(pages + 4096, 4096);
        header->payload = (uintptr_t)pages + 4000;
        header->payload_size = 200;
        break;
    case UNREADABLE:
        mprotect(pages, 4096, PROT_NONE);
        header->payload = (uintptr_t)pages;
        break;
    case LIES:
        break;
    }
}

static void lies(void **state)
{
    (void)state;
    for (enum lie lie = 0; lie < LIES; lie++)
        if (read_after(publish_lie, &lie) != OTEL_CONTEXT_MALFORMED)
            fail_msg("lie %d was believed", lie);
}

static void publish_unfinished(void *argument)
{
    (void)argument;
    struct otel_process_header *header = fixture_publish(bytes, 10);
    header->published_at_ns = 0;
}

static void being_changed(void **state)
{
    (void)state;
    assert_int_equal(read_after(publish_unfinished, NULL), OTEL_CONTEXT_BUSY);
}

/* Two payloads, each whole, alternate as fast as can be: never a mixture. */
static void alternate(volatile struct otel_process_header *header)
{
    static uint8_t both[2][512];
    size_t size = fixture_payload(both[0], 512, OTEL_THREAD_SCHEMA_DEV);
    fixture_payload(both[1], 512, OTEL_THREAD_SCHEMA_DEV);
    uint8_t *shop = memmem(both[1], size, "shop", 4);
    memcpy(shop, "SHIP", 4);
    static uint8_t live[512];
    for (uint64_t i = 1;; i++) {
        header->published_at_ns = 0;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        for (size_t at = 0; at < size; at++)
            ((volatile uint8_t *)live)[at] = both[i & 1][at];
        header->payload = (uintptr_t)live;
        header->payload_size = (uint32_t)size;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        header->published_at_ns = i * 2 + (i & 1);
        for (volatile int wait = 0; wait < 2000; wait++)
            ;
    }
}

static void changing_while_read(void **state)
{
    (void)state;
    int channel[2];
    assert_int_equal(pipe(channel), 0);
    pid_t pid = fork();
    if (!pid) {
        struct otel_process_header *header = fixture_publish(bytes, 1);
        header->published_at_ns = 0;
        if (write(channel[1], "r", 1) != 1)
            _exit(1);
        alternate(header);
    }
    char byte;
    assert_int_equal(read(channel[0], &byte, 1), 1);
    unsigned whole = 0;
    for (int i = 0; i < 3000 || (whole <= 10 && i < 1000000); i++) {
        int outcome = read_child(pid);
        if (outcome == OTEL_CONTEXT_BUSY)
            continue;
        assert_int_equal(outcome, 0);
        bool odd = context.published_ns & 1;
        assert_non_null(
            memmem(context.resource.data, context.resource.len, odd ? "SHIP" : "shop", 4));
        whole++;
    }
    fixture_kill(pid);
    close(channel[0]);
    close(channel[1]);
    assert_true(whole > 10);
}

static void names(void **state)
{
    (void)state;
    assert_true(otel_context_named(BYTES_LIT("/memfd:OTEL_CTX (deleted)")));
    assert_true(otel_context_named(BYTES_LIT("[anon:OTEL_CTX]")));
    assert_true(otel_context_named(BYTES_LIT("[anon_shmem:OTEL_CTX]")));
    assert_false(otel_context_named(BYTES_LIT("/tmp/memfd:OTEL_CTX")));
    assert_false(otel_context_named(BYTES_LIT("[anon:OTEL")));
    assert_false(otel_context_named((struct bytes){0}));
}

static void decode_malformed(void **state)
{
    (void)state;
    uint8_t text[512];
    size_t size = fixture_payload(text, sizeof(text), OTEL_THREAD_SCHEMA_DEV);
    for (size_t cut = 1; cut < size; cut++) { /* exact sizes, for the sanitizer */
        uint8_t *copy = malloc(cut);
        memcpy(copy, text, cut);
        otel_context_decode(BYTES(copy, cut), &context);
        free(copy);
    }
    const uint8_t bad_resource[] = {0x0a, 2, 0x0a, 5};
    assert_int_equal(otel_context_decode(BYTES(bad_resource, 4), &context), OTEL_CONTEXT_MALFORMED);
    const uint8_t group[] = {0x0b, 0x0c};
    assert_int_equal(otel_context_decode(BYTES(group, 2), &context), OTEL_CONTEXT_MALFORMED);
    assert_int_equal(otel_context_decode((struct bytes){0}, &context), 0);
    assert_int_equal(context.schema, OTEL_SCHEMA_NONE);
}

/* 300 keys, each one more byte of array: what lies beyond 256 is left out. */
static void too_many_keys(void **state)
{
    (void)state;
    uint8_t text[4096], array[2048];
    size_t n = 0;
    for (int i = 0; i < 300; i++) {
        const uint8_t value[] = {0x0a, 3, 0x0a, 1, (uint8_t)('a' + i % 26)};
        memcpy(array + n, value, sizeof(value));
        n += sizeof(value);
    }
    size_t key = sizeof(OTEL_THREAD_KEY_MAP_KEY) - 1;
    size_t any = n + 3, pair = 2 + key + any + 3, at = 0;
    text[at++] = 0x12;
    text[at++] = (uint8_t)(pair | 0x80);
    text[at++] = (uint8_t)(pair >> 7);
    text[at++] = 0x0a;
    text[at++] = (uint8_t)key;
    memcpy(text + at, OTEL_THREAD_KEY_MAP_KEY, key);
    at += key;
    text[at++] = 0x12;
    text[at++] = (uint8_t)(any | 0x80);
    text[at++] = (uint8_t)(any >> 7);
    text[at++] = 0x2a;
    text[at++] = (uint8_t)(n | 0x80);
    text[at++] = (uint8_t)(n >> 7);
    memcpy(text + at, array, n);
    assert_int_equal(otel_context_decode(BYTES(text, at + n), &context), 0);
    assert_int_equal(context.n_keys, OTEL_CONTEXT_KEYS_MAX);
    assert_true(bytes_is(context.keys[27], "b"));
}

static void maps_lines(void **state)
{
    (void)state;
    const char *text = "55a0-55b0 r-xp 00001000 fd:01 1234      /usr/bin/a b\n"
                       "nonsense\n"
                       "7000-6000 r-xp 00000000 00:00 0\n"
                       "7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0 [stack]";
    struct bytes rest = BYTES_STR(text);
    struct proc_map map;
    assert_true(proc_maps_next(&rest, &map));
    assert_int_equal(map.start, 0x55a0);
    assert_int_equal(map.offset, 0x1000);
    assert_int_equal(map.device_major, 0xfd);
    assert_int_equal(map.inode, 1234);
    assert_true(map.executable && map.readable);
    assert_true(bytes_is(map.path, "/usr/bin/a b"));
    assert_true(proc_maps_next(&rest, &map));
    assert_true(bytes_is(map.path, "[stack]"));
    assert_false(map.executable);
    assert_false(proc_maps_next(&rest, &map));
}

static void fuse_is_known(void **state)
{
    (void)state;
    struct bytes mounts =
        BYTES_LIT("22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
                  "40 22 0:44 / /mnt/user rw,nosuid - fuse.sshfs x rw\n"
                  "41 40 0:45 / /mnt/user/inner rw - tmpfs x rw\n"
                  "42 22 0:46 / /mnt/with\\040blank rw master:2 propagate_from:3 - fuse x rw\n"
                  "garbage\n43 22 x y z - fuse\n");
    assert_false(proc_mounts_fuse(mounts, 8, 1, BYTES_LIT("/mnt/user/x")));
    assert_true(proc_mounts_fuse(mounts, 0, 44, BYTES_LIT("/")));
    assert_true(proc_mounts_fuse(mounts, 0, 0, BYTES_LIT("/mnt/user/x")));
    assert_true(proc_mounts_fuse(mounts, 0, 0, BYTES_LIT("/mnt/user")));
    assert_false(proc_mounts_fuse(mounts, 0, 0, BYTES_LIT("/mnt/username/x")));
    assert_false(proc_mounts_fuse(mounts, 0, 0, BYTES_LIT("/mnt/user/inner/x")));
    assert_true(proc_mounts_fuse(mounts, 0, 0, BYTES_LIT("/mnt/with blank/x")));
    assert_false(proc_mounts_fuse(mounts, 0, 0, BYTES_LIT("/usr/bin/a")));
    struct bytes maps = BYTES_LIT("1000-3000 rw-p 0 00:00 0\n3000-4000 rw-p 0 00:2c 7 /mnt/user/f\n"
                                  "5000-6000 ---p 0 00:00 0\n6000-7000 r--p 0 08:01 9 /bin/a\n");
    assert_true(proc_maps_harmless(maps, mounts, 0x1000, 0x2000));
    assert_false(proc_maps_harmless(maps, mounts, 0x2ff0, 0x20));
    assert_false(proc_maps_harmless(maps, mounts, 0x5000, 1));
    assert_true(proc_maps_harmless(maps, mounts, 0x6ff0, 0x10));
    assert_false(proc_maps_harmless(maps, mounts, 0x6ff0, 0x11));
    assert_false(proc_maps_harmless(maps, mounts, UINT64_MAX - 1, 8));
    assert_false(proc_maps_harmless(maps, mounts, 0x1000, 0));
}

static void proc_texts(void **state)
{
    (void)state;
    uint64_t ticks;
    uint32_t pid;
    assert_true(proc_parse_start_ticks(
        BYTES_LIT("7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20\n"), &ticks));
    assert_int_equal(ticks, 4242);
    assert_false(proc_parse_start_ticks(BYTES_LIT("7 (a) S 1 2"), &ticks));
    assert_false(proc_parse_start_ticks(BYTES_LIT(""), &ticks));
    assert_true(proc_parse_cpu_ticks(
        BYTES_LIT("7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 1100 12 13 14 15 16 17 18 4242 20\n"),
        &ticks));
    assert_int_equal(ticks, 1112);
    assert_false(proc_parse_cpu_ticks(BYTES_LIT("7 (a) S 1 2 3 4 5 6 7 8 9 10 1100"), &ticks));
    assert_false(proc_parse_cpu_ticks(BYTES_LIT(""), &ticks));
    assert_true(proc_parse_own_pid(BYTES_LIT("Name:\tNStgid:9\nNStgid:\t700\t31\nX:\t1\n"), &pid));
    assert_int_equal(pid, 31);
    assert_false(proc_parse_own_pid(BYTES_LIT("Name:\tx\n"), &pid));
    uint64_t start_ns = 0;
    struct buf text = BUF_INIT(65536);
    assert_int_equal(reader_proc_text((uint32_t)getpid(), READER_STATUS, &text), 0);
    assert_true(proc_parse_own_pid(buf_bytes(&text), &pid));
    assert_int_equal(reader_proc_text((uint32_t)getpid(), READER_STAT, &text), 0);
    assert_true(proc_parse_start_ns(buf_bytes(&text), &start_ns));
    assert_true(start_ns > 0 && start_ns % 10000000 == 0);
    buf_close(&text);
}

int main(void)
{
    reader_rig_attach();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),          cmocka_unit_test(our_own_library),
        cmocka_unit_test(unpublished),   cmocka_unit_test(lies),
        cmocka_unit_test(being_changed), cmocka_unit_test(changing_while_read),
        cmocka_unit_test(names),         cmocka_unit_test(decode_malformed),
        cmocka_unit_test(too_many_keys), cmocka_unit_test(maps_lines),
        cmocka_unit_test(fuse_is_known), cmocka_unit_test(proc_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
