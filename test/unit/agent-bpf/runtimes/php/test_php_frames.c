/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real interpreters: the list of frames, read from outside, against what the program itself says
 * (debug_backtrace()): function, file and line of every frame, for all ways of being called.
 * Arguments: the interpreters (those of Debian).
 */
#include "test/support/runtimes/runtime_program.h"
#include "agent-bpf/runtimes/php/php_list.h"
#include "agent-bpf/runtimes/php/php_reader.h"
#include "test/support/runtimes/phps.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define SCRIPT     SPANPROF_SOURCE_DIR "/test/support/runtimes/php/frames.php"
#define FRAMES_MAX 512
#define ARENA      ((size_t)4 << 20)
#define WAIT_US    10000
#define WAITS_MAX  500

static const struct runtime_reader reader = {
    .runtime = RUNTIME_PHP,
    .section = RUNTIME_SECTION_PHP,
    .kinds = 1u << FRAME_PHP,
    .open = php_reader_open,
    .close = php_reader_close,
    .attach = php_reader_attach,
    .names = php_reader_names,
};

struct program {
    struct runtime_program runtime;
    size_t n_cases, n_frames;
};

/* Until it waits in read(). */
static void program_wait(const struct program *program)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof(path), "/proc/%d/syscall", program->runtime.pid);
    for (int i = 0; i < WAITS_MAX && strncmp(text, "0 0x0 ", 6); i++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fd);
        usleep(i ? WAIT_US : 0);
    }
}

static size_t list_read(const struct program *program, struct record_frame *frames)
{
    struct php_list list;
    size_t n = 0;
    int outcome = php_list_begin(&program->runtime.entry.php, 0, &list);
    while (outcome == RUNTIME_LIST_GOES_ON && n < FRAMES_MAX) {
        outcome = php_list_next(&program->runtime.entry.php, &list);
        if (outcome != RUNTIME_LIST_GOES_ON || list.next.n_words < 3)
            continue;
        memcpy(frames[n++].words, list.next.words, sizeof(frames[0].words));
    }
    if (outcome != RUNTIME_LIST_END)
        fail_msg("outcome %d after %zu frames", outcome, n);
    return n;
}

static void compare_frame(const char *what, const struct runtime_name *name, const char *said)
{
    char found[2048];
    if (name->outcome != RUNTIME_FRAME_NAMED)
        fail_msg("%s: outcome %d of %s", what, name->outcome, said);
    assert_int_equal(name->n_lines, 1);
    snprintf(found, sizeof(found), "%s\t%s\t%u", (const char *)name->lines->function.data,
             (const char *)name->lines->file.data, name->lines->line);
    if (strcmp(found, said))
        fail_msg("%s: %s, said was %s", what, found, said);
}

static void line_read(const struct program *program, char *line, size_t size)
{
    assert_non_null(fgets(line, (int)size, program->runtime.out));
    line[strcspn(line, "\n")] = '\0';
}

static void compare_case(struct program *program, const char *what, size_t n_said)
{
    static char said[FRAMES_MAX][1024];
    struct record_frame frames[FRAMES_MAX];
    struct runtime_name names[FRAMES_MAX];
    struct runtime_memory memory;
    char ready[16];
    struct arena arena;
    assert_in_range(n_said, 2, FRAMES_MAX);
    for (size_t i = 0; i < n_said; i++)
        line_read(program, said[i], sizeof(said[i]));
    line_read(program, ready, sizeof(ready));
    assert_string_equal(ready, "ready");
    program_wait(program);
    memory_open(&memory, RUNTIME_REQUEST);
    size_t n = list_read(program, frames);
    arena_init(&arena, ARENA);
    struct runtime_names out = {.arena = &arena, .names = names};
    memory_calls = 0;
    assert_int_equal(reader.names(program->runtime.constants, &program->runtime.entry, NULL,
                                  &memory, frames, n, &out),
                     0);
    assert_in_range(memory_calls, 1, 8);
    for (size_t i = 0; i < n && i < n_said; i++)
        compare_frame(what, &names[i], said[i]);
    if (n != n_said)
        fail_msg("%s: %zu frames, said were %zu", what, n, n_said);
    arena_close(&arena);
    program->n_cases++;
    program->n_frames += n;
}

static void compare_program(struct program *program)
{
    char line[4096], what[256];
    size_t n;
    while (fgets(line, sizeof(line), program->runtime.out)) {
        if (sscanf(line, "case %255s %zu", what, &n) != 2)
            fail_msg("not understood: %s", line);
        compare_case(program, what, n);
        assert_int_equal(write(program->runtime.in, "\n", 1), 1);
    }
}

static void compare_php(const char *php)
{
    struct program program = {.runtime.reader = &reader};
    struct runtime_program *runtime = &program.runtime;
    struct runtime_memory memory;
    enum runtime_refusal why = RUNTIME_REFUSAL_NONE;
    program_start(runtime, php, SCRIPT);
    ungetc(fgetc(runtime->out), runtime->out); /* it has said something */
    program_take_files(runtime, &why, NULL, NULL);
    memory_calls = 0;
    int error = program_attach_in(runtime, &memory, &why);
    if (error)
        fail_msg("%s: %d, refused: %d", php, error, why);
    print_message("%s: attached with %zu bytes in %zu calls, %lx bytes of execute_ex\n", php,
                  RUNTIME_REQUEST - memory.bytes_left, memory_calls,
                  (unsigned long)(program.runtime.entry.php.evaluation[0].end -
                                  program.runtime.entry.php.evaluation[0].start));
    compare_program(&program);
    program_end(runtime);
    print_message("%s: %zu stacks, %zu frames are right\n", php, program.n_cases, program.n_frames);
    assert_in_range(program.n_cases, 45, 60);
}

static void frames(void **state)
{
    (void)state;
    each_php(compare_php);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames)};
    phps = argv + 1;
    n_phps = argc - 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
