/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A program of a runtime, and what the symbolizer does for it: its runtime's files are found, and
 * attached to. The caller is single-threaded.
 */
#include "test/support/runtimes/python_memory.h"
#include "agent-bpf/runtimes/runtime_reader.h"
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNTIME_REQUEST ((size_t)1 << 20)

struct runtime_program {
    const struct runtime_reader *reader;
    pid_t pid;
    int in; /* as long as it is open, the program runs */
    FILE *out;
    struct runtime_constants *constants; /* NULL: it is none that can be read */
    uint64_t bias;
    struct runtime_process entry;
};

static inline void program_start(struct runtime_program *program, const char *path,
                                 const char *script)
{
    int in[2], out[2];
    assert(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
    program->pid = memory_pid = fork();
    if (!program->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(path, path, script, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    program->in = in[1];
    program->out = fdopen(out[0], "r");
    assert(program->out);
}

/* Until it says its first line. */
static inline void program_await(struct runtime_program *program)
{
    char line[256];
    assert(fgets(line, sizeof(line), program->out));
}

/* A file of a part of the runtime fills its section of the entry. */
static inline void program_take_part(struct runtime_program *program, const struct elf *elf)
{
    struct runtime_constants *constants;
    enum runtime_refusal why;
    for (const struct runtime_reader *part = runtime_readers; part->open; part++)
        if (part->runtime == program->reader->runtime && !part->kinds &&
            !part->open(elf, &constants, &why)) {
            assert(!part->attach(constants, 0, NULL, &program->entry, &why));
            part->close(constants);
        }
}

static inline void program_take_runtime(struct runtime_program *program, const struct elf *elf,
                                        uint64_t start, uint64_t offset, enum runtime_refusal *why)
{
    struct runtime_constants *constants = NULL;
    uint64_t address;
    if (!program->constants && !program->reader->open(elf, &constants, why) &&
        elf_address_of_offset(elf, offset, &address)) {
        program->constants = constants;
        program->bias = start - address;
    }
    program_take_part(program, elf);
}

typedef void program_file(void *context, const struct elf *elf, const struct stat *status);

/* Looks at the file of each mapping of code, and calls for it. *why: the runtime's files are
 * refused. */
static inline void program_take_files(struct runtime_program *program, enum runtime_refusal *why,
                                      program_file *call, void *context)
{
    char path[64], line[4096], file[4096];
    unsigned long start, offset;
    program->entry = (struct runtime_process){.sections = program->reader->section};
    snprintf(path, sizeof(path), "/proc/%d/maps", program->pid);
    FILE *all = fopen(path, "r");
    assert(all);
    while (fgets(line, sizeof(line), all)) {
        struct stat status;
        struct elf elf;
        if (sscanf(line, "%lx-%*x r-xp %lx %*s %*s %4095s", &start, &offset, file) != 3)
            continue;
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && !fstat(fd, &status) && !elf_open(fd, &elf)) {
            program_take_runtime(program, &elf, start, offset, why);
            if (call)
                call(context, &elf, &status);
        }
        close(fd);
    }
    fclose(all);
}

/* The outcome of the reader's attach, which fills program->entry; -ENOENT: not a version that is
 * read. */
static inline int program_attach_in(struct runtime_program *program, struct runtime_memory *memory,
                                    enum runtime_refusal *why)
{
    memory_open(memory, RUNTIME_REQUEST);
    if (!program->constants)
        return -ENOENT;
    return program->reader->attach(program->constants, program->bias, memory, &program->entry, why);
}

static inline void program_end(struct runtime_program *program)
{
    kill(program->pid, SIGKILL);
    waitpid(program->pid, NULL, 0);
    close(program->in);
    fclose(program->out);
    if (program->constants)
        program->reader->close(program->constants);
}
