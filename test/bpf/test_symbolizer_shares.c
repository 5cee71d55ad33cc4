/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup with more processes that publish than it may have entries in the sampler's map is
 * refused further ones. Those of another are entered all the same, and what the first gives back
 * it may have again.
 */
#include "agent-bpf/symbolizer/tracked_process.h"
#include "base/cgroup.h"
#include "base/stats.h"
#include "context/spanprof_context.h"
#include "test/bpf/bpf_test.h"
#include "test/support/fixtures/context_fixture.h"
#include "test/support/rigs/reader_rig.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { N_FLOOD = 30, N_HONEST = 3, ROOM = 20 };

struct group {
    char path[CGROUP_PATH_MAX + 64];
};

static struct symbolizer *symbolizer;
static struct loop *loop;
static struct group flooding, honest;
static int sockets[2], map_fd;
static pid_t reader, flood[N_FLOOD], others[N_HONEST];

static bool make_group(struct group *group, const char *name)
{
    char mount[CGROUP_PATH_MAX];
    if (!cgroup_mount_find(mount, sizeof(mount)))
        return false;
    /* Always the same: so is whose share it has. */
    snprintf(group->path, sizeof(group->path), "%s/spanprof-test-%s", mount, name);
    return !mkdir(group->path, 0755) || errno == EEXIST;
}

static void publish_within(void *context)
{
    static const struct spanprof_attribute attributes[] = {{"service.name", "shop"}};
    const struct group *group = context;
    char path[sizeof(group->path) + 16];
    snprintf(path, sizeof(path), "%s/cgroup.procs", group->path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1 || spanprof_context_publish(attributes, 1))
        _exit(1);
}

static int open_all(void **state)
{
    (void)state;
    if (!make_group(&flooding, "flooding") || !make_group(&honest, "honest"))
        return -1;
    for (int i = 0; i < N_FLOOD; i++)
        flood[i] = fixture_child(publish_within, &flooding);
    for (int i = 0; i < N_HONEST; i++)
        others[i] = fixture_child(publish_within, &honest);
    map_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "contexts", sizeof(__u32),
                            sizeof(struct context_process), CONTEXT_PROCESSES_MAX, NULL);
    if (map_fd < 0 || loop_open(&loop) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets))
        return -1;
    struct symbolizer_settings settings = {.loop = loop,
                                           .socket = sockets[1],
                                           .contexts_map_fd = map_fd,
                                           .runtimes_map_fd = -1,
                                           .sources = ~0u};
    if (symbolizer_open(&settings, &symbolizer))
        return -1;
    symbolizer_reader(symbolizer, reader_rig_start(&reader), 0);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    symbolizer_close(symbolizer);
    loop_close(loop);
    close(sockets[0]);
    close(map_fd);
    for (int i = 0; i < N_FLOOD; i++)
        fixture_kill(flood[i]);
    for (int i = 0; i < N_HONEST; i++)
        fixture_kill(others[i]);
    rmdir(flooding.path);
    rmdir(honest.path);
    return 0;
}

/* How many of them have an entry, once all have been asked for. */
static int n_entered(const pid_t *pids, int n)
{
    uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
    struct context_process entry;
    int n_found = 0;
    for (int i = 0; i < n; i++) {
        tracked_process_request(symbolizer, (uint32_t)pids[i], true, true);
        n_found += !bpf_map_lookup_elem(map_fd, &pids[i], &entry);
    }
    while (recv(sockets[0], datagram, sizeof(datagram), MSG_DONTWAIT) > 0)
        ;
    return n_found;
}

static int64_t refused(void)
{
    return stats_find("spanprof_contexts_unreadable_total", "reason=\"no_room\"");
}

static int64_t not_tracked(void)
{
    return stats_find("spanprof_symbolizer_queue_full_total", "what=\"processes\"");
}

static void test_entries(void **state)
{
    (void)state;
    const int share = ROOM * FAIR_SHARE_FACTOR / (1 + FAIR_SHARE_FACTOR);
    symbolizer->shares.contexts.limit = ROOM;
    int64_t before = refused();
    assert_int_equal(n_entered(flood, N_FLOOD), share);
    assert_int_equal(refused() - before, N_FLOOD - share);
    assert_int_equal(n_entered(others, N_HONEST), N_HONEST);
    assert_int_equal(refused() - before, N_FLOOD - share);
    for (int i = 0; i < N_FLOOD; i++)
        tracked_process_forget(symbolizer, (uint32_t)flood[i]);
    assert_int_equal(symbolizer->shares.contexts.used, N_HONEST);
    assert_in_range(n_entered(&flood[N_FLOOD - 10], 10), 10, 10);
}

static void test_processes(void **state)
{
    (void)state;
    const int share = ROOM * FAIR_SHARE_FACTOR / (1 + FAIR_SHARE_FACTOR);
    symbolizer->shares.tracked.limit = ROOM;
    int64_t before = not_tracked();
    assert_int_equal(n_entered(flood, N_FLOOD), share);
    assert_int_equal(not_tracked() - before, N_FLOOD - share);
    assert_int_equal(n_entered(others, N_HONEST), N_HONEST);
}

/* A process that execs in another cgroup counts for that from then on. */
static void test_moved(void **state)
{
    (void)state;
    char path[sizeof(honest.path) + 16], text[16];
    symbolizer->shares.contexts.limit = ROOM;
    assert_true(n_entered(flood, N_FLOOD) < N_FLOOD);
    uint64_t most =
        symbolizer->shares.contexts.of[fair_share_largest(&symbolizer->shares.contexts)];
    snprintf(path, sizeof(path), "%s/cgroup.procs", honest.path);
    int fd = open(path, O_WRONLY | O_CLOEXEC), n = snprintf(text, sizeof(text), "%d", flood[0]);
    assert_int_equal(write(fd, text, (size_t)n), n);
    close(fd);
    sleep_ms(20); /* what was read of a process counts for 10 ms */
    assert_int_equal(n_entered(flood, 1), 1);
    const struct fair_share *share = &symbolizer->shares.contexts;
    assert_int_equal(share->used, most);
    assert_int_equal(share->of[fair_share_largest(share)], most - 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_entries), TEST(test_processes), TEST(test_moved)};
    char mount[CGROUP_PATH_MAX];
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    if (!cgroup_mount_find(mount, sizeof(mount))) {
        printf("skipped: no cgroups of version 2 are mounted\n");
        return BPF_TEST_SKIP;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
