/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/publishers/publisher_fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE      4096u
#define FILE_NODE 2u
#define FILE_NAME "page"

static int device;

static void answer(uint64_t unique, int error, const void *body, size_t size)
{
    struct fuse_out_header head = {
        .len = (uint32_t)(sizeof(head) + size), .error = -error, .unique = unique};
    struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)body, size}};
    (void)!writev(device, parts, size ? 2 : 1);
}

static struct fuse_attr attributes_of(uint64_t node)
{
    return (struct fuse_attr){.ino = node,
                              .size = node == FILE_NODE ? PAGE : 0,
                              .mode = node == FILE_NODE ? S_IFREG | 0444 : S_IFDIR | 0755,
                              .nlink = 1};
}

static void serve(const struct fuse_in_header *in)
{
    struct fuse_init_out init = {
        .major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = PAGE, .max_write = PAGE};
    struct fuse_entry_out entry = {.nodeid = FILE_NODE, .attr = attributes_of(FILE_NODE)};
    struct fuse_attr_out attributes = {.attr_valid = 60, .attr = attributes_of(in->nodeid)};
    struct fuse_open_out opened = {.open_flags = FOPEN_KEEP_CACHE};
    switch (in->opcode) {
    case FUSE_INIT:
        return answer(in->unique, 0, &init, sizeof(init));
    case FUSE_LOOKUP:
        return answer(in->unique, 0, &entry, sizeof(entry));
    case FUSE_GETATTR:
        return answer(in->unique, 0, &attributes, sizeof(attributes));
    case FUSE_OPEN:
        return answer(in->unique, 0, &opened, sizeof(opened));
    case FUSE_READ: /* whoever waits, waits for ever */
    case FUSE_FORGET:
    case FUSE_INTERRUPT:
        return;
    default:
        answer(in->unique, ENOSYS, NULL, 0);
    }
}

static void run_daemon(void)
{
    static _Alignas(8) char request[FUSE_MIN_READ_BUFFER + PAGE];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (ssize_t got; (got = read(device, request, sizeof(request))) >= 0 || errno == EINTR;)
        if (got >= (ssize_t)sizeof(struct fuse_in_header))
            serve((const struct fuse_in_header *)request);
    _exit(0);
}

/* A process of its own: what waits for it must be freed by its end, and cannot end itself. */
static bool start_daemon(void)
{
    pid_t child = fork();
    if (child == 0)
        run_daemon();
    close(device);
    return child > 0;
}

void *publisher_fuse_page(const char *directory)
{
    char text[256];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return NULL;
    snprintf(text, sizeof(text), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
    if (mount("spanprof-test", directory, "fuse", MS_NOSUID | MS_NODEV, text) || !start_daemon())
        return NULL;
    snprintf(text, sizeof(text), "%s/" FILE_NAME, directory);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd); /* while the daemon can still answer */
    return page == MAP_FAILED ? NULL : page;
}
