/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of real processes of other users, in roots and mount namespaces of their own, and what a
 * process might name instead of its socket. As root; else skipped.
 */
#include "agent-bpf/contexts/elastic_socket.h"
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/files/fs_rights.h"
#include "agent-bpf/supervisor/privileges.h"
#include "test/support/fixtures/skip.h"
#include "test/support/rigs/reader_rig.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define USER    12345
#define OTHER   12346
#define GROUP   23456
#define MESSAGE "hello"

static char directory[64];

/* ---- places ---- */

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s%s%s", directory, *name ? "/" : "", name);
    return path;
}

/* A socket that is bound there, of that owner and mode. */
static int bind_socket(const char *path, int type, uid_t uid, gid_t gid, mode_t mode)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(chown(path, uid, gid), 0);
    assert_int_equal(chmod(path, mode), 0);
    return fd;
}

static int bind_datagram(const char *name, uid_t uid, gid_t gid, mode_t mode)
{
    return bind_socket(path_of(name), SOCK_DGRAM, uid, gid, mode);
}

static void make_directory(const char *name, mode_t mode)
{
    assert_int_equal(mkdir(path_of(name), 0700), 0);
    assert_int_equal(chmod(path_of(name), mode), 0);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return remove(path);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/spanprof-socket-XXXXXX");
    return mkdtemp(directory) && chmod(directory, 0755) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- processes ---- */

struct process_plan {
    uid_t uid;
    gid_t group;      /* a further one; 0 = none */
    const char *root; /* changed to, unless NULL */
    const char
        *tmpfs; /* mounted there in a mount namespace of its own, with a socket "own" in it */
};

static void carry_out(const struct process_plan *plan)
{
    char path[512];
    if (plan->tmpfs) {
        snprintf(path, sizeof(path), "%s/own", plan->tmpfs);
        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("none", plan->tmpfs, "tmpfs", 0, "mode=755"))
            _exit(1);
        bind_socket(path, SOCK_DGRAM, plan->uid, 0, 0700);
    }
    if (plan->root && (chroot(plan->root) || chdir("/")))
        _exit(2);
    if (setgroups(plan->group ? 1 : 0, &plan->group) ||
        setresgid(plan->uid, plan->uid, plan->uid) || setresuid(plan->uid, plan->uid, plan->uid))
        _exit(3);
}

static pid_t start(const struct process_plan *plan)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        carry_out(plan);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_true(pid > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void stop(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- what a broker may do ---- */

/* As the symbolizer does before: what is not there is not tried. */
static bool is_there(pid_t pid, struct bytes path)
{
    char name[600];
    const struct process_mapping mapping = {.path = name};
    struct reader_file file;
    int fd;
    if (!path.len || path.len >= sizeof(name) || path.data[0] != '/' ||
        memchr(path.data, 0, path.len))
        return true;
    memcpy(name, path.data, path.len);
    name[path.len] = 0;
    return reader_file((uint32_t)pid, READER_SOCKET, &mapping, &file, &fd) != -ENOENT;
}

static uint64_t permitted_set(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data))
        return UINT64_MAX;
    return (uint64_t)data[1].permitted << 32 | data[0].permitted;
}

/* Nothing leads back to root, and to nobody's files but the process's. By system calls: the C
 * library's functions ask every thread, and end the process if the thread of a sanitizer may do
 * what this one may not. */
static bool is_for_good(const struct elastic_socket *socket)
{
    int death_signal = 0;
    return geteuid() == socket->rights.uid && getegid() == socket->rights.gid &&
           getgroups(0, NULL) == (int)socket->rights.n_groups && permitted_set() == 0 &&
           syscall(SYS_setresuid, -1, 0, -1) < 0 && syscall(SYS_setresgid, 0, 0, 0) < 0 &&
           syscall(SYS_setgroups, 0, NULL) < 0 &&
           syscall(SYS_setfsuid, 0) == (long)socket->rights.uid &&
           syscall(SYS_setfsuid, -1) == (long)socket->rights.uid &&
           open("/etc/shadow", O_RDONLY | O_CLOEXEC) < 0 && prctl(PR_GET_DUMPABLE) == 0 &&
           prctl(PR_GET_PDEATHSIG, &death_signal) == 0 && death_signal == SIGUSR1;
}

#define NOT_FOR_GOOD 90
#define FLAGS_DIFFER 91
#define OUTCOME_BASE 200

/* In a process of its own, as a broker is; as an exit status. */
static int broker(pid_t pid, struct bytes path, const struct privileges *rights)
{
    struct elastic_socket socket;
    int fd = -1, error = rights ? privileges_drop(rights) : 0;
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    error = error ? error : elastic_socket_become((uint32_t)pid, path, &socket);
    if (!error && !is_for_good(&socket))
        return NOT_FOR_GOOD;
    error = error ? error : elastic_socket_connect(&socket, &fd);
    elastic_socket_close(&socket);
    if (error)
        return error > 0 ? OUTCOME_BASE + error : -error;
    if (fcntl(fd, F_GETFD) != FD_CLOEXEC || !(fcntl(fd, F_GETFL) & O_NONBLOCK))
        return FLAGS_DIFFER;
    (void)!send(fd, MESSAGE, sizeof(MESSAGE), 0);
    return 0;
}

static int outcome_as(pid_t pid, struct bytes path, const struct privileges *rights)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(broker(pid, path, rights));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    int code = WEXITSTATUS(status);
    assert_int_not_equal(code, NOT_FOR_GOOD);
    assert_int_not_equal(code, FLAGS_DIFFER);
    return code >= OUTCOME_BASE ? code - OUTCOME_BASE : -code;
}

static int outcome_for(pid_t pid, struct bytes path)
{
    return is_there(pid, path) ? outcome_as(pid, path, NULL) : -ENOENT;
}

static int outcome_of(pid_t pid, const char *name)
{
    return outcome_for(pid, BYTES_STR(path_of(name)));
}

static bool heard(int fd)
{
    char text[16];
    ssize_t n = recv(fd, text, sizeof(text), MSG_DONTWAIT);
    return n == sizeof(MESSAGE) && memcmp(text, MESSAGE, sizeof(MESSAGE)) == 0;
}

/* ---- tests ---- */

static void test_own_socket(void **state)
{
    (void)state;
    int fd = bind_datagram("own", USER, 0, 0700);
    pid_t pid = start(&(struct process_plan){.uid = USER});
    assert_int_equal(outcome_of(pid, "own"), 0);
    assert_true(heard(fd));
    stop(pid);
    assert_int_equal(outcome_of(pid, "own"), -ENOENT);
    close(fd);
}

/* By the right to write alone, of owner, group and others; and to pass the folders before it. */
static void test_rights(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uid_t uid;
        gid_t gid;
        mode_t mode;
        int without_group, with_group;
    } cases[] = {
        {"own", USER, 0, 0200, 0, 0},
        {"own_read_only", USER, 0, 0577, ELASTIC_SOCKET_REFUSED, ELASTIC_SOCKET_REFUSED},
        {"other", OTHER, 0, 0700, ELASTIC_SOCKET_REFUSED, ELASTIC_SOCKET_REFUSED},
        {"root", 0, 0, 0755, ELASTIC_SOCKET_REFUSED, ELASTIC_SOCKET_REFUSED},
        {"everyone", 0, 0, 0722, 0, 0},
        {"group", 0, GROUP, 0720, ELASTIC_SOCKET_REFUSED, 0},
        {"not_group", 0, GROUP, 0702, 0, ELASTIC_SOCKET_REFUSED},
        {"own_group", 0, USER, 0720, 0, 0},
        {"closed/everyone", 0, 0, 0777, ELASTIC_SOCKET_REFUSED, ELASTIC_SOCKET_REFUSED},
    };
    make_directory("closed", 0700);
    pid_t without = start(&(struct process_plan){.uid = USER});
    pid_t with = start(&(struct process_plan){.uid = USER, .group = GROUP});
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int fd = bind_datagram(cases[i].name, cases[i].uid, cases[i].gid, cases[i].mode);
        assert_int_equal(outcome_of(without, cases[i].name), cases[i].without_group);
        assert_int_equal(heard(fd), cases[i].without_group == 0);
        assert_int_equal(outcome_of(with, cases[i].name), cases[i].with_group);
        assert_int_equal(heard(fd), cases[i].with_group == 0);
        close(fd);
    }
    stop(without);
    stop(with);
}

static void test_not_a_socket(void **state)
{
    (void)state;
    pid_t pid = start(&(struct process_plan){.uid = USER});
    int stream = bind_socket(path_of("stream"), SOCK_STREAM, USER, 0, 0777);
    assert_int_equal(listen(stream, 1), 0);
    close(bind_datagram("left", USER, 0, 0777));
    assert_int_equal(mkfifo(path_of("fifo"), 0777), 0);
    assert_int_equal(mknod(path_of("file"), S_IFREG | 0777, 0), 0);
    assert_int_equal(symlink("nothing", path_of("dangling")), 0);
    assert_int_equal(symlink("circle", path_of("circle")), 0);

    assert_int_equal(outcome_of(pid, "stream"), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_of(pid, "left"), -ECONNREFUSED);
    assert_int_equal(outcome_of(pid, "fifo"), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_of(pid, "file"), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_of(pid, ""), ELASTIC_SOCKET_REFUSED); /* a folder */
    assert_int_equal(outcome_of(pid, "file/under"), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_of(pid, "dangling"), -ENOENT);
    assert_int_equal(outcome_of(pid, "circle"), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_of(pid, "nothing"), -ENOENT);
    close(stream);
    stop(pid);
}

static void test_paths(void **state)
{
    (void)state;
    static char text[5000];
    pid_t pid = start(&(struct process_plan){.uid = USER});
    memset(text, 'a', sizeof(text));
    assert_int_equal(outcome_for(pid, BYTES(text, 0)), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_for(pid, BYTES_LIT("relative")), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_for(pid, BYTES_LIT("\0abstract")), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_for(pid, BYTES_LIT("/tmp\0/x")), ELASTIC_SOCKET_REFUSED);
    text[0] = '/';
    assert_int_equal(outcome_for(pid, BYTES(text, 4095)), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_for(pid, BYTES(text, 4096)), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_for(pid, BYTES(text, sizeof(text))), ELASTIC_SOCKET_REFUSED);
    for (size_t i = 0; i < sizeof(text); i += 2)
        memcpy(text + i, "/.", 2);
    assert_int_equal(outcome_for(pid, BYTES(text, 4094)), ELASTIC_SOCKET_REFUSED); /* a folder */

    /* Longer than what fits a sockaddr_un: still found. */
    char name[300] = "";
    for (int i = 0; i < 5; i++) {
        snprintf(name + strlen(name), sizeof(name) - strlen(name),
                 "%sfolder_of_fifty_letters_or_so_%d", i ? "/" : "", i);
        make_directory(name, 0755);
    }
    char short_path[64];
    int folder = open(path_of(name), O_PATH | O_CLOEXEC);
    snprintf(short_path, sizeof(short_path), "/proc/self/fd/%d/s", folder);
    int fd = bind_socket(short_path, SOCK_DGRAM, USER, 0, 0700);
    strcat(name, "/s");
    assert_true(strlen(path_of(name)) > sizeof(((struct sockaddr_un *)0)->sun_path));
    assert_int_equal(outcome_of(pid, name), 0);
    assert_true(heard(fd));
    close(fd);
    close(folder);
    stop(pid);
}

/* Links and dots that would leave the root lead to its inside; magic links lead nowhere. */
static void test_own_root(void **state)
{
    (void)state;
    char target[600];
    make_directory("jail", 0755);
    make_directory("jail/tmp", 0755);
    int outside = bind_datagram("outside", USER, 0, 0777);
    int inside = bind_datagram("jail/inside", USER, 0, 0700);
    snprintf(target, sizeof(target), "%s", path_of("outside"));
    assert_int_equal(symlink(target, path_of("jail/absolute")), 0);
    assert_int_equal(symlink("../outside", path_of("jail/relative")), 0);
    assert_int_equal(symlink("/inside", path_of("jail/within")), 0);
    /* Who follows a link in the tick that made it writes its time, which the cache cannot. */
    usleep(20000);
    pid_t pid = start(&(struct process_plan){.uid = USER, .root = path_of("jail")});

    assert_int_equal(outcome_for(pid, BYTES_LIT("/inside")), 0);
    assert_true(heard(inside));
    assert_int_equal(outcome_for(pid, BYTES_LIT("/within")), 0);
    assert_true(heard(inside));
    assert_int_equal(outcome_for(pid, BYTES_LIT("/tmp/../../../inside")), 0);
    assert_true(heard(inside));
    assert_int_equal(outcome_for(pid, BYTES_LIT("/absolute")), -ENOENT);
    assert_int_equal(outcome_for(pid, BYTES_LIT("/relative")), -ENOENT);
    assert_int_equal(outcome_for(pid, BYTES_LIT("/../outside")), -ENOENT);
    assert_int_equal(outcome_of(pid, "outside"), -ENOENT);

    /* The same socket is there for a process in our root, but not through anyone's /proc/PID/root.
     */
    pid_t ours = start(&(struct process_plan){.uid = USER});
    assert_int_equal(outcome_of(ours, "outside"), 0);
    assert_true(heard(outside));
    snprintf(target, sizeof(target), "/proc/%d/root%s", ours, path_of("outside"));
    assert_int_equal(outcome_for(ours, BYTES_STR(target)), ELASTIC_SOCKET_REFUSED);
    assert_false(heard(outside));
    stop(ours);
    stop(pid);
    close(inside);
    close(outside);
}

static bool may_mount(void)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWNS) ? 1 : 0);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void test_own_mounts(void **state)
{
    (void)state;
    if (!may_mount())
        skip_because("no right to mount");
    make_directory("mount", 0755);
    int hidden = bind_datagram("mount/own", USER, 0, 0777); /* under the mount */
    pid_t pid = start(&(struct process_plan){.uid = USER, .tmpfs = path_of("mount")});
    pid_t ours = start(&(struct process_plan){.uid = USER});
    assert_int_equal(outcome_of(pid, "mount/own"), 0);
    assert_false(heard(hidden));
    assert_int_equal(outcome_of(ours, "mount/own"), 0);
    assert_true(heard(hidden));
    stop(ours);
    stop(pid);
    close(hidden);
}

/* Another user than root, with a few capabilities. */
static int outcome_as_reader(pid_t pid, const char *name, uint64_t keep)
{
    const struct privileges rights = {.uid = OTHER, .gid = OTHER, .keep = keep};
    return outcome_as(pid, BYTES_STR(path_of(name)), &rights);
}

/* A user whose process is served can neither stop nor trace who serves it. */
static void test_own_user(void **state)
{
    (void)state;
    int status, ready[2];
    char byte;
    pid_t agent = start(&(struct process_plan){.uid = USER});
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t served = fork();
    if (served == 0) {
        const struct privileges rights = {.uid = OTHER,
                                          .gid = OTHER,
                                          .keep = PRIVILEGE(CAP_SYS_PTRACE) |
                                                  PRIVILEGE(CAP_SETUID) | PRIVILEGE(CAP_SETGID)};
        struct elastic_socket socket;
        int error = privileges_drop(&rights);
        error = error ? error : elastic_socket_become((uint32_t)agent, BYTES_LIT("/x"), &socket);
        (void)!write(ready[1], error ? "e" : "r", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'r');
    pid_t other = fork();
    if (other == 0) {
        carry_out(&(struct process_plan){.uid = USER});
        _exit(!(kill(served, SIGSTOP) < 0 && errno == EPERM &&
                ptrace(PTRACE_SEIZE, served, NULL, NULL) < 0));
    }
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
    stop(served);
    stop(agent);
}

static void test_as_reader(void **state)
{
    (void)state;
    uint64_t looks = PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_DAC_READ_SEARCH);
    uint64_t all = looks | PRIVILEGE(CAP_SETUID) | PRIVILEGE(CAP_SETGID);
    make_directory("closed", 0700);
    int own = bind_datagram("own", USER, 0, 0700);
    int readers = bind_datagram("readers", OTHER, 0, 0700);
    int closed = bind_datagram("closed/everyone", 0, 0, 0777);
    pid_t pid = start(&(struct process_plan){.uid = USER});
    pid_t same = start(&(struct process_plan){.uid = OTHER});
    assert_int_equal(outcome_as_reader(pid, "own", all), 0);
    assert_int_equal(outcome_as_reader(pid, "readers", all), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_as_reader(pid, "closed/everyone", all), ELASTIC_SOCKET_REFUSED);
    /* Without the right to act as others, only for processes of its own user. */
    assert_int_equal(outcome_as_reader(pid, "own", looks), -EPERM);
    assert_int_equal(outcome_as_reader(same, "readers", looks), 0);
    assert_int_equal(outcome_as_reader(same, "own", looks), ELASTIC_SOCKET_REFUSED);
    assert_int_equal(outcome_as_reader(same, "closed/everyone", looks), ELASTIC_SOCKET_REFUSED);
    stop(pid);
    stop(same);
    close(own);
    close(readers);
    close(closed);
}

static bool parses(const char *status)
{
    struct fs_rights rights;
    return fs_rights_parse(BYTES_STR(status), &rights);
}

static void test_status(void **state)
{
    (void)state;
    static const char text[] =
        "Name:\tjava\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 11 \n";
    struct fs_rights rights;
    assert_true(fs_rights_parse(BYTES_STR(text), &rights));
    assert_int_equal(rights.uid, 4);
    assert_int_equal(rights.gid, 8);
    assert_int_equal(rights.n_groups, 3);
    assert_int_equal(rights.groups[2], 11);
    for (size_t len = 0; len < sizeof(text) - 1; len++)
        assert_false(fs_rights_parse(BYTES(text, len), &rights));
    assert_true(parses("\nUid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\nGroups:\t\n"));
    assert_false(parses("\nUid:\t1\t1\t1\t4294967295\nGid:\t1\t1\t1\t1\nGroups:\t\n"));
    assert_false(parses("\nUid:\t1\t1\t1\nGid:\t1\t1\t1\t1\nGroups:\t\n"));
    assert_false(parses("\nUid:\t1\t1\t1\t1\nGid:\t1\t1\t1\tx\nGroups:\t\n"));
    assert_false(parses("\nUid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\nGroups:\t1 x\n"));
    assert_false(parses("\nUid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    reader_rig_attach();
    if (geteuid() != 0) {
        printf("skipped: needs root\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        TEST(test_own_socket), TEST(test_rights),   TEST(test_not_a_socket),
        TEST(test_paths),      TEST(test_own_root), TEST(test_own_mounts),
        TEST(test_as_reader),  TEST(test_own_user), cmocka_unit_test(test_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
