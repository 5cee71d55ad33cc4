/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of recorded stacks of real JVMs (hotspot_inspect record), and what is kept of them: places
 * in compiled code are not looked at again, other objects are, in a request or two. What has become
 * another object's never has the name of before.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_names.h"
#include "agent-bpf/record_frame.h"
#include "test/support/fixtures/memory_image.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct memory_image image;

#define HOTSPOT_READ(walk, out, size, address)                                                     \
    ((void)(walk), memory_image_get(&image, (out), (size), (address)))
#include "agent-bpf/runtimes/hotspot/hotspot_step.h"

#define FILE_MAX    (256u << 10)
#define CACHE_BYTES (1u << 20)
#define TEXT_MAX    2048
#define PROGRAM     77
#define CLASS       "Stacks"
#define OTHER       "Boxing" /* of the same length */

static const char *const stacks[] = {"spin-11-1", "spin-17-1", "spin-21-1", "spin-25-1",
                                     "wait-11",   "wait-17",   "wait-25"};

static uint8_t content[FILE_MAX];
static struct hotspot_process process;
static struct record_frame frames[HOTSPOT_FRAMES_MAX];
static size_t n_frames, n_requests, requests_max = SIZE_MAX;
static struct runtime_cache *cache;

struct named {
    enum runtime_outcome outcome;
    char text[TEXT_MAX]; /* function:line of each line, innermost first */
};

static struct named before[HOTSPOT_FRAMES_MAX], after[HOTSPOT_FRAMES_MAX];

/* ---- the stack ---- */

static enum record_frame_kind kind_of(size_t i)
{
    return record_frame_kind(frames[i].words[0]);
}

static void walk_stack(const uint64_t registers[8])
{
    struct hotspot_walk walk = {.pc = registers[0],
                                .sp = registers[1],
                                .fp = registers[2],
                                .rax = registers[3],
                                .rbx = registers[4],
                                .r13 = registers[5],
                                .is_leaf = registers[6] & 1,
                                .has_registers = registers[6] & 1};
    int end = HOTSPOT_UNWINDS;
    hotspot_begin(&walk);
    for (n_frames = 0; end == HOTSPOT_UNWINDS && hotspot_holds(&process, walk.pc);) {
        assert_true(n_frames < HOTSPOT_FRAMES_MAX);
        end = hotspot_walk_step(&walk, &process);
        memcpy(frames[n_frames++].words, walk.words, sizeof(frames->words));
    }
}

static void open_stack(const char *name)
{
    char path[512];
    uint64_t registers[8];
    snprintf(path, sizeof(path), "%s/%s", HOTSPOT_IMAGES, name);
    FILE *file = fopen(path, "re");
    if (!file)
        fail_msg("%s cannot be opened", path);
    size_t size = fread(content, 1, sizeof(content), file);
    fclose(file);
    assert_true(size < sizeof(content) && size > 8 + sizeof(process) + sizeof(registers));
    struct bytes rest = bytes_skip(BYTES(content, size), 8);
    memcpy(&process, rest.data, sizeof(process));
    memcpy(registers, rest.data + sizeof(process), sizeof(registers));
    memory_image_parse(&image, bytes_skip(rest, sizeof(process) + sizeof(registers)));
    walk_stack(registers);
    assert_true(n_frames > 2);
    runtime_cache_close(cache);
    assert_int_equal(runtime_cache_open(CACHE_BYTES, &cache), 0);
}

/* All of the memory that holds the text holds the other one. */
static void replace_text(const char *text, const char *other)
{
    for (size_t i = 0; i < image.n; i++) {
        struct bytes bytes = image.ranges[i].bytes;
        const uint8_t *at;
        while ((at = memmem(bytes.data, bytes.len, text, strlen(text))))
            memcpy(content + (at - content), other, strlen(other));
    }
}

/* All of the memory that holds the place holds the other bytes. */
static void put(uint64_t address, uint64_t value, size_t size)
{
    for (size_t i = 0; i < image.n; i++) {
        uint64_t at = address - image.ranges[i].address;
        if (at < image.ranges[i].bytes.len && image.ranges[i].bytes.len - at >= size)
            memcpy(content + (image.ranges[i].bytes.data + at - content), &value, size);
    }
}

/* ---- names ---- */

static int count_reads(void *context, struct reader_range *ranges, size_t n)
{
    struct runtime_memory memory = memory_image_memory(&image);
    (void)context;
    n_requests++;
    return n_requests > requests_max ? -ETIME : memory.read(memory.context, ranges, n);
}

/* False: it was given up. */
static bool find_names(struct named *named)
{
    static struct runtime_name found[HOTSPOT_FRAMES_MAX];
    struct arena arena;
    struct runtime_memory memory = {.read = count_reads, .program = PROGRAM};
    struct runtime_names names = {.arena = &arena, .names = found};
    n_requests = 0;
    arena_init(&arena, 8u << 20);
    int error = hotspot_names(&process, cache, &memory, frames, n_frames, &names);
    assert_true(!error || (error == -ETIME && n_requests > requests_max));
    for (size_t i = 0; !error && i < n_frames; i++) {
        size_t at = 0;
        named[i] = (struct named){.outcome = found[i].outcome};
        for (uint32_t k = 0; k < found[i].n_lines; k++)
            at += (size_t)snprintf(named[i].text + at, TEXT_MAX - at, "%s %s:%u\n",
                                   found[i].lines[k].function.data, found[i].lines[k].file.data,
                                   found[i].lines[k].line);
        assert_true(at < TEXT_MAX);
    }
    arena_close(&arena);
    return !error;
}

static void assert_same(size_t i)
{
    assert_int_equal(after[i].outcome, before[i].outcome);
    assert_string_equal(after[i].text, before[i].text);
}

static void known(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(stacks) / sizeof(*stacks); k++) {
        unsigned compiled = 0, methods = 0, named = 0;
        open_stack(stacks[k]);
        find_names(before);
        size_t first = n_requests;
        find_names(after);
        for (size_t i = 0; i < n_frames; i++) {
            assert_same(i);
            compiled += kind_of(i) == FRAME_JVM_COMPILED;
            methods += kind_of(i) <= FRAME_JVM_INTERPRETED;
            named += kind_of(i) <= FRAME_JVM_INTERPRETED && !before[i].outcome;
        }
        print_message("%s: %u of %zu frames compiled; %zu requests, then %zu\n", stacks[k],
                      compiled, n_frames, first, n_requests);
        assert_int_equal(named, methods);
        assert_true(first >= 7 && n_requests <= 3);
    }
}

/* Requests that are given up too early get further each time. */
static void given_up(void **state)
{
    unsigned turns = 0;
    (void)state;
    open_stack("wait-17");
    requests_max = 12; /* all of it takes 19 */
    while (turns < 20 && !find_names(before))
        turns++;
    requests_max = SIZE_MAX;
    assert_in_range(turns, 1, 10);
    assert_true(find_names(after));
    for (size_t i = 0; i < n_frames; i++)
        assert_same(i);
}

/* Another class is where the class was: its methods have its name, and what was compiled of the
 * first one still has the first one's. */
static void another_class(void **state)
{
    unsigned changed = 0;
    (void)state;
    open_stack("wait-17");
    find_names(before);
    replace_text(CLASS, OTHER);
    find_names(after);
    for (size_t i = 0; i < n_frames; i++) {
        if (kind_of(i) != FRAME_JVM_INTERPRETED || !strstr(before[i].text, CLASS)) {
            assert_same(i);
            continue;
        }
        changed++;
        assert_null(strstr(after[i].text, CLASS));
        assert_non_null(strstr(after[i].text, OTHER));
    }
    assert_true(changed);
}

/* Its ConstMethod is another one now. */
static void another_method(void **state)
{
    unsigned stale = 0;
    (void)state;
    open_stack("wait-17");
    find_names(before);
    for (size_t i = 0; i < n_frames; i++)
        if (kind_of(i) == FRAME_JVM_INTERPRETED)
            put((frames[i].words[0] & (RECORD_FRAME_EXACT - 1)) + process.method.const_method,
                0x1234560, 8);
    find_names(after);
    for (size_t i = 0; i < n_frames; i++) {
        stale += after[i].outcome == RUNTIME_FRAME_STALE;
        if (kind_of(i) == FRAME_JVM_INTERPRETED)
            assert_int_equal(after[i].outcome, RUNTIME_FRAME_STALE);
        else
            assert_same(i);
    }
    assert_true(stale);
}

/* The same place in code, but of another nmethod. */
static void another_code(void **state)
{
    unsigned compiled = 0;
    (void)state;
    open_stack("spin-17-1");
    find_names(before);
    for (size_t i = 0; i < n_frames; i++)
        if (kind_of(i) == FRAME_JVM_COMPILED)
            frames[i].words[2]++;
    find_names(after);
    for (size_t i = 0; i < n_frames; i++)
        if (kind_of(i) == FRAME_JVM_COMPILED) {
            compiled++;
            assert_int_equal(after[i].outcome, RUNTIME_FRAME_STALE);
        }
    assert_true(compiled);
}

/* Code that is not in use any more has its name as long as it can be read, but that is not kept. */
static void code_that_goes(void **state)
{
    unsigned compiled = 0;
    (void)state;
    open_stack("spin-17-1");
    for (size_t i = 0; i < n_frames; i++)
        if (kind_of(i) == FRAME_JVM_COMPILED)
            put(frames[i].words[1] - process.blob.block_bytes + process.blob.block_used, 0, 1);
    find_names(before);
    replace_text(CLASS, OTHER);
    find_names(after);
    for (size_t i = 0; i < n_frames; i++)
        if (kind_of(i) == FRAME_JVM_COMPILED && strstr(before[i].text, CLASS)) {
            compiled++;
            assert_null(strstr(after[i].text, CLASS));
        }
    assert_true(compiled);
}

static int close_cache(void **state)
{
    (void)state;
    runtime_cache_close(cache);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known),         cmocka_unit_test(given_up),
        cmocka_unit_test(another_class), cmocka_unit_test(another_method),
        cmocka_unit_test(another_code),  cmocka_unit_test(code_that_goes),
    };
    return cmocka_run_group_tests(tests, NULL, close_cache);
}
