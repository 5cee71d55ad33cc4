/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other processes: only what was mapped is opened, whatever lies at its path by now. */
#include "agent-bpf/files/safe_open.h"
#include "base/clock.h"
#include "test/support/fixtures/skip.h"
#include "test/support/rigs/reader_rig.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int open_at(const char *path, uint64_t device, uint64_t inode, struct safe_file *file)
{
    struct process_mapping mapping = {.start = 0x1000,
                                      .length = 0x1000,
                                      .path = path,
                                      .device_major = major(device),
                                      .device_minor = minor(device),
                                      .inode = inode};
    uint64_t before = clock_monotonic_ns();
    int outcome = safe_open_mapping((uint32_t)getpid(), &mapping, file);
    assert_true(clock_monotonic_ns() - before < 5 * NS_PER_SEC);
    return outcome;
}

static void opens_only_what_was_mapped(void **state)
{
    (void)state;
    char directory[] = "/tmp/spanprof_open_XXXXXX", path[128], link[128];
    struct safe_file file;
    struct stat status;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/file", directory);
    int fd = open(path, O_CREAT | O_RDWR, 0644);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(open_at(path, status.st_dev, status.st_ino, &file),
                     SAFE_OPEN_REFUSED); /* empty */
    assert_int_equal(write(fd, "content", 7), 7);
    assert_int_equal(open_at(path, status.st_dev, status.st_ino, &file), 0);
    assert_int_equal(file.size, 7);
    close(file.fd);
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(open_at(path, status.st_dev, status.st_ino, &file), SAFE_OPEN_REFUSED);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(open_at(path, status.st_dev, status.st_ino + 1, &file), SAFE_OPEN_DIFFERENT);
    assert_int_equal(file.fd, -1);
    assert_int_equal(open_at(path, 0, 0, &file), SAFE_OPEN_DIFFERENT); /* nothing to compare by */
    snprintf(link, sizeof(link), "%s/link", directory);
    assert_int_equal(symlink("/proc/self/root/proc/self/exe", link), 0);
    assert_true(open_at(link, 0, 0, &file) != 0); /* magic links lead nowhere */
    unlink(link);
    unlink(path);
    close(fd);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(open_at(path, status.st_dev, status.st_ino, &file), SAFE_OPEN_REFUSED);
    unlink(path);
    assert_int_equal(open_at(directory, status.st_dev, status.st_ino, &file), SAFE_OPEN_REFUSED);
    assert_int_equal(open_at("/dev/zero", 0, 5, &file), SAFE_OPEN_REFUSED);
    assert_true(open_at("/does/not/exist", 0, 5, &file) != 0);
    assert_int_equal(open_at("relative", 0, 5, &file), SAFE_OPEN_REFUSED);
    rmdir(directory);
}

/* Deleted after it was mapped: found through the mapping itself. */
static void opens_deleted_files(void **state)
{
    (void)state;
    char path[] = "/tmp/spanprof_gone_XXXXXX";
    int fd = mkstemp(path);
    struct stat status;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(fstat(fd, &status), 0);
    void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(map != MAP_FAILED);
    unlink(path);
    struct process_mapping mapping = {.start = (uintptr_t)map,
                                      .length = 4096,
                                      .path = path,
                                      .device_major = major(status.st_dev),
                                      .device_minor = minor(status.st_dev),
                                      .inode = status.st_ino};
    struct safe_file file;
    int outcome = safe_open_mapping((uint32_t)getpid(), &mapping, &file);
    munmap(map, 4096);
    close(fd);
    if (outcome == -ENOENT && geteuid())
        skip_because("needs CAP_CHECKPOINT_RESTORE");
    assert_int_equal(outcome, 0);
    assert_int_equal(file.inode, status.st_ino);
    close(file.fd);
}

/* What not everybody may read is opened only as the program that it is mapped for. */
static void opens_no_secrets(void **state)
{
    (void)state;
    for (int is_elf = 0; is_elf < 2; is_elf++) {
        char path[] = "/tmp/spanprof_mapped_XXXXXX";
        struct stat status;
        struct safe_file file;
        int fd = mkstemp(path);
        assert_int_equal(write(fd, is_elf ? "\177ELF" : "key ", 4), 4);
        assert_int_equal(ftruncate(fd, 4096), 0);
        assert_int_equal(fstat(fd, &status), 0);
        void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        assert_true(map != MAP_FAILED);
        struct process_mapping mapping = {.start = 0x1000, /* nothing is there */
                                          .length = 4096,
                                          .path = path,
                                          .device_major = major(status.st_dev),
                                          .device_minor = minor(status.st_dev),
                                          .inode = status.st_ino};
        int elsewhere = safe_open_mapping((uint32_t)getpid(), &mapping, &file);
        mapping.start = (uintptr_t)map;
        int mapped = safe_open_mapping((uint32_t)getpid(), &mapping, &file);
        if (!mapped)
            close(file.fd);
        munmap(map, 4096);
        close(fd);
        unlink(path);
        assert_int_equal(elsewhere, SAFE_OPEN_REFUSED);
        if (is_elf && mapped && geteuid())
            skip_because("needs CAP_CHECKPOINT_RESTORE");
        assert_int_equal(mapped, is_elf ? 0 : SAFE_OPEN_REFUSED);
    }
}

int main(void)
{
    reader_rig_attach();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_only_what_was_mapped),
        cmocka_unit_test(opens_deleted_files),
        cmocka_unit_test(opens_no_secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
