/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Tests of the supervisor: its children are executions of the test's own program, and share a
 * struct board with it. The test defines service_main() and symbolizer_main(), and begins main()
 * with TAKE_ROLE().
 */
#include "agent-bpf/supervisor/role.h"
#include "agent-bpf/supervisor/supervisor.h"
#include "base/memfd.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct board *board;
static int board_fd;

static int service_main(const struct service_handles *handles);
static int symbolizer_main(const struct symbolizer_handles *handles);

static inline bool board_open(size_t size)
{
    board_fd = memfd_shared("board", size);
    board = memfd_map(board_fd, size);
    return board != NULL;
}

static pid_t supervisor_pid; /* 0: it is reaped */

static inline pid_t supervisor_start(const struct supervisor_settings *settings)
{
    supervisor_pid = fork();
    if (supervisor_pid == 0)
        exit(supervisor_run(settings));
    return supervisor_pid;
}

static inline int board_close(size_t size)
{
    if (supervisor_pid > 0) { /* the test failed; its children end with it */
        kill(supervisor_pid, SIGKILL);
        waitpid(supervisor_pid, NULL, 0);
        supervisor_pid = 0;
    }
    close(board_fd);
    return munmap(board, size);
}

static inline struct role_settings board_given(void)
{
    return (struct role_settings){
        .bytes = BYTES((const void *)&board_fd, sizeof(board_fd)), .fds = &board_fd, .n_fds = 1};
}

static inline int role_main(struct role_start *start, size_t board_size)
{
    memcpy(&board_fd, start->settings.data, sizeof(board_fd));
    buf_close(&start->settings);
    board = memfd_map(board_fd, board_size);
    if (!board)
        return 1;
    return start->role == ROLE_SERVICE ? service_main(&start->service)
                                       : symbolizer_main(&start->symbolizer);
}

#define TAKE_ROLE(argc, argv)                                                                      \
    do {                                                                                           \
        struct role_start start_;                                                                  \
        if (role_take(argc, argv, &start_))                                                        \
            return SERVICE_EXIT_FATAL;                                                             \
        if (start_.role != ROLE_NONE)                                                              \
            return role_main(&start_, sizeof(struct board));                                       \
    } while (0)
