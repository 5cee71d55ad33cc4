/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A perf event ends silently when its CPU goes offline. Polling the list of online CPUs once a
 * second misses a CPU that goes and comes back in between, hence the uevents.
 */
#include "agent-bpf/sampler/cpus.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define UEVENT_MAX          4096
#define UEVENT_KERNEL_GROUP 1

static const char *parse_number(const char *text, unsigned long *out)
{
    char *end = NULL;
    if (*text < '0' || *text > '9')
        return NULL;
    *out = strtoul(text, &end, 10);
    return *out < CPUS_MAX ? end : NULL;
}

int cpus_parse(const char *text, struct cpus *cpus)
{
    memset(cpus, 0, sizeof(*cpus));
    while (*text && *text != '\n') {
        unsigned long first, last;
        text = parse_number(text, &first);
        if (!text)
            return -EINVAL;
        last = first;
        if (*text == '-')
            text = parse_number(text + 1, &last);
        if (!text || last < first)
            return -EINVAL;
        for (unsigned long cpu = first; cpu <= last; cpu++)
            cpus_add(cpus, (uint32_t)cpu);
        if (*text == ',')
            text++;
        else if (*text && *text != '\n')
            return -EINVAL;
    }
    return 0;
}

int cpus_online(struct cpus *cpus)
{
    char text[4096];
    int fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    int error = n < 0 ? -errno : 0;
    close(fd);
    if (error)
        return error;
    text[n] = '\0';
    return cpus_parse(text, cpus);
}

int cpus_watch(void)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = UEVENT_KERNEL_GROUP};
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

/* "online@/devices/system/cpu/cpu3", then NUL-separated variables, which we do not need. */
static void note_uevent(const char *text, struct cpus *changed)
{
    const char *at = strchr(text, '@');
    unsigned long cpu;
    if (!at || (strncmp(text, "online@", 7) && strncmp(text, "offline@", 8)))
        return;
    const char *prefix = "/devices/system/cpu/cpu";
    if (strncmp(at + 1, prefix, strlen(prefix)))
        return;
    const char *end = parse_number(at + 1 + strlen(prefix), &cpu);
    if (end && *end == '\0')
        cpus_add(changed, (uint32_t)cpu);
}

int cpus_changed(int fd, struct cpus *changed)
{
    char text[UEVENT_MAX + 1];
    for (int i = 0; i < 1000; i++) {
        struct sockaddr_nl from = {0};
        socklen_t from_size = sizeof(from);
        ssize_t n = recvfrom(fd, text, UEVENT_MAX, 0, (struct sockaddr *)&from, &from_size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : CPUS_ALL;
        text[n] = '\0';
        if (from.nl_pid == 0) /* from the kernel, not from a process */
            note_uevent(text, changed);
    }
    return CPUS_ALL;
}
