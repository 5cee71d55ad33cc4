/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A program of a runtime on the real kernel: its files' unwind rows go into the kernel, and the
 * entry by which the tick reads its frames. The caller is single-threaded.
 */
#include "test/support/runtimes/runtime_program.h"
#include "agent-bpf/sampler/sampler.h"
#include "agent-bpf/unwind/eh_frame.h"
#include <bpf/bpf.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

struct sampled_program {
    struct runtime_program runtime;
    struct unwind_loader *loader;
};

/* What symbolizer_tables.c does with a file: all of its rows go into the kernel. */
static inline void program_load_rows(void *context, const struct elf *elf,
                                     const struct stat *status)
{
    struct unwind_loader *loader = context;
    int generation = 0;
    struct unwind_file file = {.inode = status->st_ino, .size = (uint64_t)status->st_size};
    struct unwind_executable executable = {.id = unwind_loader_id(loader), .how = UNWIND_BY_ROWS};
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
    assert((unwind_loader_put_file(loader, &file, &executable)) == 0);
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        address = segment->p_vaddr & ~(uint64_t)(UNWIND_PAGE_BYTES - 1);
        for (; address < segment->p_vaddr + segment->p_memsz; address += UNWIND_PAGE_BYTES) {
            struct unwind_page page;
            if (address < done || eh_frame_page(frame, address, &page))
                continue;
            unwind_loader_put_page(loader, executable.id, &page, 1);
            unwind_page_close(&page);
            done = address + UNWIND_PAGE_BYTES;
        }
    }
    eh_frame_close(frame);
}

/* As program_attach_in(). */
static inline int program_attach(struct sampled_program *program, struct sampler *sampler,
                                 enum runtime_refusal *why)
{
    struct unwind_maps maps = sampler_unwind_maps(sampler);
    struct runtime_program *runtime = &program->runtime;
    struct runtime_memory memory;
    assert(!unwind_loader_open(&maps, &program->loader));
    program_take_files(runtime, why, program_load_rows, program->loader);
    int error = program_attach_in(runtime, &memory, why);
    uint32_t pid = (uint32_t)runtime->pid;
    if (!error)
        assert(!bpf_map_update_elem(sampler_runtimes_fd(sampler), &pid, &runtime->entry, BPF_ANY));
    return error;
}

static inline void program_stop(struct sampled_program *program)
{
    program_end(&program->runtime);
    unwind_loader_close(program->loader);
}
