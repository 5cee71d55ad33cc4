/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that tries to hold whoever looks at it (test/hostile/test_hold.py):
 *     hold MODE DIRECTORY SECONDS
 *
 *     memory   publishes a context whose payload is memory, and the next moment a page on FUSE
 *
 *     uffd     likewise, with a page that a user-space pager never brings (needs root)
 *
 *     link     its executable's directory has become a symbolic link into FUSE
 *
 *     overlay  its executable lies on overlayfs, above a layer on FUSE
 *
 *     flood    maps and unmaps a file with code, under a long path, as fast as it can
 *
 * As fusermount3 does for an unprivileged user, FUSE is mounted with rights for uid NOBODY, and all
 * else runs as that user. What the daemon does not answer waits for its end. Says "ready" when it
 * has begun, and burns CPU time so that it is looked at.
 */
#include "context/context_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOBODY       65534
#define PAGE         4096u
#define FILE_NODE    2u
#define PADDING      (8u << 20) /* behind the program on FUSE: pages that nobody has read before */
#define FLOOD_PATH   2000
#define CHANGERS     4
#define CHANGER_NS   500000000u
#define MESSAGE_SIZE (128 * 1024 + PAGE)

/* What the daemon answers is decided by the process beside it. */
struct board {
    _Atomic bool silent;         /* READ, and what else may wait, is not answered any more */
    _Atomic bool silent_look_up; /* LOOKUP below the root, likewise */
};

static struct board *board;
static int device = -1, content = -1;
static uint64_t content_size;
static const char *directory;
static uint64_t end_ns;

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "hold: %s: %s\n", what, strerror(errno));
    printf("skip %s: %s\n", what, strerror(errno));
    exit(0);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static const char *below(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
    return path;
}

/* ---- a FUSE file system of one file, "app", with the content of this program ---- */

static void answer(uint64_t unique, int error, const void *body, size_t size)
{
    struct fuse_out_header head = {
        .len = (uint32_t)(sizeof(head) + size), .error = -error, .unique = unique};
    struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)body, size}};
    (void)!writev(device, parts, size ? 2 : 1);
}

static struct fuse_attr attributes_of(uint64_t node)
{
    bool file = node == FILE_NODE;
    return (struct fuse_attr){.ino = node,
                              .size = file ? content_size : 0,
                              .mode = file ? S_IFREG | 0755 : S_IFDIR | 0755,
                              .nlink = 1};
}

static void serve_read(const struct fuse_in_header *in, const struct fuse_read_in *read)
{
    static char bytes[MESSAGE_SIZE];
    size_t want = read->size < sizeof(bytes) ? read->size : sizeof(bytes);
    uint64_t left = read->offset < content_size ? content_size - read->offset : 0;
    if (board->silent)
        return;
    memset(bytes, 0, want);
    (void)!pread(content, bytes, want, (off_t)read->offset);
    answer(in->unique, 0, bytes, want < left ? want : left);
}

static void serve_look_up(const struct fuse_in_header *in, const char *name)
{
    struct fuse_entry_out entry = {.nodeid = FILE_NODE,
                                   .attr_valid = 600,
                                   .entry_valid = 600,
                                   .attr = attributes_of(FILE_NODE)};
    if (board->silent_look_up)
        return;
    if (strcmp(name, "app") != 0)
        answer(in->unique, ENOENT, NULL, 0);
    else
        answer(in->unique, 0, &entry, sizeof(entry));
}

static void serve(const struct fuse_in_header *in)
{
    struct fuse_init_out init = {
        .major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = PAGE, .max_write = PAGE};
    struct fuse_attr_out attributes = {.attr_valid = 600, .attr = attributes_of(in->nodeid)};
    struct fuse_open_out opened = {.open_flags = FOPEN_KEEP_CACHE};
    struct fuse_statfs_out system = {.st = {.bsize = PAGE, .namelen = 255}};
    switch (in->opcode) {
    case FUSE_INIT:
        return answer(in->unique, 0, &init, sizeof(init));
    case FUSE_LOOKUP:
        return serve_look_up(in, (const char *)(in + 1));
    case FUSE_GETATTR:
        return answer(in->unique, 0, &attributes, sizeof(attributes));
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        return answer(in->unique, 0, &opened, sizeof(opened));
    case FUSE_STATFS:
        return answer(in->unique, 0, &system, sizeof(system));
    case FUSE_READ:
        return serve_read(in, (const struct fuse_read_in *)(in + 1));
    case FUSE_RELEASE:
        return answer(in->unique, 0, NULL, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return;
    default:
        answer(in->unique, ENOSYS, NULL, 0);
    }
}

static void run_daemon(void)
{
    static _Alignas(8) char request[MESSAGE_SIZE];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (ssize_t got; (got = read(device, request, sizeof(request))) >= 0 || errno == EINTR;)
        if (got >= (ssize_t)sizeof(struct fuse_in_header))
            serve((const struct fuse_in_header *)request);
    _exit(0);
}

/* Mounts it at the path. others: whoever looks there is served, not its user alone. */
static void mount_fuse(const char *at, bool others)
{
    char options[128];
    content = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    content_size = (uint64_t)lseek(content, 0, SEEK_END) + PADDING;
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    must(device >= 0, "/dev/fuse");
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%d,group_id=%d%s", device,
             NOBODY, NOBODY, others ? ",allow_other" : "");
    must(!mkdir(at, 0755) && !mount("hold", at, "fuse", MS_NOSUID | MS_NODEV, options),
         "mounting FUSE");
    pid_t daemon = fork();
    if (daemon == 0)
        run_daemon();
    close(device);
    must(daemon > 0, "fork");
}

static void own_mounts(void)
{
    must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "unshare");
}

static void become_nobody(void)
{
    must(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY), "setresuid");
    prctl(PR_SET_DUMPABLE, 1);
}

/* ---- what it does in time that is sampled ---- */

static void ready(void)
{
    printf("ready %d\n", getpid());
    fflush(stdout);
}

static void burn(void)
{
    while (now_ns() < end_ns)
        for (volatile unsigned i = 0; i < 1000000; i++)
            continue;
}

/* ---- memory ---- */

static volatile struct otel_process_header *publish(uint64_t payload)
{
    int fd = memfd_create(OTEL_PROCESS_NAME, MFD_CLOEXEC);
    must(fd >= 0 && !ftruncate(fd, PAGE), "memfd_create");
    volatile struct otel_process_header *header =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(header != MAP_FAILED, "mmap");
    memcpy((void *)header->signature, OTEL_PROCESS_SIGNATURE, sizeof(header->signature));
    header->version = OTEL_PROCESS_VERSION;
    header->payload_size = 100;
    header->payload = payload;
    atomic_thread_fence(memory_order_release);
    header->published_at_ns = now_ns();
    return header;
}

/* Each look comes at another moment of the change, and asks for another page: one that waits for a
 * page that somebody else has asked for can be killed. So can one whose request the daemon has not
 * read yet, so the daemon goes first. */
static void change_memory(int file)
{
    (void)!nice(19);
    void *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    must(page != MAP_FAILED, "mmap");
    volatile struct otel_process_header *header = publish((uint64_t)page);
    uint64_t until_ns = now_ns() + CHANGER_NS;
    for (uint64_t turn = 0; now_ns() < until_ns; turn++) {
        bool trap = turn % 2;
        int flags = trap ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS;
        off_t at = (off_t)(turn % (PADDING / PAGE)) * PAGE;
        must(mmap(page, PAGE, PROT_READ, flags | MAP_FIXED, trap ? file : -1, trap ? at : 0) ==
                 page,
             "mmap");
        for (volatile unsigned i = 0; i < 20000; i++)
            continue;
        if (turn % 1000 == 0)
            header->published_at_ns = now_ns();
    }
}

/* A process that is known is looked at ever more rarely, so each is soon followed by another. */
static void change_memory_anew(int file)
{
    while (now_ns() < end_ns) {
        pid_t pid = fork();
        must(pid >= 0, "fork");
        if (!pid) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            change_memory(file);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
}

static void hold_by_memory(void)
{
    own_mounts();
    mount_fuse(below("fuse"), false);
    become_nobody();
    int file = open(below("fuse/app"), O_RDONLY | O_CLOEXEC);
    must(file >= 0, "open");
    board->silent = true;
    ready();
    for (int i = 1; i < CHANGERS; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            break;
        }
    change_memory_anew(file);
}

static void hold_by_pager(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {.start = (uintptr_t)page, .len = PAGE},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    must(fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &range),
         "userfaultfd");
    publish((uint64_t)page);
    ready();
    burn();
}

/* ---- files ---- */

static void copy_self(const char *to)
{
    char bytes[65536];
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int fd = open(to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);
    must(from >= 0 && fd >= 0, to);
    for (ssize_t n; (n = read(from, bytes, sizeof(bytes))) > 0;)
        must(write(fd, bytes, (size_t)n) == n, to);
    close(from);
    close(fd);
}

/* Runs as the user, in a process of its own. It has mapped its file and stopped, until the parent
 * has set the trap. */
static pid_t start_program(const char *path)
{
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid) {
        int status;
        must(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "waiting");
        return pid;
    }
    char seconds[32];
    snprintf(seconds, sizeof(seconds), "%u", (unsigned)((end_ns - now_ns()) / 1000000000u));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    become_nobody();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(path, path, "burn", "/", seconds, NULL);
    _exit(1);
}

static void run_program(void)
{
    raise(SIGSTOP);
    ready();
    burn();
}

static void release_and_wait(pid_t pid)
{
    must(!kill(pid, SIGCONT), "kill");
    waitpid(pid, NULL, 0);
}

static void hold_by_link(void)
{
    own_mounts();
    mount_fuse(below("fuse"), true);
    must(!mkdir(below("bin"), 0755), "mkdir");
    copy_self(below("bin/app"));
    pid_t pid = start_program(below("bin/app"));
    must(!rename(below("bin"), below("was")) && !symlink("fuse", below("bin")), "symlink");
    board->silent_look_up = true;
    release_and_wait(pid);
}

static void hold_by_overlay(void)
{
    char options[1200];
    own_mounts();
    mount_fuse(below("fuse"), true);
    must(!mkdir(below("upper"), 0755) && !mkdir(below("work"), 0755) &&
             !mkdir(below("merged"), 0755),
         "mkdir");
    snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s", below("fuse"),
             below("upper"), below("work"));
    must(!mount("overlay", below("merged"), "overlay", 0, options), "mounting overlayfs");
    pid_t pid = start_program(below("merged/app"));
    board->silent = true;
    release_and_wait(pid);
}

/* ---- mappings ---- */

static int open_far_away(void)
{
    static const char name[] = "a-folder-with-a-long-name-that-takes-room-in-each-record";
    char path[FLOOD_PATH + 100];
    size_t len = (size_t)snprintf(path, sizeof(path), "%s", directory);
    while (len < FLOOD_PATH) {
        len += (size_t)snprintf(path + len, sizeof(path) - len, "/%s", name);
        must(!mkdir(path, 0755) || errno == EEXIST, "mkdir");
    }
    snprintf(path + len, sizeof(path) - len, "/app");
    copy_self(path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0, path);
    return fd;
}

static void flood(void)
{
    int fd = open_far_away();
    ready();
    while (now_ns() < end_ns) {
        void *page = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        must(page != MAP_FAILED, "mmap");
        munmap(page, PAGE);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"memory", hold_by_memory},   {"uffd", hold_by_pager}, {"link", hold_by_link},
                 {"overlay", hold_by_overlay}, {"flood", flood},        {"burn", run_program}};
    if (argc != 4)
        return 2;
    directory = argv[2];
    end_ns = now_ns() + (uint64_t)(atof(argv[3]) * 1e9);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(board != MAP_FAILED, "mmap");
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (!strcmp(argv[1], modes[i].name)) {
            modes[i].run();
            return 0;
        }
    return 2;
}
