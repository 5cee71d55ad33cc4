/* SPDX-License-Identifier: Apache-2.0 */
/* Listening on TCP, and why it cannot be. */
#include "receiver/listen.h"
#include "receiver/listen_name.h"
#include "test/support/net/otlp_client.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static void test_listen_localhost(void **state)
{
    const struct config_endpoint endpoint = {.host = "localhost"};
    struct listen_sockets sockets;
    (void)state;
    assert_int_equal(listen_open(&endpoint, "x::endpoint", &sockets, NULL), 0);
    assert_true(sockets.port != 0);
    for (int v6 = 0; v6 < 2; v6++) {
        int probe = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
        bool has = v6 ? sockets.n == 2 : true;
        if (probe >= 0)
            close(probe);
        int fd = otlp_client_connect(sockets.port, v6);
        assert_int_equal(fd >= 0, has);
        if (fd >= 0)
            close(fd);
    }
    listen_close(&sockets);
    listen_close(&sockets);
    assert_int_equal(otlp_client_connect(sockets.port, false), -ECONNREFUSED);
}

static void test_listen_any(void **state)
{
    static const char *const hosts[] = {"", "::", "0.0.0.0"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct config_endpoint endpoint = {.port = 0};
        struct listen_sockets sockets;
        strcpy(endpoint.host, hosts[i]);
        assert_int_equal(listen_open(&endpoint, "x::endpoint", &sockets, NULL), 0);
        int fd = otlp_client_connect(sockets.port, false);
        assert_true(fd >= 0);
        close(fd);
        listen_close(&sockets);
    }
}

static void assert_explained(const struct config_endpoint *endpoint, int error, const char *text)
{
    _cleanup_buf_ struct buf sentence = BUF_INIT(0);
    struct listen_sockets sockets;
    assert_int_equal(
        listen_open(endpoint, "receivers::otlp::protocols::grpc::endpoint", &sockets, &sentence),
        error);
    assert_int_equal(sockets.n, 0);
    assert_int_equal(buf_append(&sentence, "", 1), 0);
    assert_non_null(
        strstr((const char *)sentence.data, "receivers::otlp::protocols::grpc::endpoint"));
    assert_non_null(strstr((const char *)sentence.data, endpoint->host));
    if (!strstr((const char *)sentence.data, text))
        fail_msg("%s", (const char *)sentence.data);
}

static void test_listen_errors(void **state)
{
    const struct config_endpoint any = {.host = "127.0.0.1"};
    struct listen_sockets sockets;
    (void)state;
    assert_int_equal(listen_open(&any, "x::endpoint", &sockets, NULL), 0);
    struct config_endpoint taken = {.host = "127.0.0.1", .port = sockets.port};
    assert_explained(&taken, -EADDRINUSE, "in use by another program");
    strcpy(taken.host, "localhost");
    assert_explained(&taken, -EADDRINUSE, "in use by another program");
    listen_close(&sockets);
    const struct config_endpoint elsewhere = {.host = "192.0.2.1", .port = 14317};
    assert_explained(&elsewhere, -EADDRNOTAVAIL, "does not have that address");
    struct config_endpoint unknown = {.port = 14317};
    memset(unknown.host, 'x', 64); /* no name can be: no server of names is asked */
    assert_explained(&unknown, -ENOENT, "not known");
}

static void test_what_is_a_name(void **state)
{
    static const char *const none[] = {"", "::", "localhost", "0.0.0.0", "127.0.0.1", "fe80::1"};
    struct config_endpoint endpoint = {.host = "node.example"};
    (void)state;
    assert_true(listen_has_name(&endpoint));
    assert_int_equal(listen_open(&endpoint, "x::endpoint", &(struct listen_sockets){.n = 0}, NULL),
                     -ENOENT);
    endpoint.transport = CONFIG_UNIX;
    assert_false(listen_has_name(&endpoint));
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
        struct config_endpoint other = {.port = 0};
        strcpy(other.host, none[i]);
        assert_false(listen_has_name(&other));
    }
}

static int open_name(enum config_transport transport, const char *addresses, size_t *n)
{
    const struct config_endpoint endpoint = {.host = "node.example", .transport = transport};
    const struct listen_name name = {.addresses = BYTES_STR(addresses)};
    struct listen_sockets sockets;
    int error = listen_open_name(&endpoint, &name, "x::endpoint", &sockets, NULL);
    *n = sockets.n;
    listen_close(&sockets);
    return error;
}

/* The addresses are what another process says, whatever that is. */
static void test_listen_on_a_name(void **state)
{
    static const char *const wrong[] = {"",    "\n", "127.0.0.1", "node.example\n", "300.0.0.1\n",
                                        "%n\n"};
    char many[LISTEN_ADDRESSES_MAX];
    size_t n;
    (void)state;
    assert_int_equal(open_name(CONFIG_TCP, "127.0.0.1\n", &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(open_name(CONFIG_TCP, "x\n192.0.2.1\n127.0.0.1\n127.0.0.2\n", &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(open_name(CONFIG_TCP4, "::1\n127.0.0.1\n", &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(open_name(CONFIG_TCP6, "127.0.0.1\n", &n), -ENOENT);
    assert_int_equal(open_name(CONFIG_TCP, "192.0.2.1\n", &n), -EADDRNOTAVAIL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(open_name(CONFIG_TCP, wrong[i], &n), -ENOENT);
    memset(many, '1', sizeof(many));
    many[sizeof(many) - 2] = '\n';
    many[sizeof(many) - 1] = '\0';
    assert_int_equal(open_name(CONFIG_TCP, many, &n), -ENOENT);
}

static void test_name_that_nobody_tells(void **state)
{
    const struct config_endpoint endpoint = {.host = "node.example", .port = 4317};
    const struct listen_name name = {.error = -ETIMEDOUT};
    _cleanup_buf_ struct buf sentence = BUF_INIT(0);
    struct listen_sockets sockets;
    (void)state;
    assert_int_equal(listen_open_name(&endpoint, &name, "x::endpoint", &sockets, &sentence),
                     -ETIMEDOUT);
    assert_int_equal(sockets.n, 0);
    assert_int_equal(buf_append(&sentence, "", 1), 0);
    assert_string_equal((const char *)sentence.data,
                        "x::endpoint: cannot listen on node.example:4317: no server of names tells "
                        "the host's address in time: write its address, or put the name into "
                        "/etc/hosts");
}

static void test_addresses_of_a_name(void **state)
{
    _cleanup_buf_ struct buf addresses = BUF_INIT(LISTEN_ADDRESSES_MAX);
    char none[65];
    (void)state;
    assert_int_equal(listen_name_resolve("localhost", &addresses), 0);
    assert_int_equal(buf_append(&addresses, "", 1), 0);
    assert_true(strstr((const char *)addresses.data, "127.0.0.1\n") ||
                strstr((const char *)addresses.data, "::1\n"));
    memset(none, 'x', 64); /* no name can be: no server of names is asked */
    none[64] = '\0';
    assert_int_equal(listen_name_resolve(none, &addresses), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listen_localhost),    cmocka_unit_test(test_listen_any),
        cmocka_unit_test(test_listen_errors),       cmocka_unit_test(test_what_is_a_name),
        cmocka_unit_test(test_listen_on_a_name),    cmocka_unit_test(test_name_that_nobody_tells),
        cmocka_unit_test(test_addresses_of_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
