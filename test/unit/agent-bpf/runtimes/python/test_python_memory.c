/* SPDX-License-Identifier: Apache-2.0 */
/* CPython's memory made by hand: every version, also builds that no machine here has; and memory
 * that lies. */
#include "agent-bpf/runtimes/python/python_attach.h"
#include "agent-bpf/runtimes/python/python_names.h"
#include "test/support/runtimes/python_image.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define REQUEST   ((size_t)1 << 20)
#define ARENA     ((size_t)1 << 20)
#define WORDS_MAX 1536
#define CODE(i)   (IMAGE_CODES + 0x200 * (uint64_t)(i))

static struct python_image image;
static struct python_process process;
static struct record_frame frames[IMAGE_FRAMES_N];
static struct runtime_name names[IMAGE_FRAMES_N];
static struct arena arena;

static int attach_with(size_t bytes, enum runtime_refusal *why)
{
    struct runtime_memory memory;
    python_image_memory(&image, &memory, bytes);
    return python_attach(&image.constants, 0, &memory, &process, why);
}

static int attach(enum runtime_refusal *why)
{
    return attach_with(REQUEST, why);
}

static void take_frames(void)
{
    uint64_t words[WORDS_MAX];
    const uint64_t *at = words;
    struct record_frame frame;
    size_t n = 0;
    int outcome;
    size_t size =
        python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome);
    assert_int_equal(outcome, RUNTIME_LIST_END);
    while (record_frame_next(&at, words + size, &frame))
        if (record_frame_kind(frame.words[0]) == FRAME_PYTHON) {
            assert_in_range(n, 0, IMAGE_FRAMES_N - 1);
            frames[n++] = frame;
        }
    assert_ptr_equal(at, words + size);
    assert_int_equal(n, IMAGE_FRAMES_N);
    assert_int_equal(record_frame_kind(words[size - 1]), FRAME_LIST_ENTRY);
}

static void make_slots(unsigned minor, bool free_threaded, enum image_slots slots)
{
    enum runtime_refusal why;
    assert_true(python_image_make(&image, minor, free_threaded, slots));
    assert_int_equal(attach(&why), 0);
    take_frames();
}

static void make(unsigned minor, bool free_threaded)
{
    make_slots(minor, free_threaded, IMAGE_SLOT_DIRECT);
}

static int find_names_by(int (*read)(void *context, struct reader_range *ranges, size_t n),
                         size_t bytes)
{
    struct runtime_names out = {&arena, names};
    struct runtime_memory memory;
    python_image_memory(&image, &memory, bytes);
    memory.read = read;
    arena_reset(&arena);
    memset(names, 0xff, sizeof(names));
    return python_names(&image.constants, &process, &memory, frames, IMAGE_FRAMES_N, &out);
}

static void find_names(void)
{
    assert_int_equal(find_names_by(python_image_read, REQUEST), 0);
}

static void assert_name(unsigned i)
{
    unsigned line = IMAGE_FIRST_LINE * (i + 1);
    assert_int_equal(names[i].outcome, RUNTIME_FRAME_NAMED);
    assert_int_equal(names[i].n_lines, 1);
    assert_string_equal((const char *)names[i].lines->function.data, python_image_functions[i]);
    assert_string_equal((const char *)names[i].lines->file.data, python_image_files[i]);
    assert_int_equal(names[i].lines->start_line, line);
    assert_int_equal(names[i].lines->line, line + IMAGE_LINE_MORE);
}

static void every_version(void **state)
{
    (void)state;
    for (unsigned minor = 8; minor <= 14; minor++)
        for (int free_threaded = 0; free_threaded <= (minor >= 13); free_threaded++) {
            make(minor, free_threaded);
            find_names();
            for (unsigned i = 0; i < IMAGE_FRAMES_N; i++)
                assert_name(i);
        }
}

static void every_place_of_the_key(void **state)
{
    (void)state;
    for (enum image_slots slots = IMAGE_SLOT_DIRECT; slots <= IMAGE_SLOT_MUSL; slots++) {
        make_slots(11, false, slots);
        assert_int_equal(process.slot_in_array != PYTHON_SLOT_DIRECT, slots != IMAGE_SLOT_DIRECT);
    }
    /* Somewhere else in _PyRuntime. */
    enum runtime_refusal why;
    assert_true(python_image_make(&image, 12, false, IMAGE_SLOT_GLIBC));
    uint64_t at = IMAGE_RUNTIME + image.constants.layout.runtime_key;
    python_image_word(&image, IMAGE_RUNTIME + 0x1004, python_image_get(&image, at));
    python_image_word(&image, at, 0);
    assert_int_equal(attach(&why), 0);
}

/* Groups end with entries: shims, _PyCFrames, or one for each frame. */
static void entries(void **state)
{
    uint64_t words[WORDS_MAX];
    int outcome;
    (void)state;
    make(10, false);
    assert_int_equal(
        python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome), 16);
    assert_int_equal(words[3], (uint64_t)FRAME_LIST_ENTRY << RECORD_FRAME_SHIFT);
    make(11, false);
    assert_int_equal(
        python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome), 14);
    assert_int_equal(words[6] & RECORD_FRAME_MASK, IMAGE_CFRAMES);
    assert_int_equal(words[13] & RECORD_FRAME_MASK, IMAGE_CFRAMES + 0x40);
    make(14, false);
    assert_int_equal(
        python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome), 14);
    assert_int_equal(words[6] & RECORD_FRAME_MASK, IMAGE_FRAMES + 0x200);
    /* The other thread has no frames; and this is none of Python's. */
    assert_int_equal(python_image_list(&image, &process, IMAGE_DESCRIPTORS + IMAGE_PAGE, words,
                                       WORDS_MAX, &outcome),
                     0);
    assert_int_equal(outcome, RUNTIME_LIST_END);
    assert_int_equal(python_image_list(&image, &process, IMAGE_TABLES, words, WORDS_MAX, &outcome),
                     0);
}

/* The evaluation function has entered its _PyCFrame, but not its frame: what is there is an address
 * of an earlier call, or anything. The list is the caller's. */
static void an_unfinished_cframe(void **state)
{
    static const uint64_t left[] = {0, 8, IMAGE_FRAMES + 4, 1ULL << 47, IMAGE_FRAMES + 0xf00};
    uint64_t words[WORDS_MAX];
    int outcome;
    (void)state;
    for (unsigned minor = 11; minor <= 12; minor++)
        for (size_t i = 0; i < sizeof(left) / sizeof(*left); i++) {
            make(minor, false);
            python_image_word(&image, IMAGE_CFRAMES + process.cframe_frame, left[i]);
            /* An earlier frame, called by a frame that is not the caller. */
            uint64_t earlier = IMAGE_FRAMES + 0xf00;
            python_image_word(&image, earlier + process.frame_previous, IMAGE_FRAMES + 0x400);
            python_image_word(&image, earlier + process.frame_code, CODE(3));
            python_image_put(&image, earlier + process.frame_owner, &(uint8_t){minor == 11 ? 1 : 3},
                             1);
            size_t n =
                python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome);
            assert_int_equal(outcome, RUNTIME_LIST_END);
            assert_int_equal(n, 7);
            assert_int_equal(words[0] & RECORD_FRAME_MASK, CODE(2));
            assert_int_equal(words[3] & RECORD_FRAME_MASK, CODE(3));
        }
}

/* Nor has it the caller's address yet: that follows from the native stack. What is left may look
 * like frames, but for their end. */
static void an_unfinished_cframe_without_caller(void **state)
{
    static const uint64_t left[] = {0, 8, 1ULL << 47, IMAGE_FRAMES + 0xf00};
    uint64_t words[WORDS_MAX], stray = IMAGE_FRAMES + 0xf00;
    int outcome;
    (void)state;
    for (unsigned minor = 11; minor <= 12; minor++)
        for (size_t i = 0; i < 16; i++) {
            make(minor, false);
            image.apart = 0x40; /* of put_frames() */
            python_image_word(&image, IMAGE_CFRAMES + process.cframe_frame, left[i % 4]);
            python_image_word(&image, IMAGE_CFRAMES + process.cframe_previous, left[i / 4]);
            python_image_word(&image, stray + process.frame_code, 8);
            size_t n =
                python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome);
            assert_int_equal(outcome, RUNTIME_LIST_END);
            assert_int_equal(n, 7);
            assert_int_equal(words[0] & RECORD_FRAME_MASK, CODE(2));
        }
}

static void the_gil(void **state)
{
    uint64_t words[WORDS_MAX];
    int outcome;
    (void)state;
    make(13, false);
    assert_int_equal(frames[0].words[1], IMAGE_LASTI);
    process.current =
        (struct context_variable){.thread_local_model = THREAD_LOCAL_STATIC, .offset = 0x800};
    python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome);
    assert_int_equal(words[1], IMAGE_LASTI | PYTHON_FRAME_GIL_RELEASED);
    python_image_word(&image, IMAGE_DESCRIPTORS + 0x800, IMAGE_THREADS);
    python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome);
    assert_int_equal(words[1], IMAGE_LASTI);
}

static void not_ready(void **state)
{
    enum runtime_refusal why;
    (void)state;
    assert_true(python_image_make(&image, 11, false, IMAGE_SLOT_DIRECT));
    python_image_word(&image, IMAGE_RUNTIME + image.constants.layout.interpreters_head, 0);
    assert_int_equal(attach(&why), -EAGAIN);
    assert_int_equal(why, RUNTIME_REFUSAL_NOT_READY);
    assert_true(python_image_make(&image, 11, false, IMAGE_SLOT_DIRECT));
    for (size_t at = 0; at < 2 * IMAGE_PAGE; at += 8) /* no thread has its state */
        python_image_word(&image, IMAGE_DESCRIPTORS + at, 0);
    assert_int_equal(attach(&why), -EAGAIN);
}

static void put_member(unsigned i, const char *name, uint64_t offset)
{
    uint64_t members = IMAGE_TYPE + 0x400, text = IMAGE_TYPE + 0x200 + 32 * i;
    python_image_word(&image, IMAGE_TYPE + 240, members);
    python_image_put(&image, text, name, strlen(name) + 1);
    python_image_word(&image, members + 40 * i, text);
    python_image_word(&image, members + 40 * i + 16, offset);
}

static void other_layouts_are_refused(void **state)
{
    enum runtime_refusal why;
    (void)state;
    assert_true(python_image_make(&image, 11, false, IMAGE_SLOT_DIRECT));
    put_member(0, "co_argcount", 56);
    put_member(1, "co_firstlineno", 72);
    put_member(2, "co_filename", 112);
    assert_int_equal(attach(&why), 0);
    put_member(2, "co_filename", 120);
    assert_int_equal(attach(&why), -ENOTSUP);
    assert_int_equal(why, RUNTIME_REFUSAL_UNKNOWN_LAYOUT);
    assert_true(python_image_make(&image, 11, false, IMAGE_SLOT_DIRECT));
    python_image_word(&image, IMAGE_TYPE + 32, 192);
    assert_int_equal(attach(&why), -ENOTSUP);
}

static void other_versions_are_refused(void **state)
{
    uint64_t offsets[PYTHON_DEBUG_OFFSETS_BYTES / 8];
    struct bytes bytes = BYTES(offsets, sizeof(offsets));
    struct python_layout layout;
    (void)state;
    assert_true(python_layout(0x030b00f0, BYTES(NULL, 0), &layout));
    assert_true(python_layout(0x030b00c1, BYTES(NULL, 0), &layout));  /* a candidate */
    assert_false(python_layout(0x030b00b1, BYTES(NULL, 0), &layout)); /* a beta */
    assert_false(python_layout(0x030700f0, BYTES(NULL, 0), &layout));
    assert_false(python_layout(0x020708f0, BYTES(NULL, 0), &layout));
    assert_false(python_layout(0x040b00f0, BYTES(NULL, 0), &layout));
    assert_false(python_layout(0x030d00f0, BYTES(NULL, 0), &layout));
    python_image_offsets(13, false, offsets);
    assert_true(python_layout(0x030d00f0, bytes, &layout));
    assert_false(python_layout(0x030d01f0, bytes, &layout)); /* not what they say */
    offsets[1] = 0x030f00f0;
    assert_false(python_layout(0x030f00f0, bytes, &layout));
}

/* Each number of the debug offsets at its worst: refused, or nothing outside of what is read. */
static void offsets_lie(void **state)
{
    static const uint64_t lies[] = {0,   4,    7,        240,        248,       249,
                                    256, 4096, 1u << 20, UINT32_MAX, ~0ULL - 7, ~0ULL};
    uint64_t offsets[PYTHON_DEBUG_OFFSETS_BYTES / 8];
    struct python_layout layout;
    (void)state;
    for (unsigned minor = 13; minor <= 14; minor++)
        for (size_t at = 2; at < PYTHON_DEBUG_OFFSETS_BYTES / 8; at++)
            for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
                python_image_offsets(minor, false, offsets);
                offsets[at] = lies[i];
                if (!python_layout(PYTHON_VERSION(3, minor) | 0xf0, BYTES(offsets, sizeof(offsets)),
                                   &layout))
                    continue;
                assert_true(layout.process.thread_bytes < PYTHON_READ_MAX);
                assert_true(layout.process.thread_id + 8 <= layout.process.thread_bytes);
                assert_true(layout.process.thread_frame + 8 <= layout.process.thread_bytes);
                assert_true(layout.thread_next + 8u <= layout.process.thread_bytes);
                assert_true(layout.process.frame_bytes < PYTHON_READ_MAX);
                assert_true(layout.process.frame_previous + 8 <= layout.process.frame_bytes);
                assert_true(layout.process.frame_code + 8 <= layout.process.frame_bytes);
                assert_true(layout.process.frame_owner < layout.process.frame_bytes);
                assert_true(layout.code_bytes < PYTHON_READ_MAX);
                assert_true(layout.code_first_line + 4 <= layout.code_bytes);
                assert_true(layout.object_type + 8 <= layout.code_bytes);
                assert_true(layout.text_header <= 96);
            }
}

static void objects_are_gone(void **state)
{
    (void)state;
    make(12, false);
    python_image_word(&image, CODE(0) + 112, IMAGE_TEXTS + 8); /* another file name */
    python_image_word(&image, CODE(1) + 8, IMAGE_TYPE + 8);    /* of another type */
    frames[2].words[0] = (uint64_t)FRAME_PYTHON << RECORD_FRAME_SHIFT | 0x7000000;
    find_names();
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_STALE);
    assert_int_equal(names[1].outcome, RUNTIME_FRAME_UNREADABLE);
    assert_int_equal(names[2].outcome, RUNTIME_FRAME_UNREADABLE);
    assert_name(3);
}

/* A new object where a freed one was, with all of its addresses: before 3.12 its name differs, from
 * then on its version. */
static void an_object_in_the_place_of_another(void **state)
{
    (void)state;
    make(11, false);
    python_image_word(&image, IMAGE_TEXTS + 0x200 + 24, 12345);
    find_names();
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_STALE);
    assert_name(1);
    make(12, false);
    python_image_put(&image, CODE(0) + 92, &(uint32_t){12345}, 4);
    find_names();
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_STALE);
    assert_name(1);
}

/* All is still there but the count of references: a link of the allocator, or 0. */
static void a_freed_object(void **state)
{
    (void)state;
    for (unsigned minor = 8; minor <= 14; minor++) {
        make(minor, false);
        python_image_word(&image, CODE(0), 0x7f1234567800);
        python_image_word(&image, CODE(1), 0);
        python_image_word(&image, CODE(2), UINT32_MAX); /* immortal */
        find_names();
        assert_int_equal(names[0].outcome, RUNTIME_FRAME_STALE);
        assert_int_equal(names[1].outcome, RUNTIME_FRAME_STALE);
        assert_name(2);
    }
}

static size_t change_after;

static int read_and_change(void *context, struct reader_range *ranges, size_t n)
{
    int error = python_image_read(context, ranges, n);
    if (image.calls == change_after)
        python_image_word(&image, CODE(1) + 120, IMAGE_TEXTS + 0x200);
    return error;
}

static void an_object_goes_while_it_is_read(void **state)
{
    (void)state;
    for (change_after = 1; change_after < 3; change_after++) {
        make(12, false);
        image.calls = 0;
        assert_int_equal(find_names_by(read_and_change, REQUEST), 0);
        assert_int_equal(names[1].outcome, RUNTIME_FRAME_STALE);
        assert_name(0);
    }
}

static void positions_outside(void **state)
{
    (void)state;
    make(14, true);
    frames[0].words[1] = IMAGE_UNITS;
    frames[1].words[1] = PYTHON_FRAME_NO_POSITION;
    frames[2].words[1] = UINT32_MAX; /* -1 */
    find_names();
    assert_int_equal(names[0].lines->line, 0);
    assert_int_equal(names[1].lines->line, 0);
    assert_int_equal(names[2].lines->line, 3 * IMAGE_FIRST_LINE);
    assert_name(3);
    assert_int_equal(names[0].lines->start_line, IMAGE_FIRST_LINE);
}

/* Another thread's copy of the code. */
static void a_copy_of_the_code(void **state)
{
    (void)state;
    make(14, true);
    python_image_word(&image, IMAGE_FRAMES + process.frame_position, IMAGE_TABLES);
    take_frames();
    find_names();
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_NAMED);
    assert_int_equal(names[0].lines->line, 0);
}

static void texts_lie(void **state)
{
    uint64_t text = IMAGE_TEXTS + 0x200;
    (void)state;
    make(13, false);
    python_image_word(&image, text + 16, 1ULL << 31); /* its length */
    find_names();
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_NAMED); /* cut */
    assert_int_equal(names[0].lines->function.len, 512);
    assert_name(1);
    python_image_word(&image, text + 16, ~0ULL);
    find_names();
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_UNREADABLE);
    make(13, false);
    uint64_t state_word = python_image_get(&image, text + 32);
    python_image_word(&image, text + 32, state_word & ~0x20ULL); /* not compact */
    find_names();
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_UNREADABLE);
    python_image_word(&image, text + 32, state_word | 0x1c); /* 7 bytes a character */
    find_names();
    assert_int_equal(names[0].outcome, RUNTIME_FRAME_UNREADABLE);
    make(13, false);
    python_image_put(&image, text + 40, "i\nn\x7f", 4);
    python_image_put(&image, IMAGE_TEXTS + 2 * 0x400 + 0x200 + 56, "\x34\xdc", 2); /* half a pair */
    find_names();
    assert_string_equal((const char *)names[0].lines->function.data, "i?n?r");
    assert_string_equal((const char *)names[2].lines->function.data, "?екст.<locals>");
}

static void tables_lie(void **state)
{
    static const uint64_t sizes[] = {1, 1u << 20, (1u << 20) + 1, 1ULL << 31, 1ULL << 63, ~0ULL};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        make(11, false);
        python_image_word(&image, IMAGE_TABLES + 16, sizes[i]);
        find_names();
        assert_int_equal(names[0].outcome, RUNTIME_FRAME_NAMED);
        assert_true(names[0].lines->line == 0 || names[0].lines->line == IMAGE_FIRST_LINE);
        assert_name(1);
    }
}

/* Whatever is left to read: a whole answer, or unknown. */
static void budgets(void **state)
{
    enum runtime_refusal why;
    (void)state;
    make(13, false);
    for (size_t bytes = 0; bytes < 8192; bytes += 64) {
        int error = find_names_by(python_image_read, bytes);
        assert_int_equal(error, 0);
        for (unsigned i = 0; i < IMAGE_FRAMES_N; i++)
            assert_true(names[i].outcome == RUNTIME_FRAME_NAMED ||
                        names[i].outcome == RUNTIME_FRAME_UNKNOWN);
    }
    for (size_t bytes = 0; bytes < 16384; bytes += 512) {
        int error = attach_with(bytes, &why);
        assert_true(error == 0 || error == -EAGAIN);
    }
}

static int read_fails(void *context, struct reader_range *ranges, size_t n)
{
    (void)context;
    (void)ranges;
    (void)n;
    return -EAGAIN;
}

static void no_answer(void **state)
{
    (void)state;
    make(13, false);
    assert_int_equal(find_names_by(read_fails, REQUEST), -EAGAIN);
}

static void lists_lie(void **state)
{
    static const uint64_t lies[] = {IMAGE_FRAMES, IMAGE_FRAMES + 0x100, IMAGE_FRAMES + 4,         8,
                                    ~0ULL,        IMAGE_CODES,          IMAGE_START + IMAGE_BYTES};
    uint64_t words[WORDS_MAX];
    int outcome;
    (void)state;
    for (unsigned minor = 8; minor <= 14; minor++)
        for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
            make(minor, false);
            python_image_word(&image, IMAGE_FRAMES + 0x100 + process.frame_previous, lies[i]);
            size_t n =
                python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome);
            assert_in_range(n, 3, WORDS_MAX);
            if (process.has_cframe)
                python_image_word(&image, IMAGE_CFRAMES + process.cframe_frame, lies[i]);
            python_image_word(&image, IMAGE_THREADS + process.thread_frame, lies[i]);
            python_image_list(&image, &process, IMAGE_DESCRIPTORS, words, WORDS_MAX, &outcome);
        }
}

/* So near to where the memory ends that nothing of it is left to be looked at. */
static void a_descriptor_is_cut(void **state)
{
    enum runtime_refusal why;
    (void)state;
    make(12, false);
    for (uint64_t thread = 0; thread < 2; thread++)
        python_image_word(&image, IMAGE_THREADS + 0x200 * thread + process.thread_id,
                          IMAGE_START + IMAGE_BYTES - 600);
    assert_int_equal(attach(&why), -EAGAIN);
}

static int open_arena(void **state)
{
    (void)state;
    arena_init(&arena, ARENA);
    return 0;
}

static int close_arena(void **state)
{
    (void)state;
    arena_close(&arena);
    return 0;
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(every_version),
        T(every_place_of_the_key),
        T(entries),
        T(an_unfinished_cframe),
        T(an_unfinished_cframe_without_caller),
        T(the_gil),
        T(not_ready),
        T(other_layouts_are_refused),
        T(other_versions_are_refused),
        T(offsets_lie),
        T(objects_are_gone),
        T(an_object_in_the_place_of_another),
        T(a_freed_object),
        T(an_object_goes_while_it_is_read),
        T(positions_outside),
        T(a_copy_of_the_code),
        T(texts_lie),
        T(tables_lie),
        T(budgets),
        T(no_answer),
        T(lists_lie),
        T(a_descriptor_is_cut),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
