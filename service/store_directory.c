/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By descriptors: whoever may write to a directory on the way could otherwise put a link in place
 * of what was just made, and get any directory of root's.
 */
#include "service/store_directory.h"
#include "base/fd.h"
#include "base/log.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Opens `name` in `parent`; makes it if it is missing, and follows no link then. */
static int directory_enter(int parent, const char *name, bool is_last)
{
    int flags = (is_last ? O_RDONLY : O_PATH) | O_DIRECTORY | O_CLOEXEC;
    if (mkdirat(parent, name, is_last ? 0700 : 0755) == 0)
        flags |= O_NOFOLLOW;
    else if (errno != EEXIST)
        return -errno;
    int fd = openat(parent, name, flags);
    return fd < 0 ? -errno : fd;
}

/* Negative errno. */
static int directory_open(const char *directory)
{
    char path[PATH_MAX], *rest = path, *name;
    if ((size_t)snprintf(path, sizeof(path), "%s", directory) >= sizeof(path))
        return -ENAMETOOLONG;
    int fd = open(*path == '/' ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && (name = strsep(&rest, "/"))) {
        if (!*name)
            continue;
        int parent = fd;
        fd = directory_enter(parent, name, !rest || !rest[strspn(rest, "/")]);
        close(parent);
    }
    return fd;
}

/* Calls for each name in the directory until it says false. */
static bool directory_each(int fd, bool (*call)(int fd, const char *name, const void *context),
                           const void *context)
{
    bool all = true;
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = again >= 0 ? fdopendir(again) : NULL;
    if (!stream) {
        fd_close(again);
        return false;
    }
    for (const struct dirent *entry; all && (entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            all = call(fd, entry->d_name, context);
    closedir(stream);
    return all;
}

static bool is_of_store(int fd, const char *name, const void *context)
{
    struct stat status;
    (void)context;
    bool is_own = strcmp(name, "lock") == 0 || strncmp(name, "pages.token", 11) == 0 ||
                  strncmp(name, "spanprof", strlen("spanprof")) == 0;
    return is_own && fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           (S_ISREG(status.st_mode) || S_ISSOCK(status.st_mode));
}

static bool give_file(int fd, const char *name, const void *context)
{
    const struct privileges *owner = context;
    return fchownat(fd, name, owner->uid, owner->gid, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Nobody but root can have put anything into it. */
static bool directory_is_root_s(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_uid == 0 && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

static void directory_give(int fd, const char *directory, const struct privileges *owner)
{
    if (!directory_is_root_s(fd))
        return;
    if (!directory_each(fd, is_of_store, NULL))
        log_warn("main",
                 "%s belongs to root and holds other files, so it stays root's: the service, which "
                 "runs as user %u, needs a directory of its own",
                 directory, owner->uid);
    else if (!directory_each(fd, give_file, owner) || fchown(fd, owner->uid, owner->gid) < 0)
        log_warn("main", "%s cannot be given to user %u: %s", directory, owner->uid,
                 strerror(errno));
    else
        log_info("main", "%s is given to user %u, whom the service runs as", directory, owner->uid);
}

void store_directory_prepare(const char *directory, const struct privileges *owner)
{
    _cleanup_fd_ int fd = directory_open(directory);
    if (fd >= 0 && geteuid() == 0 && owner->uid != 0)
        directory_give(fd, directory, owner); /* else the service says what is missing */
}
