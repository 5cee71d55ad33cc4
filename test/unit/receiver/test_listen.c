/* SPDX-License-Identifier: Apache-2.0 */
/* Listening on TCP, and why it cannot be. */
#include "receiver/listen.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listen_localhost),
        cmocka_unit_test(test_listen_any),
        cmocka_unit_test(test_listen_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
