/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where several users may write to a directory, any of them may make a socket of any name there
 * before the one who should, and would get everything that is sent. The kernel says who it was: the
 * user at listen(). Root and our own user are believed, as they could read all of it anyway.
 *
 * The owner of the socket's directory is believed too, because a Collector's socket usually lies in
 * a directory of its own, as /run/otelcol; a receiver of ours gives its socket to that owner as
 * well. But in /tmp anybody can have made that directory. So the way to it counts: each directory
 * and each link on it lies in a directory to which only root and our own user may write.
 */
#include "exporter/otlp/listener.h"
#include "base/fd.h"
#include "base/peer.h"
#include "config/users.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES (NAME_MAX + 1)
#define LINK_BYTES 512 /* of where a link leads to; longer ones are not followed */

/* Stands for all users of other user namespaces too, and programs share it: it is believed by
 * socket_users alone. */
#define USER_NOBODY 65534

static bool is_own_user(uint32_t uid)
{
    return uid == 0 || (uid == geteuid() && uid != USER_NOBODY);
}

/* ---- the owner of a directory ---- */

struct walk {
    int fd; /* of the directory that was reached */
    struct stat status;
    unsigned links;
};

static bool walk_down(struct walk *walk, const char *name)
{
    int fd = openat(walk->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    fd_closep(&walk->fd);
    walk->fd = fd;
    return fstat(fd, &walk->status) == 0;
}

/* Only root and our own user may put something into it. */
static bool is_guarded(const struct stat *directory)
{
    return is_own_user(directory->st_uid) && !(directory->st_mode & (S_IWGRP | S_IWOTH));
}

static bool walk_along(struct walk *walk, const char *path)
{
    char name[NAME_BYTES], target[LINK_BYTES];
    if (*path == '/' && !walk_down(walk, "/"))
        return false;
    while (*(path += strspn(path, "/"))) {
        size_t len = strcspn(path, "/");
        if (len >= sizeof(name) || !is_guarded(&walk->status))
            return false;
        memcpy(name, path, len);
        name[len] = '\0';
        path += len;
        ssize_t n = readlinkat(walk->fd, name, target, sizeof(target));
        if (n < 0 ? !walk_down(walk, name)
                  : (size_t)n == sizeof(target) || ++walk->links > LISTENER_LINKS_MAX)
            return false;
        if (n < 0)
            continue;
        target[n] = '\0';
        if (!walk_along(walk, target))
            return false;
    }
    return true;
}

static uint32_t directory_owner(const char *socket_path)
{
    char path[sizeof(((struct config_endpoint *)0)->host)];
    struct walk walk = {.fd = -1};
    snprintf(path, sizeof(path), "%s", socket_path);
    char *slash = strrchr(path, '/');
    if (!slash)
        return PEER_UID_UNKNOWN;
    slash[1] = '\0';
    bool is_known = walk_along(&walk, path);
    fd_closep(&walk.fd);
    return is_known ? walk.status.st_uid : PEER_UID_UNKNOWN;
}

/* ---- verbs ---- */

static bool is_believed(uint32_t uid, const char *path, const struct config_users *socket_users)
{
    if (uid == 0 || uid == PEER_UID_UNKNOWN)
        return uid == 0;
    if (socket_users->names.count) /* also if none of them has an account */
        return users_have(socket_users, uid);
    return is_own_user(uid) || (uid != USER_NOBODY && uid == directory_owner(path));
}

bool listener_may_have(int fd, const char *path, const struct config_users *socket_users,
                       char why[LISTENER_WHY_MAX])
{
    uint32_t uid = peer_user(fd);
    if (is_believed(uid, path, socket_users))
        return true;
    if (uid == PEER_UID_UNKNOWN)
        snprintf(why, LISTENER_WHY_MAX, "the kernel does not say who listens there");
    else if (socket_users->names.count)
        snprintf(why, LISTENER_WHY_MAX, "user %u listens there, who is not among socket_users",
                 uid);
    else
        snprintf(why, LISTENER_WHY_MAX,
                 "user %u listens there, who may be a stranger; socket_users: [%u] allows it", uid,
                 uid);
    return false;
}
