/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbolizer_process.h"
#include "agent-bpf/supervisor/supervisor_client.h"
#include "agent-bpf/symbolizer/symbolizer.h"
#include "base/log.h"
#include "base/loop.h"
#include "service/sampling_config.h"
#include <stdlib.h>

struct symbolizer_process {
    struct supervisor_client child;
    struct loop *loop;
};

static void symbolizer_process_stop(struct supervisor_client *child)
{
    loop_stop(container_of(child, struct symbolizer_process, child)->loop);
}

int symbolizer_process_run(const struct generation *generation,
                           const struct symbolizer_handles *handles)
{
    struct symbolizer_process process = {.child.stop = symbolizer_process_stop};
    struct symbolizer *symbolizer = NULL;
    struct symbolizer_settings settings = {.socket = handles->service_fd,
                                           .contexts_map_fd = handles->contexts_fd,
                                           .unwind = &handles->unwind,
                                           .ledger = generation->ledger};
    sampling_config_symbolizer(generation->config, &settings);
    log_set_process("symbolizer");
    int error = loop_open(&process.loop);
    settings.loop = process.loop;
    if (!error)
        error = supervisor_client_start(&process.child, process.loop, handles->control_fd);
    if (!error)
        error = symbolizer_open(&settings, &symbolizer);
    if (!error)
        error = loop_run(process.loop);
    symbolizer_close(symbolizer);
    supervisor_client_stop(&process.child);
    loop_close(process.loop);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
