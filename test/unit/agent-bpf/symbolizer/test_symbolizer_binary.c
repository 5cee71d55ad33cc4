/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbolizer/symbolizer_binary.h"
#include "agent-bpf/executable_identity.h"
#include "agent-bpf/files/reader_client.h"
#include "base/stats.h"
#include "test/support/fixtures/skip.h"
#include "test/support/rigs/reader_rig.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
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
        skip_because("needs CAP_CHECKPOINT_RESTORE");
    assert_true(found);
    assert_true(kept);
}

/* The number of a file that was deleted is another's by now, at the same path. */
static void generation_is_compared(void **state)
{
    (void)state;
    static const uint8_t identities[2][16] = {{1}, {2}};
    char path[] = "/var/tmp/spanprof_binary_XXXXXX";
    struct stat status;
    long generation = 0;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && !fchmod(fd, 0644));
    copy_own_file(fd);
    bool tells = !ioctl(fd, FS_IOC_GETVERSION, &generation) && (uint32_t)generation;
    assert_int_equal(fstat(fd, &status), 0);
    close(fd);
    struct process_mapping mapping = {.path = path,
                                      .device_major = major(status.st_dev),
                                      .device_minor = minor(status.st_dev),
                                      .inode = status.st_ino,
                                      .inode_generation = (uint32_t)generation};
    struct binaries binaries;
    binaries_init(&binaries, false);
    const void *found = binaries_get(&binaries, identities[0], (uint32_t)getpid(), &mapping);
    mapping.inode_generation ^= 1;
    const void *other = binaries_get(&binaries, identities[1], (uint32_t)getpid(), &mapping);
    binaries_close(&binaries);
    unlink(path);
    if (!tells)
        skip_because("the file system has no inode generations");
    assert_non_null(found);
    assert_null(other);
}

#define MANY (OPEN_FILES_MAX + 50)

static struct binary *get_file(struct binaries *binaries, const char *directory, uint32_t i)
{
    char path[128];
    struct stat status;
    const uint8_t identity[16] = {(uint8_t)i, (uint8_t)(i >> 8), 1};
    snprintf(path, sizeof(path), "%s/%u", directory, i);
    assert_int_equal(stat(path, &status), 0);
    const struct process_mapping mapping = {.path = path,
                                            .device_major = major(status.st_dev),
                                            .device_minor = minor(status.st_dev),
                                            .inode = status.st_ino};
    return binaries_get(binaries, identity, (uint32_t)getpid(), &mapping);
}

static void write_file(const char *directory, uint32_t i)
{
    char path[128], text[64];
    snprintf(path, sizeof(path), "%s/%u", directory, i);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    snprintf(text, sizeof(text), "content %u", i);
    assert_true(fputs(text, file) >= 0 && !fclose(file));
}

/* More files than are kept open: each can be read when it is asked for, and those in use stay. */
static void many_files(void **state)
{
    (void)state;
    char directory[] = "/tmp/spanprof_binary_XXXXXX", path[128];
    struct binaries binaries;
    binaries_init(&binaries, false);
    assert_non_null(mkdtemp(directory));
    for (uint32_t i = 0; i < MANY; i++)
        write_file(directory, i);
    int used = get_file(&binaries, directory, 0)->fd;
    for (uint32_t i = 1; i < MANY; i++) {
        assert_true(get_file(&binaries, directory, i)->fd >= 0);
        assert_int_equal(get_file(&binaries, directory, 0)->fd, used);
        assert_true(binaries.n_open <= OPEN_FILES_MAX);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        char byte[2];
        const struct binary *binary = get_file(&binaries, directory, i);
        assert_true(binary && pread(binary->fd, byte, 1, 0) == 1 && byte[0] == 'c');
    }
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(path, sizeof(path), "%s/%u", directory, i);
        unlink(path);
    }
    rmdir(directory);
    binaries_close(&binaries);
}

/* One request opens them; what cannot be opened does not hinder the others. */
static void opened_ahead(void **state)
{
    enum { FILES = 5, GONE = 2 };
    char directory[] = "/var/tmp/spanprof_ahead_XXXXXX", paths[FILES][64];
    struct process_mapping mappings[FILES] = {0};
    struct binaries binaries;
    (void)state;
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < FILES; i++) {
        struct stat status;
        snprintf(paths[i], sizeof(paths[i]), "%s/%d", directory, i);
        int fd = open(paths[i], O_CREAT | O_RDWR | O_CLOEXEC, 0644);
        copy_own_file(fd);
        assert_int_equal(fstat(fd, &status), 0);
        close(fd);
        mappings[i] = (struct process_mapping){.path = paths[i],
                                               .length = BYTES_MAPPED,
                                               .device_major = major(status.st_dev),
                                               .device_minor = minor(status.st_dev),
                                               .inode = status.st_ino};
    }
    unlink(paths[GONE]);
    binaries_init(&binaries, false);
    int64_t before = stats_find("spanprof_reader_requests_total", "");
    binaries_open_ahead(&binaries, (uint32_t)getpid(), mappings, FILES);
    for (int i = 0; i < FILES; i++) {
        uint8_t identity[16];
        assert_true(executable_identity(&mappings[i], identity));
        if (i == GONE)
            continue;
        const struct binary *binary =
            binaries_get(&binaries, identity, (uint32_t)getpid(), &mappings[i]);
        assert_true(binary && binary->is_elf && binary->key.inode == mappings[i].inode);
        unlink(paths[i]);
    }
    assert_int_equal(stats_find("spanprof_reader_requests_total", ""), before + 1);
    binaries_open_ahead(&binaries, (uint32_t)getpid(), mappings, GONE); /* they are known */
    assert_int_equal(stats_find("spanprof_reader_requests_total", ""), before + 1);
    assert_true(reader_client_is_ready());
    binaries_close(&binaries);
    rmdir(directory);
}

int main(void)
{
    reader_rig_attach();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_through_another_process),
        cmocka_unit_test(generation_is_compared),
        cmocka_unit_test(many_files),
        cmocka_unit_test(opened_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
