/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8 maps the builtins a second time, near to the code that it makes, from the same place of the
 * same file. The text of the maps tells where.
 */
#include "agent-bpf/runtimes/v8/v8_attach.h"
#include "agent-bpf/files/proc_maps.h"
#include <errno.h>

#define BUILTINS_BYTES_MAX (64u << 20)

static int builtins_by_variables(const struct v8_file *file, uint64_t load_bias,
                                 struct runtime_memory *memory, struct v8_range *builtins)
{
    uint64_t start = 0;
    uint32_t size = 0;
    struct reader_range ranges[] = {
        {load_bias + file->builtins_variable, &start, sizeof(start), 0},
        {load_bias + file->builtins_bytes_variable, &size, sizeof(size), 0},
    };
    if (!file->builtins_variable || !file->builtins_bytes_variable)
        return 0; /* they stay native code */
    int error = memory->read(memory->context, ranges, 2);
    if (error || ranges[0].error || ranges[1].error)
        return error ? error : -EAGAIN;
    if (!start || !size)
        return -EAGAIN;
    if (size <= BUILTINS_BYTES_MAX && start <= UINT64_MAX - size)
        *builtins = (struct v8_range){start, start + size};
    return 0;
}

static bool same_file(const struct proc_map *a, const struct proc_map *b)
{
    return a->inode && a->inode == b->inode && a->device_major == b->device_major &&
           a->device_minor == b->device_minor;
}

/* The code map whose file holds the builtins. */
static bool find_map(struct bytes maps, uint64_t address, struct proc_map *found)
{
    while (proc_maps_next(&maps, found))
        if (found->executable && address >= found->start && address < found->end)
            return true;
    return false;
}

static void find_second(struct bytes maps, struct v8_process *process)
{
    struct v8_range *first = &process->builtins[0];
    struct proc_map own, map;
    if (!find_map(maps, first->start, &own))
        return;
    uint64_t offset = first->start - own.start + own.offset, size = first->end - first->start;
    while (proc_maps_next(&maps, &map)) {
        if (!map.executable || map.start == own.start || !same_file(&map, &own) ||
            offset < map.offset || offset - map.offset >= map.end - map.start)
            continue;
        uint64_t start = map.start + (offset - map.offset);
        uint64_t end = map.end - start < size ? map.end : start + size;
        process->builtins[1] = (struct v8_range){start, end};
        return;
    }
}

int v8_attach(const struct v8_file *file, uint64_t load_bias, struct runtime_memory *memory,
              struct v8_process *process)
{
    *process = file->process;
    if (file->builtins)
        process->builtins[0] = (struct v8_range){load_bias + file->builtins,
                                                 load_bias + file->builtins + file->builtins_bytes};
    else {
        int error = builtins_by_variables(file, load_bias, memory, &process->builtins[0]);
        if (error)
            return error;
    }
    if (process->builtins[0].end)
        find_second(memory->maps, process);
    return 0;
}
