/* SPDX-License-Identifier: Apache-2.0 */
#include "service/broker_process.h"
#include "agent-bpf/contexts/elastic_socket.h"
#include "agent-bpf/control.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/break_out.h"
#include "sandbox/calls.h"
#include "service/supervisor_sandbox.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const struct sandbox_call calls[] = {
    SANDBOX_CALL_IS(prctl, 0, PR_GET_PDEATHSIG),
    SANDBOX_CALL_IS(prctl, 0, PR_SET_PDEATHSIG),
    SANDBOX_CALL_IS(prctl, 0, PR_SET_DUMPABLE),
    SANDBOX_CALL_IS(prctl, 0, PR_SET_NO_NEW_PRIVS),
    SANDBOX_CALL_IS(prctl, 0, PR_SET_SECCOMP),
    SANDBOX_CALL(landlock_create_ruleset),
    SANDBOX_CALL(landlock_restrict_self),
    SANDBOX_CALL(capset),
    SANDBOX_CALL(getgroups),
    SANDBOX_CALL(setgroups),
    SANDBOX_CALL(setresgid),
    SANDBOX_CALL(setresuid),
    SANDBOX_CALL_IF(openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY),
    SANDBOX_CALL(openat2),
    SANDBOX_CALL_IS(socket, 0, AF_UNIX),
    SANDBOX_CALL(connect),
    CALLS_OF_MEMORY,
    CALLS_OF_PROCESS,
    CALLS_OF_DESCRIPTORS,
    CALLS_OF_MESSAGES,
};

const struct sandbox_table broker_calls = SANDBOX_TABLE(calls);

/* Once it has the ids of the agent's process. openat2() makes no more than O_PATH descriptors, by
 * Landlock. */
static const struct sandbox_call calls_as_agent[] = {
    SANDBOX_CALL(openat2), SANDBOX_CALL_IS(socket, 0, AF_UNIX),
    SANDBOX_CALL(connect), CALLS_OF_MEMORY,
    CALLS_OF_PROCESS,      CALLS_OF_DESCRIPTORS,
    CALLS_OF_MESSAGES,
};

static int keep_to_connecting(void)
{
    const struct sandbox_places nowhere = {0};
    enum sandbox_support support;
    int error = sandbox_places(&nowhere, &support);
    if (!error)
        error = sandbox_calls(calls_as_agent, sizeof(calls_as_agent) / sizeof(*calls_as_agent));
    if (error)
        log_error("broker", "cannot give up its rights: %s", strerror(-error));
    else
        sandbox_break_out("broker");
    return error;
}

static int connect_as_agent(const struct control_message *wanted, int *fd)
{
    struct elastic_socket socket;
    size_t length = strnlen(wanted->path, sizeof(wanted->path));
    int outcome = elastic_socket_become(wanted->pid, BYTES(wanted->path, length), &socket);
    if (!outcome)
        outcome = keep_to_connecting();
    if (!outcome)
        outcome = elastic_socket_connect(&socket, fd);
    elastic_socket_close(&socket);
    return outcome;
}

int broker_process_run(const struct role_start *start)
{
    const struct broker_handles *handles = &start->broker;
    struct control_message answer = {.kind = CONTROL_CONNECTED};
    int fd = -1;
    if (sandbox_calls(calls, sizeof(calls) / sizeof(*calls)))
        return EXIT_FAILURE;
    answer.outcome = connect_as_agent(&handles->wanted, &fd);
    int error = control_send(handles->answer_fd, &answer, fd);
    fd_close(fd);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
