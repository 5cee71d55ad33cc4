/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real interpreters: each thread's list of frames, read from outside, against what the program
 * itself says (sys._getframe): function, file, line and first line of every frame. Arguments: the
 * interpreters (those of Debian).
 */
#include "test/support/runtimes/python_memory.h"
#include "agent-bpf/runtimes/python/python_attach.h"
#include "agent-bpf/runtimes/python/python_list.h"
#include "agent-bpf/runtimes/python/python_names.h"
#include "test/support/runtimes/pythons.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define SCRIPT     SPANPROF_SOURCE_DIR "/test/support/runtimes/python/frames.py"
#define FRAMES_MAX 512
#define REQUEST    ((size_t)1 << 20) /* bytes of one */
#define ARENA      ((size_t)4 << 20)

struct program {
    pid_t pid;
    int in;
    FILE *out;
    char *said;
    struct python_constants constants;
    uint64_t bias;
    struct python_process process;
    size_t n_threads, n_frames;
};

static void program_start(struct program *program, const char *python)
{
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    program->pid = fork();
    if (!program->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(python, python, SCRIPT, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    program->in = in[1];
    program->out = fdopen(out[0], "r");
    memory_pid = program->pid;
}

static void program_stop(struct program *program)
{
    close(program->in);
    fclose(program->out);
    free(program->said);
    kill(program->pid, SIGKILL);
    waitpid(program->pid, NULL, 0);
}

/* The file of a mapping: what the symbolizer does at its look at a process. 0: it is Python. */
static int program_open_file(struct program *program, const char *path, uint64_t start,
                             uint64_t offset, enum runtime_refusal *why)
{
    struct elf elf;
    uint64_t address;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error =
        fd < 0 || elf_open(fd, &elf) ? -ENOENT : python_file_open(&elf, &program->constants, why);
    if (!error)
        error = elf_address_of_offset(&elf, offset, &address) ? 0 : -ENOENT;
    if (!error)
        program->bias = start - address;
    if (fd >= 0)
        close(fd);
    return error;
}

static int program_find(struct program *program, enum runtime_refusal *why)
{
    char path[64], line[4096], file[4096];
    unsigned long start, offset;
    int error = -ENOENT;
    snprintf(path, sizeof(path), "/proc/%d/maps", program->pid);
    FILE *maps = fopen(path, "r");
    assert_non_null(maps);
    while (error == -ENOENT && fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%*x r-xp %lx %*s %*s %4095s", &start, &offset, file) == 3)
            error = program_open_file(program, file, start, offset, why);
    fclose(maps);
    return error;
}

static size_t list_read(const struct program *program, uint64_t tp, struct record_frame *frames)
{
    struct python_list list;
    size_t n = 0;
    int outcome = python_list_begin(&program->process, tp, &list);
    while (outcome == RUNTIME_LIST_GOES_ON && n < FRAMES_MAX) {
        outcome = python_list_next(&program->process, &list);
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
    memory_open(&memory, REQUEST);
    struct arena arena;
    char line[4096];
    size_t n = list_read(program, tp, frames);
    assert_int_equal(n, n_said);
    arena_init(&arena, ARENA);
    struct runtime_names out = {.arena = &arena, .names = names};
    memory_calls = 0;
    assert_int_equal(python_names(&program->constants, &program->process, &memory, frames, n, &out),
                     0);
    assert_in_range(memory_calls, 1, 16);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(fgets(line, sizeof(line), program->out));
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
    while (fgets(line, sizeof(line), program->out) && strcmp(line, "ready\n"))
        fputs(line, all);
    fclose(all);
    fclose(program->out);
    program->said = said;
    program->out = fmemopen(said, size, "r");
    assert_non_null(program->out);
}

static void compare_program(struct program *program)
{
    char line[4096];
    unsigned long tp, tid, n;
    while (fgets(line, sizeof(line), program->out)) {
        if (sscanf(line, "thread %lu %lu %lu", &tp, &tid, &n) != 3)
            fail_msg("not understood: %s", line);
        compare_thread(program, tp, n);
    }
}

static void compare_python(const char *python)
{
    struct program program = {0};
    struct runtime_memory memory;
    memory_open(&memory, REQUEST);
    enum runtime_refusal why = RUNTIME_REFUSAL_NONE;
    program_start(&program, python);
    ungetc(fgetc(program.out), program.out); /* a thread has said something */
    int error = program_find(&program, &why);
    if (error) { /* 3.7 and older */
        program_stop(&program);
        print_message("%s: refused, %d\n", python, why);
        assert_true(strstr(python, "/3.6.") || strstr(python, "/3.7."));
        return;
    }
    error = python_attach(&program.constants, program.bias, &memory, &program.process, &why);
    if (error)
        fail_msg("%s: python_attach() = %d, %d", python, error, why);
    print_message("%s: %x, attached with %zu bytes in %zu calls, slot %ld/%x, variable %d\n",
                  python, program.constants.layout.version, REQUEST - memory.bytes_left,
                  memory_calls, (long)program.process.slot, program.process.slot_in_array,
                  program.process.current.thread_local_model);
    program_hear(&program);
    compare_program(&program);
    program_stop(&program);
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
