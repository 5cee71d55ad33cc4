/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source: the kernel's userspace-api/landlock.rst. Headers of older kernels lack the newer rights,
 * so they are named here; what the running kernel does not know is left out.
 */
#include "sandbox/sandbox.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* By version of the interface */
#define ACCESS_V1   ((UINT64_C(1) << 13) - 1)
#define ACCESS_V2   (UINT64_C(1) << 13) /* REFER */
#define ACCESS_V3   (UINT64_C(1) << 14) /* TRUNCATE */
#define ACCESS_V5   (UINT64_C(1) << 15) /* IOCTL_DEV */
#define NET_V4      UINT64_C(3)         /* BIND_TCP, CONNECT_TCP */
#define NET_CONNECT UINT64_C(2)
#define SCOPED_V6   UINT64_C(3) /* abstract Unix sockets, signals */
#define RULE_PORT   2

#define READ_ALL (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define NEVER                                                                                      \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |   \
     ACCESS_V5)
#define OF_FILES (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_V3)

struct ruleset { /* struct landlock_ruleset_attr as of version 6 */
    uint64_t files, net, scoped;
};

struct port_rule {
    uint64_t access, port;
};

static struct ruleset ruleset_of(long version)
{
    return (struct ruleset){
        .files = ACCESS_V1 | (version >= 2 ? ACCESS_V2 : 0) | (version >= 3 ? ACCESS_V3 : 0) |
                 (version >= 5 ? ACCESS_V5 : 0),
        .net = version >= 4 ? NET_V4 : 0,
        .scoped = version >= 6 ? SCOPED_V6 : 0,
    };
}

static size_t ruleset_size(long version)
{
    return version >= 6 ? sizeof(struct ruleset) : version >= 4 ? 16 : 8;
}

static int path_allow(int ruleset_fd, const struct ruleset *ruleset,
                      const struct sandbox_path *path)
{
    struct stat status;
    _cleanup_fd_ int fd = open(path->path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (fstat(fd, &status) < 0)
        return -errno;
    uint64_t access = path->access == SANDBOX_READ ? READ_ALL : ruleset->files & ~NEVER;
    if (!S_ISDIR(status.st_mode))
        access &= OF_FILES;
    struct landlock_path_beneath_attr rule = {.allowed_access = access & ruleset->files,
                                              .parent_fd = fd};
    return syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
               ? -errno
               : 0;
}

static int port_allow(int ruleset_fd, uint16_t port)
{
    struct port_rule rule = {.access = NET_CONNECT, .port = port};
    return syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PORT, &rule, 0) < 0 ? -errno : 0;
}

static int ruleset_enter(const struct sandbox_places *places, long version)
{
    const struct ruleset ruleset = ruleset_of(version);
    _cleanup_fd_ int fd =
        (int)syscall(SYS_landlock_create_ruleset, &ruleset, ruleset_size(version), 0);
    int error = fd < 0 ? -errno : 0;
    for (size_t i = 0; !error && i < places->n_paths; i++)
        error = path_allow(fd, &ruleset, &places->paths[i]);
    for (size_t i = 0; !error && ruleset.net && i < places->n_ports; i++)
        error = port_allow(fd, places->ports[i]);
    if (!error && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        error = -errno;
    if (!error && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        error = -errno;
    return error;
}

int sandbox_places(const struct sandbox_places *places, enum sandbox_support *support)
{
    long version = -1;
#ifndef SANDBOX_OFF
    version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
#endif
    *support = version < 1 ? SANDBOX_NONE : version < 4 ? SANDBOX_PATHS : SANDBOX_PATHS_AND_PORTS;
    return version < 1 ? 0 : ruleset_enter(places, version);
}
