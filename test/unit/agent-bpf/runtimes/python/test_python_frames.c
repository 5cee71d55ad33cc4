/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real interpreters: each thread's list of frames, read from outside, against what the program
 * itself says (sys._getframe): function, file, line and first line of every frame. Arguments: the
 * interpreters (those of Debian).
 */
#include "test/support/runtimes/runtime_program.h"
#include "agent-bpf/runtimes/python/python_list.h"
#include "agent-bpf/runtimes/python/python_reader.h"
#include "test/support/runtimes/pythons.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SCRIPT     SPANPROF_SOURCE_DIR "/test/support/runtimes/python/frames.py"
#define FRAMES_MAX 512
#define ARENA      ((size_t)4 << 20)

static const struct runtime_reader reader = {
    .runtime = RUNTIME_PYTHON,
    .section = RUNTIME_SECTION_PYTHON,
    .kinds = 1u << FRAME_PYTHON,
    .open = python_reader_open,
    .close = python_reader_close,
    .attach = python_reader_attach,
    .names = python_reader_names,
};

struct program {
    struct runtime_program runtime;
    char *said;
    size_t n_threads, n_frames;
};

static size_t list_read(const struct program *program, uint64_t tp, struct record_frame *frames)
{
    struct python_list list;
    size_t n = 0;
    int outcome = python_list_begin(&program->runtime.entry.python, tp, 0, &list);
    while (outcome == RUNTIME_LIST_GOES_ON && n < FRAMES_MAX) {
        outcome = python_list_next(&program->runtime.entry.python, &list);
        if (outcome != RUNTIME_LIST_GOES_ON || list.next.n_words < 3)
            continue;
        memcpy(frames[n++].words, list.next.words, sizeof(frames[0].words));
    }
    if (outcome != RUNTIME_LIST_END)
        fail_msg("thread %lx: outcome %d after %zu frames", (unsigned long)tp, outcome, n);
    return n;
}

static void compare_frame(const struct runtime_name *name, const char *said)
{
    char found[2048];
    assert_int_equal(name->outcome, RUNTIME_FRAME_NAMED);
    assert_int_equal(name->n_lines, 1);
    snprintf(found, sizeof(found), "%s\t%s\t%u\t%u", (const char *)name->lines->function.data,
             (const char *)name->lines->file.data, name->lines->line, name->lines->start_line);
    assert_string_equal(found, said);
}

static void compare_thread(struct program *program, uint64_t tp, size_t n_said)
{
    struct record_frame frames[FRAMES_MAX];
    struct runtime_name names[FRAMES_MAX];
    struct runtime_memory memory;
    memory_open(&memory, RUNTIME_REQUEST);
    struct arena arena;
    char line[4096];
    size_t n = list_read(program, tp, frames);
    assert_int_equal(n, n_said);
    arena_init(&arena, ARENA);
    struct runtime_names out = {.arena = &arena, .names = names};
    memory_calls = 0;
    assert_int_equal(reader.names(program->runtime.constants, &program->runtime.entry, NULL,
                                  &memory, frames, n, &out),
                     0);
    assert_in_range(memory_calls, 1, 16);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(fgets(line, sizeof(line), program->runtime.out));
        line[strcspn(line, "\n")] = '\0';
        compare_frame(&names[i], line);
    }
    arena_close(&arena);
    program->n_threads++;
    program->n_frames += n;
}

/* Until all threads have said what they do, and sleep; from then on this is what `out` gives. */
static void program_hear(struct program *program)
{
    char line[4096], *said = NULL;
    size_t size;
    FILE *all = open_memstream(&said, &size);
    while (fgets(line, sizeof(line), program->runtime.out) && strcmp(line, "ready\n"))
        fputs(line, all);
    fclose(all);
    fclose(program->runtime.out);
    program->said = said;
    program->runtime.out = fmemopen(said, size, "r");
    assert_non_null(program->runtime.out);
}

static void compare_program(struct program *program)
{
    char line[4096];
    unsigned long tp, tid, n;
    while (fgets(line, sizeof(line), program->runtime.out)) {
        if (sscanf(line, "thread %lu %lu %lu", &tp, &tid, &n) != 3)
            fail_msg("not understood: %s", line);
        compare_thread(program, tp, n);
    }
}

static void compare_python(const char *python)
{
    struct program program = {.runtime.reader = &reader};
    struct runtime_program *runtime = &program.runtime;
    struct runtime_memory memory;
    enum runtime_refusal why = RUNTIME_REFUSAL_NONE;
    program_start(runtime, python, SCRIPT);
    ungetc(fgetc(runtime->out), runtime->out); /* a thread has said something */
    program_take_files(runtime, &why, NULL, NULL);
    memory_calls = 0;
    int error = program_attach_in(runtime, &memory, &why);
    if (error == -ENOENT) { /* 3.7 and older */
        program_end(runtime);
        print_message("%s: refused, %d\n", python, why);
        assert_true(strstr(python, "/3.6.") || strstr(python, "/3.7."));
        return;
    }
    if (error)
        fail_msg("%s: python_attach() = %d, %d", python, error, why);
    const struct python_process *process = &runtime->entry.python;
    print_message("%s: 3.%u, attached with %zu bytes in %zu calls, slot %ld/%x, variable %d\n",
                  python, python_reader_version(runtime->constants, &runtime->entry).minor,
                  RUNTIME_REQUEST - memory.bytes_left, memory_calls, (long)process->slot,
                  process->slot_in_array, process->current.thread_local_model);
    program_hear(&program);
    compare_program(&program);
    program_end(runtime);
    free(program.said);
    print_message("%s: %zu threads, %zu frames are right\n", python, program.n_threads,
                  program.n_frames);
    assert_in_range(program.n_threads, 15, 20);
}

static void frames(void **state)
{
    (void)state;
    each_python(compare_python);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames)};
    pythons = argv + 1;
    n_pythons = argc - 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
