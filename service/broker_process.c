/* SPDX-License-Identifier: Apache-2.0 */
#include "service/broker_process.h"
#include "agent-bpf/contexts/elastic_socket.h"
#include "agent-bpf/control.h"
#include "base/fd.h"
#include "sandbox/break_out.h"
#include "sandbox/calls.h"
#include "service/supervisor_sandbox.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const struct sandbox_call calls[] = {
    SANDBOX_CALL_IS(prctl, 0, PR_GET_DUMPABLE),
    SANDBOX_CALL_IS(prctl, 0, PR_SET_DUMPABLE),
    SANDBOX_CALL_IS(prctl, 0, PR_GET_PDEATHSIG),
    SANDBOX_CALL_IS(prctl, 0, PR_SET_PDEATHSIG),
    SANDBOX_CALL(capget),
    SANDBOX_CALL(capset),
    SANDBOX_CALL(getgroups),
    SANDBOX_CALL(setgroups),
    SANDBOX_CALL(setfsgid),
    SANDBOX_CALL(setfsuid),
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

int broker_process_run(const struct role_start *start)
{
    const struct broker_handles *handles = &start->broker;
    struct control_message answer = {.kind = CONTROL_CONNECTED};
    size_t length = strnlen(handles->wanted.path, sizeof(handles->wanted.path));
    int fd = -1;
    if (sandbox_calls(calls, sizeof(calls) / sizeof(*calls)))
        return EXIT_FAILURE;
    sandbox_break_out("broker");
    answer.outcome =
        elastic_socket_connect(handles->wanted.pid, BYTES(handles->wanted.path, length), &fd);
    int error = control_send(handles->answer_fd, &answer, fd);
    fd_close(fd);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
