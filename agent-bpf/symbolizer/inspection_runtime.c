/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executable counts before its libraries: a Go program may load libpython, and a launcher that
 * is nothing by itself loads what it launches.
 */
#include "agent-bpf/symbolizer/inspection.h"
#include <errno.h>

void inspection_add_runtime(struct inspection_runtimes *runtimes, enum runtime runtime,
                            struct bytes path)
{
    runtimes->any = true;
    if (!runtime || runtimes->n == INSPECTION_RUNTIMES_MAX)
        return;
    runtimes->found[runtimes->n] = runtime;
    runtimes->paths[runtimes->n++] = path;
}

static struct bytes inspection_executable(struct inspection *inspection)
{
    struct bytes path;
    int error =
        process_text(&inspection->symbolizer->texts, inspection->process->pid, READER_EXE, &path);
    inspection->unanswered |= error == -EAGAIN;
    return error ? (struct bytes){0} : path;
}

/* The only runtime, so that what makes code and writes of it in a perf map is that. */
static enum runtime inspection_only_runtime(const struct inspection_runtimes *runtimes)
{
    for (size_t i = 1; i < runtimes->n; i++)
        if (runtimes->found[i] != runtimes->found[0])
            return RUNTIME_UNKNOWN;
    bool whole = runtimes->n && runtimes->n < INSPECTION_RUNTIMES_MAX;
    return whole ? runtimes->found[0] : RUNTIME_UNKNOWN;
}

void inspection_choose_runtime(struct inspection *inspection,
                               const struct inspection_runtimes *runtimes)
{
    enum runtime runtime = runtimes->any ? RUNTIME_NATIVE : RUNTIME_UNKNOWN;
    struct bytes executable = {0};
    inspection->process->map_runtime = (uint8_t)inspection_only_runtime(runtimes);
    if (runtimes->n > 1)
        executable = inspection_executable(inspection);
    for (size_t i = 0; i < runtimes->n; i++) {
        inspection->runtime = runtimes->found[i];
        if (executable.len && bytes_equal(runtimes->paths[i], executable))
            return;
        if (runtimes->found[i] < runtime)
            runtime = runtimes->found[i];
    }
    inspection->runtime = runtime;
}
