/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbolizer_process.h"
#include "service/symbolizer_sandbox.h"
#include "agent-bpf/control.h"
#include "agent-bpf/supervisor/supervisor_client.h"
#include "agent-bpf/symbolizer/symbolizer.h"
#include "base/log.h"
#include "base/loop.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct symbolizer_process {
    struct supervisor_client child;
    struct loop *loop;
    struct symbolizer *symbolizer;
};

static void symbolizer_process_stop(struct supervisor_client *child)
{
    loop_stop(container_of(child, struct symbolizer_process, child)->loop);
}

/* The supervisor starts a broker. */
static int connect_by_broker(void *context, uint32_t pid, struct bytes path, int answer_fd)
{
    const struct symbolizer_process *process = context;
    struct control_message message = {.kind = CONTROL_CONNECT, .pid = pid};
    int error = -ENAMETOOLONG;
    if (path.len <= sizeof(message.path)) {
        memcpy(message.path, path.data, path.len);
        error = control_send(process->child.watch.fd, &message, answer_fd);
    }
    close(answer_fd);
    return error;
}

static struct symbolizer_ledger *ledger_of(const struct symbolizer_process_settings *given)
{
    struct symbolizer_ledger *ledger = NULL;
    if (given->ledger_fd >= 0 && symbolizer_ledger_open(given->ledger_fd, &ledger) != 0)
        log_warn("symbolizer", "no memory for the ledger; going on without it");
    return ledger;
}

static void symbolizer_process_reader(struct supervisor_client *child, int fd, unsigned abandoned)
{
    symbolizer_reader(container_of(child, struct symbolizer_process, child)->symbolizer, fd,
                      abandoned);
}

static void symbolizer_process_overdue(void *context, uint64_t asked_ns)
{
    const struct symbolizer_process *process = context;
    supervisor_client_reader_overdue(&process->child, asked_ns);
}

int symbolizer_process_run(const struct role_start *start)
{
    const struct symbolizer_handles *handles = &start->symbolizer;
    struct symbolizer_process process = {
        .child = {.stop = symbolizer_process_stop, .reader = symbolizer_process_reader}};
    struct symbolizer_process_settings given;
    if (start->settings.len != sizeof(given))
        return EXIT_FAILURE;
    memcpy(&given, start->settings.data, sizeof(given));
    struct symbolizer_settings settings = {.socket = handles->service_fd,
                                           .contexts_map_fd = handles->contexts_fd,
                                           .runtimes_map_fd =
                                               given.runtime_frames ? handles->runtimes_fd : -1,
                                           .runtime_cache_bytes = given.runtime_cache_bytes,
                                           .kallsyms_fd = handles->kallsyms_fd,
                                           .unwind = &handles->unwind,
                                           .ledger = ledger_of(&given),
                                           .reader_overdue = symbolizer_process_overdue,
                                           .context = &process,
                                           .sources = given.sources,
                                           .lines = given.lines,
                                           .elastic_correlation = given.elastic_correlation,
                                           .connect_agent = connect_by_broker};
    int error = symbolizer_sandbox_enter();
    if (error)
        log_error("symbolizer", "cannot give up its rights: %s", strerror(-error));
    else
        error = loop_open(&process.loop);
    settings.loop = process.loop;
    if (!error)
        error = symbolizer_open(&settings, &process.symbolizer);
    if (!error)
        error = supervisor_client_start(&process.child, process.loop, handles->control_fd);
    if (!error)
        error = loop_run(process.loop);
    supervisor_client_stop(&process.child);
    symbolizer_close(process.symbolizer);
    loop_close(process.loop);
    symbolizer_ledger_close(settings.ledger);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
