/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets: a listener who is not allowed sees a connection that ends without a byte. */
#include "exporter/otlp/dialer.h"
#include "base/fd.h"
#include "base/stats.h"
#include "test/support/fixtures/skip.h"
#include "test/support/net/h2_end.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { STRANGER = 12345 };

struct dialed {
    struct loop *loop;
    struct config_endpoint endpoint;
    struct config_users socket_users;
    struct dialer dialer;
    char directory[64];
    int listening;
    int fd;
    bool done;
    char why[512];
};

static void on_dialed(struct dialer *dialer, int fd, struct tls *tls, const char *why)
{
    struct dialed *at = container_of(dialer, struct dialed, dialer);
    assert_null(tls);
    at->done = true;
    at->fd = fd;
    snprintf(at->why, sizeof(at->why), "%s", why ? why : "");
}

static void listen_as(struct dialed *at, uid_t user)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, at->endpoint.host);
    fd_closep(&at->listening);
    unlink(address.sun_path);
    at->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(at->listening, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(listen(at->listening, 1), 0);
    assert_int_equal(seteuid(getuid()), 0);
}

static int setup(void **state)
{
    struct dialed *at = calloc(1, sizeof(*at));
    if (!at || loop_open(&at->loop))
        return -1;
    *state = at;
    strcpy(at->directory, "/tmp/spanprof-dialer-XXXXXX");
    if (!mkdtemp(at->directory))
        return -1;
    at->endpoint = (struct config_endpoint){.set = true, .transport = CONFIG_UNIX};
    snprintf(at->endpoint.host, sizeof(at->endpoint.host), "%s/otlp.sock", at->directory);
    at->listening = at->fd = -1;
    dialer_init(&at->dialer,
                &(struct dialer_settings){
                    .loop = at->loop, .endpoint = &at->endpoint, .socket_users = &at->socket_users},
                on_dialed);
    return 0;
}

static int teardown(void **state)
{
    struct dialed *at = *state;
    dialer_close(&at->dialer);
    fd_close(at->fd);
    fd_close(at->listening);
    unlink(at->endpoint.host);
    int error = rmdir(at->directory);
    loop_close(at->loop);
    free(at);
    return error;
}

static bool is_done(void *context)
{
    return ((struct dialed *)context)->done;
}

static void dial(struct dialed *at)
{
    fd_closep(&at->fd);
    at->done = false;
    dialer_start(&at->dialer);
    assert_true(h2_run_loop(at->loop, is_done, at, 5000));
    assert_false(dialer_busy(&at->dialer));
}

static int64_t failed(void)
{
    return stats_find("spanprof_exporter_connections_total", "outcome=\"failed\"");
}

static void test_own_user(void **state)
{
    struct dialed *at = *state;
    listen_as(at, geteuid());
    dial(at);
    assert_true(at->fd >= 0);
}

static void test_nobody_listens(void **state)
{
    struct dialed *at = *state;
    dial(at);
    assert_int_equal(at->fd, -1);
    assert_non_null(strstr(at->why, strerror(ENOENT)));
}

static void test_stranger(void **state)
{
    struct dialed *at = *state;
    char expected[512], byte;
    int64_t before = failed();
    if (geteuid() != 0)
        skip_because("needs root, to listen as another user");
    listen_as(at, STRANGER);
    for (int i = 0; i < 2; i++) { /* as often as it is tried */
        dial(at);
        assert_int_equal(at->fd, -1);
        snprintf(expected, sizeof(expected),
                 "cannot connect to %s: user 12345 listens there, who may be a stranger; "
                 "socket_users: [12345] allows it",
                 at->endpoint.host);
        assert_string_equal(at->why, expected);
        int accepted = accept(at->listening, NULL, NULL);
        assert_true(accepted >= 0);
        assert_int_equal(recv(accepted, &byte, 1, MSG_DONTWAIT), 0); /* its end */
        close(accepted);
    }
    assert_int_equal(failed(), before + 2);
    at->socket_users =
        (struct config_users){.names = {{"12345"}, 1}, .n_ids = 1, .ids = {STRANGER}};
    dial(at);
    assert_true(at->fd >= 0);
    listen_as(at, STRANGER + 1); /* takes the path over */
    dial(at);
    assert_int_equal(at->fd, -1);
    listen_as(at, 0);
    dial(at);
    assert_true(at->fd >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_own_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_listens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stranger, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
