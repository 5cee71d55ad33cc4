/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of real programs, from memory that was recorded (v8_image.h): the names must be those that
 * were found then, which V8's own stack had confirmed. The same memory, changed: names are gone or
 * another frame's, but never a crash, and never without end.
 */
#include "agent-bpf/runtimes/v8/v8_names.h"
#include "test/support/fixtures/v8_image.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define TEXT_MAX 8192

struct outcome {
    char text[V8_IMAGE_FRAMES_MAX][1024]; /* of each frame */
    unsigned counts[4];
    unsigned unseen;
};

static struct v8_image image;
static struct outcome outcome;

static int take(void *context, size_t frame, enum v8_names_outcome how, const struct v8_name *names,
                size_t n)
{
    struct outcome *out = context;
    int at = 0;
    out->counts[how]++;
    out->unseen--;
    for (size_t i = 0; i < n && at < (int)sizeof(out->text[0]) - 1; i++)
        at += snprintf(out->text[frame] + at, sizeof(out->text[0]) - (size_t)at,
                       "\t%s\t%s\t%u\t%u\t%u\n", names[i].function, names[i].file, names[i].line,
                       names[i].column, names[i].start_line);
    return 0;
}

static size_t read_file(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        fail_msg("%s cannot be opened", path);
    size_t n = fread(out, 1, size, file);
    assert_true(n < size);
    fclose(file);
    return n;
}

static void open_image(const char *name)
{
    static char content[1 << 20];
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", V8_IMAGES, name);
    size_t size = read_file(path, content, sizeof(content));
    assert_true(v8_image_open(BYTES(content, size), &image));
    assert_true(image.n_frames > 10);
}

static void find_names(void)
{
    memset(&outcome, 0, sizeof(outcome));
    outcome.unseen = (unsigned)image.n_frames;
    image.memory.bytes_left = 1u << 20;
    image.n_requests = 0;
    const struct v8_names_request request = v8_image_request(&image);
    assert_int_equal(v8_names_find(&request, take, &outcome), 0);
    assert_int_equal(outcome.unseen, 0);
    assert_true(image.n_requests <= 2 * V8_NAMES_ROUNDS);
}

static void check_image(const char *name)
{
    char path[512], expected[TEXT_MAX] = "", found[TEXT_MAX] = "";
    open_image(name);
    find_names();
    snprintf(path, sizeof(path), "%s/%s.txt", V8_NAMES, name);
    read_file(path, expected, sizeof(expected));
    for (size_t i = 0, at = 0; i < image.n_frames; i++)
        at += (size_t)snprintf(found + at, sizeof(found) - at, "%s", outcome.text[i]);
    assert_string_equal(found, expected);
    assert_true(image.n_requests <= 24); /* a hop of all frames is one */
}

static void recorded(void **state)
{
    (void)state;
    check_image("node16");
    check_image("node18");
    check_image("node22");
    check_image("node26");
    check_image("node22_source");
    check_image(
        "node26_loop"); /* whose table of positions has the line of the loop for the call in it */
}

#define KEPT_MAX 256

static struct kept {
    enum v8_kept kind;
    uint64_t key[3];
    uint8_t bytes[8192];
    size_t size;
} kept[KEPT_MAX];
static size_t n_kept;

static struct kept *kept_find(enum v8_kept kind, const uint64_t key[3])
{
    for (size_t i = 0; i < n_kept; i++)
        if (kept[i].kind == kind && !memcmp(kept[i].key, key, sizeof(kept[i].key)))
            return &kept[i];
    return NULL;
}

static bool kept_get(void *context, enum v8_kept kind, const uint64_t key[3], struct bytes *value)
{
    const struct kept *found = kept_find(kind, key);
    (void)context;
    if (found)
        *value = BYTES(found->bytes, found->size);
    return found;
}

static void kept_put(void *context, enum v8_kept kind, const uint64_t key[3], struct bytes value)
{
    struct kept *to = kept_find(kind, key);
    (void)context;
    if (!to)
        to = &kept[n_kept++];
    assert_true(n_kept <= KEPT_MAX && value.len <= sizeof(to->bytes));
    to->kind = kind;
    memcpy(to->key, key, sizeof(to->key));
    memcpy(to->bytes, value.data, value.len);
    to->size = value.len;
}

/* What was counted of a source is not read again: the source may even be gone. */
static void lines_are_kept(void **state)
{
    static struct outcome first;
    const struct v8_store store = {kept_get, kept_put, NULL};
    struct v8_names_request request;
    size_t n_first = 0, bytes = 0;
    (void)state;
    open_image("node22_source");
    n_kept = 0;
    for (int turn = 0; turn < 2; turn++) {
        request = v8_image_request(&image);
        request.store = &store;
        image.memory.bytes_left = 1u << 20;
        memset(&outcome, 0, sizeof(outcome));
        assert_int_equal(v8_names_find(&request, take, &outcome), 0);
        if (!turn) {
            first = outcome;
            n_first = n_kept - image.n_frames;
            bytes = image.memory.bytes_left;
        }
    }
    assert_memory_equal(first.text, outcome.text, sizeof(first.text));
    assert_true(n_first >= 2);
    assert_int_equal(n_kept - image.n_frames, n_first);
    assert_true(image.memory.bytes_left > bytes + 4000); /* the source of the program */
}

/* Frames that were named before: all that their names need is read at once, and it is read, so what
 * has changed since is seen. */
static void way_is_kept(void **state)
{
    static const char *const images[] = {"node16", "node18", "node22", "node26"};
    static struct outcome first;
    const struct v8_store store = {kept_get, kept_put, NULL};
    (void)state;
    for (size_t i = 0; i < sizeof(images) / sizeof(*images); i++) {
        size_t requests[3] = {0};
        open_image(images[i]);
        n_kept = 0;
        for (int turn = 0; turn < 3; turn++) {
            struct v8_names_request request = v8_image_request(&image);
            request.store = &store;
            image.memory.bytes_left = 1u << 20;
            image.n_requests = 0;
            memset(&outcome, 0, sizeof(outcome));
            if (turn == 2)
                image.frames[0][2] += UINT64_C(1) << 32;
            assert_int_equal(v8_names_find(&request, take, &outcome), 0);
            requests[turn] = image.n_requests;
            if (!turn)
                first = outcome;
            else if (turn == 1)
                assert_memory_equal(first.text, outcome.text, sizeof(first.text));
        }
        print_message("%s: %zu requests, then %zu\n", images[i], requests[0], requests[1]);
        assert_true(requests[0] >= 8 && requests[1] <= 3);
        assert_int_equal(outcome.counts[V8_STALE], first.counts[V8_STALE] + 1);
    }
}

/* Words that name another function than the object is: no name of either. */
static void stale(void **state)
{
    (void)state;
    open_image("node22");
    for (size_t i = 0; i < image.n_frames; i++)
        image.frames[i][2] += UINT64_C(1) << 32;
    find_names();
    assert_int_equal(outcome.counts[V8_NAMED], 0);
    assert_int_equal(outcome.counts[V8_STALE], image.n_frames);
    open_image("node22");
    for (size_t i = 0; i < image.n_frames; i++)
        image.frames[i][1] ^= UINT64_C(1) << 50; /* another script */
    find_names();
    assert_int_equal(outcome.counts[V8_STALE], image.n_frames);
}

/* An object that lies elsewhere now: what it was has another type. */
static void moved(void **state)
{
    (void)state;
    open_image("node26");
    for (size_t i = 0; i < image.n_frames; i++)
        image.frames[i][1] += 16;
    find_names();
    assert_int_equal(outcome.counts[V8_NAMED], 0);
}

/* Other code is where the frame's was: its function is known still, but neither line nor calls. */
static void code_is_replaced(void **state)
{
    static struct outcome before;
    unsigned machine = 0;
    (void)state;
    open_image("node22");
    find_names();
    before = outcome;
    for (size_t i = 0; i < image.n_frames; i++)
        if (!(image.frames[i][1] & V8_FRAME_INTERPRETED) && (uint32_t)image.frames[i][2])
            image.frames[i][2] ^= 2;
    find_names();
    for (size_t i = 0; i < image.n_frames; i++) {
        if (image.frames[i][1] & V8_FRAME_INTERPRETED || !(uint32_t)image.frames[i][2]) {
            assert_string_equal(outcome.text[i], before.text[i]);
            continue;
        }
        machine++;
        assert_non_null(strstr(outcome.text[i], "\t0\t0\t"));
        assert_null(strchr(outcome.text[i], '\n')[1] ? outcome.text[i] : NULL);
    }
    assert_true(machine > 5);
}

static void nothing_readable(void **state)
{
    (void)state;
    open_image("node18");
    image.n_lines = 0;
    find_names();
    assert_int_equal(outcome.counts[V8_NAMED], 0);
}

static void bytes_run_out(void **state)
{
    (void)state;
    open_image("node22");
    for (size_t bytes = 0; bytes < 64 * 1024; bytes += 1000) {
        memset(&outcome, 0, sizeof(outcome));
        outcome.unseen = (unsigned)image.n_frames;
        image.memory.bytes_left = bytes;
        const struct v8_names_request request = v8_image_request(&image);
        assert_int_equal(v8_names_find(&request, take, &outcome), 0);
        assert_int_equal(outcome.unseen, 0);
    }
}

/* Each word of the memory in turn is a pointer to another place of it, or a huge number. */
static void wild(void **state)
{
    static const uint64_t words[] = {UINT64_MAX, 1, 0x7fffffff00000000, 0x80000000, 0xfffffffd};
    (void)state;
    open_image("node26");
    srand(17);
    for (int turn = 0; turn < 3000; turn++) {
        struct v8_image_line *line = &image.lines[(size_t)rand() % image.n_lines];
        const struct v8_image_line *to = &image.lines[(size_t)rand() % image.n_lines];
        size_t at = (size_t)rand() % (V8_HEAP_LINE / 8) * 8;
        uint64_t before,
            word = turn % 2 ? words[turn / 2 % 5] : (to->address | ((uint64_t)rand() & 0xf8)) + 1;
        memcpy(&before, line->bytes + at, 8);
        memcpy(line->bytes + at, &word, 8);
        find_names();
        if (turn % 8 == 7)
            open_image("node26");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded),
        cmocka_unit_test(lines_are_kept),
        cmocka_unit_test(way_is_kept),
        cmocka_unit_test(stale),
        cmocka_unit_test(moved),
        cmocka_unit_test(code_is_replaced),
        cmocka_unit_test(nothing_readable),
        cmocka_unit_test(bytes_run_out),
        cmocka_unit_test(wild),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
