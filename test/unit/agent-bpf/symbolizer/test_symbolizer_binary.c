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
#include <sys/sendfile.h>
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

enum { HONEST = 1, FLOODER = 2 };

static struct binary_user user_of(uint32_t pid)
{
    return (struct binary_user){.pid = pid, .tenant = HONEST, .reads = true};
}

static struct binary_user us(uint64_t tenant)
{
    return (struct binary_user){.pid = (uint32_t)getpid(), .tenant = tenant, .reads = true};
}

/* Also on a machine so busy that the reader's answer is late. */
static struct binary *get_awaited(struct binaries *binaries, const uint8_t identity[16],
                                  struct binary_user user, const struct process_mapping *mapping)
{
    for (int i = 0; i < 1000; i++) {
        struct binary *binary = binaries_get(binaries, identity, user, mapping);
        if (binary && (binary->fd >= 0 || !user.reads))
            return binary;
        while (!reader_client_is_ready())
            usleep(10000);
    }
    return NULL;
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
    assert_int_equal(binaries_init(&binaries, false), 0);
    uint32_t ended = ended_process();
    assert_null(binaries_get(&binaries, identity, user_of(ended), &mapping));
    assert_null(binaries_get(&binaries, identity, user_of(ended), &mapping));
    const struct binary *binary = get_awaited(&binaries, identity, us(HONEST), &mapping);
    bool found = binary && binary->is_elf;
    bool kept = binaries_get(&binaries, identity, user_of(ended), &mapping) == binary;
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
    assert_int_equal(binaries_init(&binaries, false), 0);
    const void *found = get_awaited(&binaries, identities[0], us(HONEST), &mapping);
    mapping.inode_generation ^= 1;
    const void *other = binaries_get(&binaries, identities[1], us(HONEST), &mapping);
    binaries_close(&binaries);
    unlink(path);
    if (!tells)
        skip_because("the file system has no inode generations");
    assert_non_null(found);
    assert_null(other);
}

#define MANY (OPEN_FILES_MAX + 50)

static struct binary *get_file_of(struct binaries *binaries, const char *directory, uint32_t i,
                                  struct binary_user user)
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
    return get_awaited(binaries, identity, user, &mapping);
}

static struct binary *get_file(struct binaries *binaries, const char *directory, uint32_t i)
{
    return get_file_of(binaries, directory, i, us(HONEST));
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

static void remove_files(char *directory, uint32_t n)
{
    char path[128];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%u", directory, i);
        unlink(path);
    }
    rmdir(directory);
}

/* More files than are kept open: each can be read when it is asked for, and those in use stay. */
static void many_files(void **state)
{
    (void)state;
    char directory[] = "/tmp/spanprof_binary_XXXXXX";
    struct binaries binaries;
    assert_int_equal(binaries_init(&binaries, false), 0);
    assert_non_null(mkdtemp(directory));
    for (uint32_t i = 0; i < MANY; i++)
        write_file(directory, i);
    int used = get_file(&binaries, directory, 0)->fd;
    for (uint32_t i = 1; i < MANY; i++) {
        assert_true(get_file(&binaries, directory, i)->fd >= 0);
        assert_int_equal(get_file(&binaries, directory, 0)->fd, used);
        assert_true(binaries.open.share.used <= OPEN_FILES_MAX);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        char byte[2];
        const struct binary *binary = get_file(&binaries, directory, i);
        assert_true(binary && pread(binary->fd, byte, 1, 0) == 1 && byte[0] == 'c');
    }
    remove_files(directory, MANY);
    binaries_close(&binaries);
}

static int64_t went(const char *label)
{
    return stats_find("spanprof_executables_over_share_total", label);
}

/* Each with the symbols of a small program. */
static void copy_program(const char *directory, uint32_t i)
{
    char path[128];
    struct stat status;
    snprintf(path, sizeof(path), "%s/%u", directory, i);
    int from = open("/bin/true", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(from >= 0 && to >= 0 && !fstat(from, &status));
    assert_int_equal(sendfile(to, from, NULL, (size_t)status.st_size), status.st_size);
    close(from);
    close(to);
}

/* A tenant that brings files without end loses its own descriptors and symbols. The honest one's
 * can be read though the files are gone. */
static void a_flood_of_files(void **state)
{
    enum { N_HONEST = 5, N_FLOOD = SYMBOL_TABLES_MAX + OPEN_FILES_MAX };
    char directory[] = "/var/tmp/spanprof_flood_XXXXXX";
    struct binary *honest[N_HONEST];
    struct binaries binaries;
    (void)state;
    int64_t open = went("what=\"open\""), symbols = went("what=\"symbols\"");
    assert_int_equal(binaries_init(&binaries, false), 0);
    assert_non_null(mkdtemp(directory));
    for (uint32_t i = 0; i < N_HONEST + N_FLOOD; i++)
        copy_program(directory, i);
    for (uint32_t i = 0; i < N_HONEST; i++) {
        honest[i] = get_file(&binaries, directory, i);
        assert_true(honest[i] && binaries_names(&binaries, honest[i], us(HONEST)));
    }
    for (uint32_t i = N_HONEST; i < N_HONEST + N_FLOOD; i++) {
        struct binary *binary = get_file_of(&binaries, directory, i, us(FLOODER));
        assert_true(binary && binaries_names(&binaries, binary, us(FLOODER)));
        assert_true(binaries.open.share.used <= OPEN_FILES_MAX);
        assert_true(binaries.loaded.share.used <= SYMBOL_BYTES_MAX);
    }
    for (uint32_t i = 0; i < N_HONEST; i++) {
        assert_true(honest[i]->fd >= 0 && honest[i]->names);
        assert_ptr_equal(get_file(&binaries, directory, i), honest[i]);
    }
    assert_in_range(went("what=\"open\"") - open, N_FLOOD - OPEN_FILES_MAX, N_FLOOD);
    assert_in_range(went("what=\"symbols\"") - symbols, N_FLOOD - SYMBOL_TABLES_MAX, N_FLOOD);
    remove_files(directory, N_HONEST + N_FLOOD);
    binaries_close(&binaries);
}

/* Of files that cannot be opened; they are known as that. */
static void a_flood_of_identities(void **state)
{
    enum { LIMIT = 256, N_FLOOD = 2 * LIMIT };
    char directory[] = "/var/tmp/spanprof_flood_XXXXXX", gone[] = "/nonexistent";
    struct binaries binaries;
    (void)state;
    int64_t before = went("what=\"files\"");
    assert_int_equal(binaries_init(&binaries, false), 0);
    binaries.known.share.limit = LIMIT;
    assert_non_null(mkdtemp(directory));
    write_file(directory, 0);
    write_file(directory, 1);
    assert_non_null(get_file_of(&binaries, directory, 1, us(FLOODER)));
    struct binary *shared = get_file_of(&binaries, directory, 0, us(FLOODER));
    assert_non_null(shared);
    assert_ptr_equal(get_file(&binaries, directory, 0), shared); /* both use it */
    assert_ptr_equal(get_file_of(&binaries, directory, 0, us(FLOODER)), shared);
    for (uint32_t i = 1; i <= N_FLOOD; i++) {
        const uint8_t identity[16] = {(uint8_t)i, (uint8_t)(i >> 8), 2};
        const struct process_mapping mapping = {.path = gone, .inode = 1};
        assert_null(binaries_get(&binaries, identity, us(FLOODER), &mapping));
        assert_true(binaries.names.count <= LIMIT);
    }
    assert_int_equal(went("what=\"files\"") - before, N_FLOOD + 2 - (int64_t)binaries.names.count);
    remove_files(directory, 2);
    struct binary_user user = us(HONEST);
    user.reads = false;
    assert_int_equal(shared->refs, 1);
    const uint8_t identity[16] = {0, 0, 1};
    const struct process_mapping mapping = {.path = gone, .inode = 1};
    assert_ptr_equal(binaries_get(&binaries, identity, user, &mapping), shared);
    binaries_close(&binaries);
}

/* Who does not read a file that was closed does not have it opened. */
static void closed_file(void **state)
{
    char directory[] = "/var/tmp/spanprof_flood_XXXXXX";
    struct binaries binaries;
    (void)state;
    assert_int_equal(binaries_init(&binaries, false), 0);
    assert_non_null(mkdtemp(directory));
    for (uint32_t i = 0; i < MANY; i++)
        write_file(directory, i);
    for (uint32_t i = 0; i < MANY; i++)
        assert_non_null(get_file(&binaries, directory, i));
    struct binary_user user = us(HONEST);
    user.reads = false;
    const struct binary *binary = get_file_of(&binaries, directory, 0, user);
    assert_true(binary && binary->fd < 0);
    assert_true(get_file(&binaries, directory, 0)->fd >= 0);
    remove_files(directory, MANY);
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
    assert_int_equal(binaries_init(&binaries, false), 0);
    int64_t before = stats_find("spanprof_reader_requests_total", "");
    binaries_open_ahead(&binaries, us(HONEST), mappings, FILES);
    for (int i = 0; i < FILES; i++) {
        uint8_t identity[16];
        assert_true(executable_identity(&mappings[i], identity));
        if (i == GONE)
            continue;
        const struct binary *binary = binaries_get(&binaries, identity, us(HONEST), &mappings[i]);
        assert_true(binary && binary->is_elf && binary->key.inode == mappings[i].inode);
        unlink(paths[i]);
    }
    assert_int_equal(stats_find("spanprof_reader_requests_total", ""), before + 1);
    binaries_open_ahead(&binaries, us(HONEST), mappings, GONE); /* they are known */
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
        cmocka_unit_test(a_flood_of_files),
        cmocka_unit_test(a_flood_of_identities),
        cmocka_unit_test(closed_file),
        cmocka_unit_test(opened_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
