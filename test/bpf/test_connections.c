/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who opened a connection: by a client in this network namespace, in another one behind a veth
 * pair, and beside one in a third namespace that has the same addresses.
 */
#include "bpf_test.h"
#include "agent-bpf/sampler/sampler.h"
#include "base/cgroup.h"
#include "base/fd.h"
#include "receiver/listen.h"
#include "receiver/peers.h"
#include "test/support/fixtures/skip.h"
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OTHER_UID   65534
#define THIRD_UID   65533
#define OUR_ADDRESS "10.213.77.1"
#define ITS_ADDRESS "10.213.77.2"
#define SOURCE_PORT 45123

struct fixture {
    struct sampler *sampler;
    struct peers *peers;
    struct listen_sockets sockets;
    char mount[256];
};

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
    char command[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    if (system(command) != 0)
        fail_msg("%s", command);
}

static void setup(struct fixture *fixture, bool served)
{
    char why[SAMPLER_DIAGNOSIS_MAX];
    struct config_endpoint endpoint = {.host = "0.0.0.0", .set = true, .transport = CONFIG_TCP4};
    struct sampler_settings settings = {.frequency_hz = 19};
    *fixture = (struct fixture){0};
    assert_int_equal(listen_open(&endpoint, "test", &fixture->sockets, NULL), 0);
    settings.ports[0] = served ? fixture->sockets.port : 1;
    if (sampler_open(&settings, &fixture->sampler, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    static const struct config config; /* without a join */
    assert_int_equal(peers_open(&config, sampler_connections_fd(fixture->sampler), &fixture->peers),
                     0);
    if (!cgroup_mount_find(fixture->mount, sizeof(fixture->mount)))
        fixture->mount[0] = '\0';
}

static void teardown(struct fixture *fixture)
{
    peers_close(fixture->peers);
    sampler_close(fixture->sampler);
    listen_close(&fixture->sockets);
}

static size_t count_noted(const struct fixture *fixture)
{
    struct connection_key key, *before = NULL;
    size_t n = 0;
    int fd = sampler_connections_fd(fixture->sampler);
    while (bpf_map_get_next_key(fd, before, &key) == 0) {
        before = &key;
        n++;
    }
    return n;
}

/* A client that connects and stays until it is told to end. */
struct client {
    pid_t pid;
    int ready, end;
    char cgroup[320]; /* "": the one of the test */
};

struct plan {
    const char *namespace; /* NULL: the test's */
    uint32_t uid;
    const char *cgroup; /* NULL: the test's */
    bool with_server;   /* it listens itself where it connects to */
};

static int client_main(const struct fixture *fixture, const struct plan *plan)
{
    char path[512];
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(fixture->sockets.port)},
                       own = {.sin_family = AF_INET, .sin_port = htons(SOURCE_PORT)};
    inet_pton(AF_INET, plan->namespace ? OUR_ADDRESS : "127.0.0.1", &address.sin_addr);
    inet_pton(AF_INET, plan->namespace ? ITS_ADDRESS : "127.0.0.1", &own.sin_addr);
    if (plan->namespace) {
        snprintf(path, sizeof(path), "/run/netns/%s", plan->namespace);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || setns(fd, CLONE_NEWNET))
            return 1;
    }
    if (plan->with_server) {
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1))
            return 2;
    }
    if (setresuid(plan->uid, plan->uid, plan->uid))
        return 3;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (plan->namespace && bind(fd, (struct sockaddr *)&own, sizeof(own)))
        return 4;
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) ? 5 : 0;
}

static void enter_cgroup(const struct fixture *fixture, const struct plan *plan,
                         struct client *client)
{
    char path[400];
    if (!plan->cgroup || !fixture->mount[0])
        return;
    snprintf(client->cgroup, sizeof(client->cgroup), "%s/%s", fixture->mount, plan->cgroup);
    assert_true(mkdir(client->cgroup, 0755) == 0 || errno == EEXIST);
    snprintf(path, sizeof(path), "%s/cgroup.procs", client->cgroup);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "%d", (int)client->pid);
    assert_int_equal(fclose(file), 0);
}

static void client_start(const struct fixture *fixture, const struct plan *plan,
                         struct client *client)
{
    int go[2], ready[2];
    char byte = 0;
    *client = (struct client){0};
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    client->pid = fork();
    if (client->pid == 0) {
        close(go[1]);
        close(ready[0]);
        if (read(go[0], &byte, 1) != 1)
            _exit(9);
        byte = (char)client_main(fixture, plan);
        if (write(ready[1], &byte, 1) != 1)
            _exit(9);
        pause();
    }
    close(go[0]);
    close(ready[1]);
    client->ready = ready[0];
    client->end = go[1];
    enter_cgroup(fixture, plan, client);
    assert_int_equal(write(client->end, &byte, 1), 1);
    assert_int_equal(read(client->ready, &byte, 1), 1);
    assert_int_equal(byte, 0);
}

static void client_end(struct client *client)
{
    int status;
    kill(client->pid, SIGKILL);
    close(client->end);
    close(client->ready);
    assert_int_equal(waitpid(client->pid, &status, 0), client->pid);
    if (client->cgroup[0])
        rmdir(client->cgroup);
}

static int accept_one(const struct fixture *fixture)
{
    int fd = -1;
    for (int i = 0; fd < 0 && i < 1000; i++) {
        fd = accept4(fixture->sockets.fds[0], NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            usleep(1000);
    }
    assert_true(fd >= 0);
    return fd;
}

static void check_client(const struct fixture *fixture, const struct client *client, uint32_t uid,
                         int fd)
{
    struct peer peer;
    peers_identify(fixture->peers, fd, &fixture->sockets.endpoint, &peer);
    assert_int_equal(peer.uid, uid);
    assert_false(peer.is_forwarder);
    struct stat status;
    if (client->cgroup[0]) {
        assert_int_equal(stat(client->cgroup, &status), 0);
        assert_int_equal(peer.cgroup_id, status.st_ino);
    }
    close(fd);
}

/* An emulated kernel has no module for it. */
static void skip_without_tcp_diag(void)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 wanted;
    } request = {.header = {.nlmsg_len = sizeof(request),
                            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                 .wanted = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP}};
    struct {
        struct nlmsghdr header;
        int error;
        char rest[256];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    bool asked = fd >= 0 && send(fd, &request, sizeof(request), 0) > 0 &&
                 recv(fd, &answer, sizeof(answer), 0) > 0;
    fd_close(fd);
    if (!asked || (answer.header.nlmsg_type == NLMSG_ERROR && answer.error == -ENOENT))
        skip_because("the kernel does not tell of TCP sockets");
}

static void skip_without_veth(void)
{
    if (system(
            "ip link add spanprof-t8 type veth peer name spanprof-t9 && ip link del spanprof-t8"))
        skip_because("there are no veth pairs here");
}

/* A namespace with ITS_ADDRESS; linked: it reaches this one. */
static void namespace_make(const char *name, bool linked)
{
    run("ip netns add %s", name);
    run("ip -n %s link set lo up", name);
    if (!linked) {
        run("ip -n %s addr add " OUR_ADDRESS "/24 dev lo", name);
        run("ip -n %s addr add " ITS_ADDRESS "/24 dev lo", name);
        return;
    }
    run("ip link add spanprof-t0 type veth peer name spanprof-t1");
    run("ip link set spanprof-t1 netns %s", name);
    run("ip addr add " OUR_ADDRESS "/24 dev spanprof-t0");
    run("ip link set spanprof-t0 up");
    run("ip -n %s addr add " ITS_ADDRESS "/24 dev spanprof-t1", name);
    run("ip -n %s link set spanprof-t1 up", name);
}

static void test_same_namespace(void **state)
{
    struct fixture fixture;
    struct client client;
    (void)state;
    setup(&fixture, true);
    const struct plan plan = {.uid = OTHER_UID, .cgroup = "spanprof-test-a"};
    client_start(&fixture, &plan, &client);
    assert_int_equal(count_noted(&fixture), 1);
    check_client(&fixture, &client, OTHER_UID, accept_one(&fixture));
    assert_int_equal(count_noted(&fixture), 0);
    client_end(&client);
    teardown(&fixture);
}

/* Connections to other ports leave nothing behind. This one is asked for. */
static void test_port_of_others(void **state)
{
    struct fixture fixture;
    struct client client;
    (void)state;
    skip_without_tcp_diag();
    setup(&fixture, false);
    const struct plan plan = {.uid = OTHER_UID, .cgroup = "spanprof-test-a"};
    client_start(&fixture, &plan, &client);
    assert_int_equal(count_noted(&fixture), 0);
    check_client(&fixture, &client, OTHER_UID, accept_one(&fixture));
    client_end(&client);
    teardown(&fixture);
}

static void test_other_namespace(void **state)
{
    struct fixture fixture;
    struct client client;
    (void)state;
    skip_without_veth();
    setup(&fixture, true);
    namespace_make("spanprof-test-a", true);
    const struct plan plan = {
        .namespace = "spanprof-test-a", .uid = OTHER_UID, .cgroup = "spanprof-test-a"};
    client_start(&fixture, &plan, &client);
    check_client(&fixture, &client, OTHER_UID, accept_one(&fixture));
    client_end(&client);
    run("ip netns del spanprof-test-a");
    teardown(&fixture);
}

/* The same four numbers at the same time: each connection has its own SYN. */
static void test_same_addresses(void **state)
{
    struct fixture fixture;
    struct client client, other;
    (void)state;
    skip_without_veth();
    setup(&fixture, true);
    namespace_make("spanprof-test-a", true);
    namespace_make("spanprof-test-b", false);
    const struct plan plan = {
        .namespace = "spanprof-test-a", .uid = OTHER_UID, .cgroup = "spanprof-test-a"};
    const struct plan before = {.namespace = "spanprof-test-b",
                                .uid = THIRD_UID,
                                .cgroup = "spanprof-test-b",
                                .with_server = true};
    client_start(&fixture, &before, &other);
    client_start(&fixture, &plan, &client);
    int fd = accept_one(&fixture);
    client_end(&other);
    client_start(&fixture, &before, &other);
    assert_int_equal(count_noted(&fixture), 3);
    check_client(&fixture, &client, OTHER_UID, fd);
    client_end(&client);
    client_end(&other);
    run("ip netns del spanprof-test-a");
    run("ip netns del spanprof-test-b");
    teardown(&fixture);
}

/* As the service does it: without any right, with a map that it has inherited. */
static void test_without_rights(void **state)
{
    struct fixture fixture;
    struct client client;
    int status;
    (void)state;
    skip_without_veth();
    setup(&fixture, true);
    namespace_make("spanprof-test-a", true);
    const struct plan plan = {.namespace = "spanprof-test-a", .uid = OTHER_UID};
    client_start(&fixture, &plan, &client);
    int fd = accept_one(&fixture);
    pid_t child = fork();
    if (child == 0) {
        struct peer peer;
        if (setresuid(THIRD_UID, THIRD_UID, THIRD_UID))
            _exit(1);
        peers_identify(fixture.peers, fd, &fixture.sockets.endpoint, &peer);
        _exit(peer.uid == OTHER_UID ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(fd);
    client_end(&client);
    run("ip netns del spanprof-test-a");
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_namespace),  cmocka_unit_test(test_port_of_others),
        cmocka_unit_test(test_other_namespace), cmocka_unit_test(test_same_addresses),
        cmocka_unit_test(test_without_rights),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
