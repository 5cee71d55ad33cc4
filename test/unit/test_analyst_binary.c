/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/analyst_binary.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define BYTES_MAPPED 4096

static void copy_own_file(int to)
{
    char buffer[65536];
    ssize_t n;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(from >= 0);
    while ((n = read(from, buffer, sizeof(buffer))) > 0)
        assert_int_equal(write(to, buffer, (size_t)n), n);
    close(from);
}

static uint32_t ended_process(void)
{
    pid_t pid = fork();
    if (!pid)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return (uint32_t)pid;
}

/* That it could not be read through a process that has ended says nothing of others. */
static void asked_through_another_process(void **state)
{
    (void)state;
    static const uint8_t identity[16] = {1};
    char path[] = "/tmp/spanprof_binary_XXXXXX";
    struct stat status;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    copy_own_file(fd);
    assert_int_equal(fstat(fd, &status), 0);
    void *map = mmap(NULL, BYTES_MAPPED, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(map != MAP_FAILED);
    unlink(path); /* found through a mapping alone */
    struct process_mapping mapping = {.start = (uintptr_t)map,
                                      .length = BYTES_MAPPED,
                                      .path = path,
                                      .device_major = major(status.st_dev),
                                      .device_minor = minor(status.st_dev),
                                      .inode = status.st_ino};
    struct binaries binaries;
    binaries_init(&binaries, false);
    uint32_t ended = ended_process();
    assert_null(binaries_get(&binaries, identity, ended, &mapping));
    assert_null(binaries_get(&binaries, identity, ended, &mapping));
    const struct binary *binary = binaries_get(&binaries, identity, (uint32_t)getpid(), &mapping);
    bool found = binary && binary->is_elf;
    bool kept = binaries_get(&binaries, identity, ended, &mapping) == binary;
    binaries_close(&binaries);
    munmap(map, BYTES_MAPPED);
    close(fd);
    if (!found && geteuid())
        skip(); /* needs CAP_CHECKPOINT_RESTORE */
    assert_true(found);
    assert_true(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_through_another_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
