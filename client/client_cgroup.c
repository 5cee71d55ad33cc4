/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client_cgroup.h"
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMOVE_TRIES    50
#define REMOVE_PAUSE_US 20000

static int find_root(char *root, size_t size)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    struct mntent *entry;
    root[0] = '\0';
    while (mounts && !root[0] && (entry = getmntent(mounts)))
        if (strcmp(entry->mnt_type, "cgroup2") == 0 && strlen(entry->mnt_dir) < size)
            snprintf(root, size, "%s", entry->mnt_dir);
    if (mounts)
        endmntent(mounts);
    return root[0] ? 0 : -ENOTSUP;
}

int client_cgroup_make(struct client_cgroup *cgroup)
{
    char root[256];
    int error = find_root(root, sizeof(root));
    if (error)
        return error;
    snprintf(cgroup->name, sizeof(cgroup->name), "/spanprof-record-%d", (int)getpid());
    snprintf(cgroup->directory, sizeof(cgroup->directory), "%s%s", root, cgroup->name);
    if (mkdir(cgroup->directory, 0755) == 0)
        return 0;
    error = -errno;
    cgroup->directory[0] = '\0';
    return error;
}

static int write_pid(const char *directory, const char *pid)
{
    char path[640];
    snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = write(fd, pid, strlen(pid)) < 0 ? -errno : 0;
    close(fd);
    return error;
}

int client_cgroup_enter(const struct client_cgroup *cgroup)
{
    return write_pid(cgroup->directory, "0");
}

/* Processes that outlive the command. */
static void client_cgroup_empty(const struct client_cgroup *cgroup)
{
    char path[640], root[512], pid[32];
    snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup->directory);
    snprintf(root, sizeof(root), "%s", cgroup->directory);
    *strrchr(root, '/') = '\0';
    FILE *file = fopen(path, "re");
    while (file && fgets(pid, sizeof(pid), file))
        (void)write_pid(root, pid);
    if (file)
        fclose(file);
}

void client_cgroup_remove(struct client_cgroup *cgroup)
{
    for (int i = 0; cgroup->directory[0] && i < REMOVE_TRIES; i++) {
        client_cgroup_empty(cgroup);
        if (rmdir(cgroup->directory) == 0 || errno == ENOENT)
            break;
        usleep(REMOVE_PAUSE_US);
    }
    cgroup->directory[0] = '\0';
}
