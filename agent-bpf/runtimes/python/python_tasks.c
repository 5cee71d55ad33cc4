/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/python/python_tasks.h"
#include <errno.h>

#define SECTION    ".AsyncioDebug"
#define WORD       8
#define OFFSET_MAX ((uint64_t)UINT8_MAX * WORD)

/* The section, in its order: offsets in TaskObj, PyInterpreterState and PyThreadState. */
struct asyncio_offsets {
    uint64_t task_size, task_name, awaited_by, is_task, awaited_by_is_set, coroutine, task_node;
    uint64_t interpreter_size, interpreter_tasks;
    uint64_t thread_size, running_loop, running_task, thread_tasks;
};

static bool word_fits(uint64_t at, uint64_t size)
{
    return at % WORD == 0 && at <= OFFSET_MAX && at < size && size - at >= WORD;
}

/* What is read of a task is read in one piece. */
static bool offsets_fit(const struct asyncio_offsets *offsets)
{
    return word_fits(offsets->task_name, offsets->task_size) && offsets->task_size <= OFFSET_MAX &&
           offsets->task_size % WORD == 0 && offsets->task_name <= PYTHON_READ_MAX - 2 * WORD &&
           offsets->is_task < offsets->task_name &&
           word_fits(offsets->running_task, offsets->thread_size) && offsets->running_task;
}

int python_tasks_open(const struct elf *elf, struct python_tasks *tasks)
{
    struct asyncio_offsets offsets;
    Elf64_Shdr section;
    *tasks = (struct python_tasks){0};
    if (elf_section_named(elf, SECTION, &section))
        return -ENOENT;
    if (section.sh_size != sizeof(offsets) ||
        elf_read(elf, section.sh_offset, &offsets, sizeof(offsets)) || !offsets_fit(&offsets))
        return -ENOTSUP;
    *tasks = (struct python_tasks){.thread_task = (uint8_t)(offsets.running_task / WORD),
                                   .task_size = (uint8_t)(offsets.task_size / WORD),
                                   .task_name = (uint8_t)(offsets.task_name / WORD),
                                   .is_task = (uint8_t)offsets.is_task};
    return 0;
}
