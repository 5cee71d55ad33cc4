/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A Python program, and what the symbolizer does for it: its files' unwind rows go into the kernel,
 * and the entry by which the tick reads its frames. The caller is single-threaded.
 */
#include "test/support/runtimes/python_memory.h"
#include "agent-bpf/runtimes/python/python_attach.h"
#include "agent-bpf/runtimes/python/python_names.h"
#include "agent-bpf/sampler/sampler.h"
#include "agent-bpf/unwind/eh_frame.h"
#include <assert.h>
#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define PYTHON_REQUEST ((size_t)1 << 20)

struct python_program {
    pid_t pid;
    int in;
    struct python_constants constants; /* version 0: it is no Python that can be read */
    uint64_t bias;
    struct python_process process;
    struct unwind_loader *loader;
};

static inline void program_start(struct python_program *program, const char *python,
                                 const char *script)
{
    int in[2], out[2];
    char byte = 0;
    assert((pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC)) == 0);
    program->pid = memory_pid = fork();
    if (!program->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(python, python, script, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    program->in = in[1];
    while (byte != '\n')
        assert((read(out[0], &byte, 1)) == 1);
    close(out[0]);
}

/* What symbolizer_tables.c does with a file: all of its rows go into the kernel. */
static inline void program_load_rows(struct python_program *program, const struct elf *elf,
                                     const struct stat *status)
{
    int generation = 0;
    struct unwind_file file = {.inode = status->st_ino, .size = (uint64_t)status->st_size};
    struct unwind_executable executable = {.id = unwind_loader_id(program->loader),
                                           .how = UNWIND_BY_ROWS};
    struct eh_frame *frame;
    uint64_t address = 0, done = 0;
    ioctl(elf->fd, FS_IOC_GETVERSION, &generation);
    file.generation = (uint32_t)generation;
    file.device = (uint32_t)(major(status->st_dev) << 20 | minor(status->st_dev));
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
            executable.segments[executable.n_segments++] = (struct unwind_segment){
                .offset = segment->p_offset & ~0xfffull,
                .end = (segment->p_offset + segment->p_filesz + 0xfff) & ~0xfffull,
                .bias = segment->p_vaddr - segment->p_offset};
    }
    if (eh_frame_open(elf, &frame))
        return;
    assert((unwind_loader_put_file(program->loader, &file, &executable)) == 0);
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        address = segment->p_vaddr & ~(uint64_t)(UNWIND_PAGE_BYTES - 1);
        for (; address < segment->p_vaddr + segment->p_memsz; address += UNWIND_PAGE_BYTES) {
            struct unwind_page page;
            if (address < done || eh_frame_page(frame, address, &page))
                continue;
            unwind_loader_put_page(program->loader, executable.id, &page, 1);
            unwind_page_close(&page);
            done = address + UNWIND_PAGE_BYTES;
        }
    }
    eh_frame_close(frame);
}

static inline void program_take_file(struct python_program *program, const char *path,
                                     uint64_t start, uint64_t offset)
{
    struct python_constants constants;
    enum runtime_refusal why;
    struct stat status;
    struct elf elf;
    uint64_t address;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) || elf_open(fd, &elf)) {
        close(fd);
        return;
    }
    if (!python_file_open(&elf, &constants, &why) &&
        elf_address_of_offset(&elf, offset, &address)) {
        program->constants = constants;
        program->bias = start - address;
    }
    program_load_rows(program, &elf, &status);
    close(fd);
}

/* False: not a version that is read. */
static inline bool program_attach(struct python_program *program, struct sampler *sampler)
{
    struct runtime_memory memory;
    memory_open(&memory, PYTHON_REQUEST);
    struct runtime_process entry = {.sections = RUNTIME_SECTION_PYTHON};
    char path[64], line[4096], file[4096];
    unsigned long start, offset;
    enum runtime_refusal why;
    struct unwind_maps maps = sampler_unwind_maps(sampler);
    assert((unwind_loader_open(&maps, &program->loader)) == 0);
    snprintf(path, sizeof(path), "/proc/%d/maps", program->pid);
    FILE *all = fopen(path, "r");
    while (fgets(line, sizeof(line), all))
        if (sscanf(line, "%lx-%*x r-xp %lx %*s %*s %4095s", &start, &offset, file) == 3)
            program_take_file(program, file, start, offset);
    fclose(all);
    if (!program->constants.layout.version)
        return false;
    int error = python_attach(&program->constants, program->bias, &memory, &entry.python, &why);
    assert(!error);
    program->process = entry.python;
    uint32_t pid = (uint32_t)program->pid;
    assert((bpf_map_update_elem(sampler_runtimes_fd(sampler), &pid, &entry, BPF_ANY)) == 0);
    return true;
}

static inline void program_stop(struct python_program *program)
{
    kill(program->pid, SIGKILL);
    waitpid(program->pid, NULL, 0);
    close(program->in);
    unwind_loader_close(program->loader);
}
