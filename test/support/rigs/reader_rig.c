/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/rigs/reader_rig.h"
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/reader/reader.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

int reader_rig_start(pid_t *pid)
{
    int sockets[2], started[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) ||
        pipe2(started, O_CLOEXEC))
        abort();
    fflush(NULL);
    *pid = fork();
    if (*pid < 0)
        abort();
    if (*pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(sockets[0]);
        close(started[0]);
        close(started[1]);
        _exit(reader_run(sockets[1]) ? 1 : 0);
    }
    close(sockets[1]);
    close(started[1]);
    char none;
    if (read(started[0], &none, 1)) /* its deadlines begin once it runs */
        abort();
    close(started[0]);
    return sockets[0];
}

void reader_rig_attach(void)
{
    pid_t pid;
    reader_client_open(NULL);
    reader_client_attach(reader_rig_start(&pid));
}
