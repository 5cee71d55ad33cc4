/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/supervisor/supervisor_notify.h"
#include "base/log.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SIGNS_A_LIMIT 3 /* two may be lost or late */

static int notify_fd = -1;
static uint64_t interval_ns, sent_ns;

/* 0: no watchdog, or another process's. */
static uint64_t watchdog_ns(void)
{
    const char *limit_us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!limit_us || (pid && strtol(pid, NULL, 10) != getpid()))
        return 0;
    return strtoull(limit_us, NULL, 10) * 1000;
}

static int notify_connect(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if ((*path != '/' && *path != '@') || n >= sizeof(to.sun_path))
        return -EINVAL;
    memcpy(to.sun_path, path, n);
    if (*path == '@')
        to.sun_path[0] = '\0'; /* abstract */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (connect(fd, (const struct sockaddr *)&to, size) == 0)
        return fd;
    int error = -errno;
    close(fd);
    return error;
}

void supervisor_notify_open(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    interval_ns = path ? watchdog_ns() / SIGNS_A_LIMIT : 0;
    if (!interval_ns || notify_fd >= 0)
        return;
    notify_fd = notify_connect(path);
    if (notify_fd < 0)
        log_warn("supervisor", "cannot reach the service manager's watchdog at %s: %s", path,
                 strerror(-notify_fd));
}

void supervisor_notify_alive(uint64_t now_ns)
{
    static const char sign[] = "WATCHDOG=1";
    if (notify_fd < 0 || (sent_ns && now_ns - sent_ns < interval_ns))
        return;
    if (send(notify_fd, sign, sizeof(sign) - 1, MSG_NOSIGNAL) > 0)
        sent_ns = now_ns; /* else with the next tick */
}
