/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client_node.h"
#include "client/client_http.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TRIES    200
#define START_PAUSE_US 50000
#define STOP_TRIES     200
#define STORE_MIB_MIN  1024    /* the default; where less is free the store sees to it itself */
#define STORE_MIB_MAX  1048576 /* that may be configured */

/* No span ever comes here, so a sample that names one does not wait for it. What is kept is all of
 * a week, the longest there is, as long as there is room. */
static const char config_form[] = "receivers:\n"
                                  "  sampler:\n"
                                  "    frequency: %u\n"
                                  "    include: {cgroups: [%s]}\n"
                                  "processors:\n"
                                  "  join: {wait: 10ms}\n"
                                  "exporters:\n"
                                  "  nop:\n"
                                  "extensions:\n"
                                  "  sqlite_storage: {directory: %s/store, max_size_mib: %llu}\n"
                                  "  history: {retention: 168h, max_size_mib: %llu}\n"
                                  "  pages: {endpoint: \"localhost:0\", socket: %s}\n"
                                  "service:\n"
                                  "  extensions: [sqlite_storage, history, pages]\n"
                                  "  pipelines:\n"
                                  "    profiles:\n"
                                  "      receivers: [sampler]\n"
                                  "      processors: [join]\n"
                                  "      exporters: [nop]\n"
                                  "  telemetry:\n"
                                  "    metrics: {level: none}\n";

/* Whether any user can reach what lies there: the service does not run as root. */
static bool is_open_to_all(const char *directory)
{
    char path[256];
    struct stat status;
    snprintf(path, sizeof(path), "%.200s", directory);
    for (char *end = path + strlen(path); end > path; end = strrchr(path, '/')) {
        *end = '\0';
        if (*path && (stat(path, &status) < 0 || !(status.st_mode & S_IXOTH)))
            return false;
    }
    return true;
}

/* Others can pass through it, and do not find its name. */
static int make_directory(struct client_node *node)
{
    const char *parent = getenv("TMPDIR");
    snprintf(node->directory, sizeof(node->directory), "%.200s/spanprof-record-XXXXXX",
             parent && *parent == '/' && is_open_to_all(parent) ? parent : "/tmp");
    if (!mkdtemp(node->directory)) {
        node->directory[0] = '\0';
        return -errno;
    }
    if (chmod(node->directory, 0711) < 0)
        return -errno;
    snprintf(node->socket, sizeof(node->socket), "%s/socket", node->directory);
    return 0;
}

/* Half of what is free: the directory may lie in memory, and the command may need room there. */
static unsigned long long store_mib(const char *directory)
{
    struct statvfs room;
    if (statvfs(directory, &room))
        return STORE_MIB_MIN;
    unsigned long long mib = (unsigned long long)room.f_bavail * room.f_frsize / 2 >> 20;
    return mib < STORE_MIB_MIN ? STORE_MIB_MIN : mib > STORE_MIB_MAX ? STORE_MIB_MAX : mib;
}

static int write_config(const struct client_node *node, const char *path, const char *cgroup,
                        unsigned frequency)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return -errno;
    unsigned long long mib = store_mib(node->directory);
    fprintf(file, config_form, frequency, cgroup, node->directory, mib, mib / 2, node->socket);
    return fclose(file) ? -errno : 0;
}

void client_node_log(const struct client_node *node, char *out, size_t size)
{
    snprintf(out, size, "%s/log", node->directory);
}

/* A session of its own, so that ctrl-C in the terminal is the command's alone. */
static _Noreturn void run(const struct client_node *node, const char *config)
{
    char log[300];
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    client_node_log(node, log, sizeof(log));
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    setsid();
    if (fd >= 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
    }
    execl("/proc/self/exe", "spanprof", "--config", config, (char *)NULL);
    _exit(127);
}

static bool client_node_answers(const struct client_node *node)
{
    struct http_answer answer;
    int error = client_http_get(node->socket, "/api/status", &answer);
    http_answer_close(&answer);
    return !error && answer.status == 200;
}

static int wait_for_it(struct client_node *node)
{
    for (int i = 0; i < START_TRIES; i++) {
        if (waitpid(node->pid, NULL, WNOHANG) != 0) {
            node->pid = 0;
            return -ENOENT;
        }
        if (client_node_answers(node))
            return 0;
        usleep(START_PAUSE_US);
    }
    return -ETIMEDOUT;
}

int client_node_start(struct client_node *node, const char *cgroup, unsigned frequency)
{
    char config[300];
    *node = (struct client_node){.pid = 0};
    int error = make_directory(node);
    if (error)
        return error;
    snprintf(config, sizeof(config), "%s/spanprof.yaml", node->directory);
    error = write_config(node, config, cgroup, frequency);
    if (error)
        return error;
    node->pid = fork();
    if (node->pid == 0)
        run(node, config);
    if (node->pid < 0) {
        node->pid = 0;
        return -errno;
    }
    return wait_for_it(node);
}

static int remove_one(const char *path, const struct stat *facts, int flag, struct FTW *walk)
{
    (void)facts, (void)flag, (void)walk;
    return remove(path) ? -errno : 0;
}

static void client_node_end(struct client_node *node)
{
    kill(node->pid, SIGTERM);
    for (int i = 0; i < STOP_TRIES; i++) {
        if (waitpid(node->pid, NULL, WNOHANG) != 0)
            return;
        usleep(START_PAUSE_US);
    }
    kill(node->pid, SIGKILL); /* its children die with it */
    waitpid(node->pid, NULL, 0);
}

void client_node_stop(struct client_node *node)
{
    if (node->pid > 0)
        client_node_end(node);
    node->pid = 0;
    if (node->directory[0])
        nftw(node->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    node->directory[0] = '\0';
}
