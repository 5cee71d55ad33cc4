/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/rigs/symbolizer_rig.h"
#include "agent-bpf/contexts/elastic_socket.h"
#include "agent-bpf/control.h"
#include "base/clock.h"
#include "test/support/rigs/reader_rig.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static void on_answer(void *context, struct symbolizer_answer *answer)
{
    struct rig *rig = context;
    rig->answers[answer->message.kind]++;
    process_table_answer(rig->table, &answer->message);
    if (rig->answered)
        rig->answered(rig, &answer->message);
    symbolizer_answer_free(answer);
}

static void on_correlated(void *context, const struct symbolizer_process *process, int fd)
{
    struct rig *rig = context;
    if ((pid_t)process->pid != rig->correlated_pid) {
        close(fd);
        return;
    }
    if (rig->correlated_fd >= 0)
        close(rig->correlated_fd);
    rig->correlated_fd = fd;
    rig->correlations++;
}

void rig_open(struct rig *rig)
{
    *rig = (struct rig){.contexts_map_fd = -1, .runtimes_map_fd = -1, .correlated_fd = -1};
    MUST(!loop_open(&rig->loop));
    symbolizer_queue_init(&rig->requests);
    MUST(!process_table_open(&rig->requests, &rig->table));
    int ledger_fd = symbolizer_ledger_make();
    MUST(!symbolizer_ledger_open(ledger_fd, &rig->ledger));
    close(ledger_fd);
    MUST(!symbolizer_client_open(
        &(struct symbolizer_client_settings){
            .loop = rig->loop, .answered = on_answer, .correlated = on_correlated, .context = rig},
        &rig->client));
}

void rig_close(struct rig *rig)
{
    rig_stop(rig);
    if (rig->correlated_fd >= 0)
        close(rig->correlated_fd);
    symbolizer_client_close(rig->client);
    process_table_close(rig->table);
    symbolizer_queue_deinit(&rig->requests);
    symbolizer_ledger_close(rig->ledger);
    loop_close(rig->loop);
}

struct supervised { /* in the symbolizer's process */
    struct symbolizer *symbolizer;
    pid_t reader;
    void (*connecting)(void);
};

/* As a broker does it. */
static int connect_agent(void *context, uint32_t pid, struct bytes path, int answer_fd)
{
    const struct supervised *process = context;
    pid_t broker = fork();
    if (broker == 0) {
        int fd = -1;
        struct elastic_socket socket;
        struct control_message answer = {.kind = CONTROL_CONNECTED};
        if (process->connecting)
            process->connecting();
        answer.outcome = elastic_socket_become(pid, path, &socket);
        if (!answer.outcome)
            answer.outcome = elastic_socket_connect(&socket, &fd);
        _exit(control_send(answer_fd, &answer, fd) != 0);
    }
    close(answer_fd);
    return broker < 0 ? -1 : 0;
}

/* ---- in the symbolizer's process ---- */

/* As the supervisor does: the lost one is left to itself. */
static void replace_reader(void *context, uint64_t asked_ns)
{
    struct supervised *process = context;
    (void)asked_ns;
    kill(process->reader, SIGKILL);
    symbolizer_reader(process->symbolizer, reader_rig_start(&process->reader), 0);
}

static void run_symbolizer(const struct rig *rig, int socket)
{
    struct loop *loop;
    struct supervised process = {.connecting = rig->connecting};
    struct symbolizer_settings settings = {.socket = socket,
                                           .kallsyms_fd =
                                               open("/proc/kallsyms", O_RDONLY | O_CLOEXEC),
                                           .contexts_map_fd = rig->contexts_map_fd,
                                           .runtimes_map_fd = rig->runtimes_map_fd,
                                           .runtime_cache_bytes = (size_t)16 << 20,
                                           .unwind = rig->unwind,
                                           .ledger = rig->ledger,
                                           .sources = ~0u,
                                           .reader_overdue = replace_reader,
                                           .context = &process,
                                           .lines = true,
                                           .elastic_correlation = true,
                                           .connect_agent = connect_agent};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MUST(!rig->rights || !privileges_drop(rig->rights));
    MUST(!loop_open(&loop));
    settings.loop = loop;
    MUST(!symbolizer_open(&settings, &process.symbolizer));
    symbolizer_reader(process.symbolizer, reader_rig_start(&process.reader), 0);
    loop_run(loop);
    symbolizer_close(process.symbolizer);
    loop_close(loop);
    _exit(0);
}

void rig_start(struct rig *rig)
{
    int sockets[2];
    MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets));
    rig->symbolizer = fork();
    MUST(rig->symbolizer >= 0);
    if (!rig->symbolizer) {
        close(sockets[0]);
        run_symbolizer(rig, sockets[1]);
    }
    close(sockets[1]);
    MUST(!symbolizer_client_attach(rig->client, sockets[0]));
}

void rig_stop(struct rig *rig)
{
    if (!rig->symbolizer)
        return;
    kill(rig->symbolizer, SIGKILL);
    waitpid(rig->symbolizer, NULL, 0);
    rig->symbolizer = 0;
    symbolizer_client_detach(rig->client);
}

void rig_round(struct rig *rig)
{
    struct list requests = LIST_INIT(requests);
    process_table_request_changed(rig->table);
    symbolizer_queue_take(&rig->requests, &requests);
    symbolizer_client_submit(rig->client, &requests);
    loop_once(rig->loop, 10);
}

bool rig_until(struct rig *rig, bool (*done)(struct rig *rig), unsigned timeout_ms)
{
    uint64_t end_ns = clock_monotonic_ns() + timeout_ms * NS_PER_MS;
    while (!done(rig) && clock_monotonic_ns() < end_ns)
        rig_round(rig);
    return done(rig);
}

bool rig_wait(struct rig *rig, enum symbolizer_kind kind, unsigned count, unsigned timeout_ms)
{
    uint64_t end_ns = clock_monotonic_ns() + timeout_ms * NS_PER_MS;
    while (rig->answers[kind] < count && clock_monotonic_ns() < end_ns)
        rig_round(rig);
    return rig->answers[kind] >= count;
}

void rig_send(struct rig *rig, const struct symbolizer_message *message)
{
    struct list requests = LIST_INIT(requests);
    struct symbolizer_request *request = symbolizer_request_make(message);
    MUST(request);
    list_append(&requests, &request->link);
    symbolizer_client_submit(rig->client, &requests);
}
