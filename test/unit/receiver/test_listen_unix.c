/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with a path: their mode, what is taken away and what is left alone. */
#include "receiver/listen.h"
#include "receiver/listen_unix.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

struct place {
    char directory[64];
    char path[80];
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    strcpy(place->directory, "/tmp/spanprof-unix-XXXXXX");
    if (!place || !mkdtemp(place->directory))
        return -1;
    snprintf(place->path, sizeof(place->path), "%s/otlp.sock", place->directory);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    unlink(place->path);
    int error = rmdir(place->directory); /* nothing else is left there */
    free(place);
    return error;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    int error = connect(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
    close(fd);
    return error;
}

static void test_mode(void **state)
{
    static const unsigned modes[] = {0666, 0660, 0600};
    const struct place *place = *state;
    umask(022);
    for (size_t i = 0; i < 3; i++) {
        struct stat status;
        struct listen_unix_file file;
        int fd = listen_unix(place->path, modes[i], 4, &file);
        assert_true(fd >= 0);
        assert_int_equal(lstat(place->path, &status), 0);
        assert_int_equal(status.st_mode, S_IFSOCK | modes[i]);
        assert_int_equal(connect_to(place->path), 0);
        listen_unix_remove(place->path, &file);
        close(fd);
        assert_int_equal(access(place->path, F_OK), -1);
    }
    assert_int_equal(umask(022), 022);
}

static void test_stale_and_in_use(void **state)
{
    const struct place *place = *state;
    int first = listen_unix(place->path, 0600, 4, NULL);
    assert_true(first >= 0);
    assert_int_equal(listen_unix(place->path, 0600, 4, NULL), -EADDRINUSE);
    assert_int_equal(connect_to(place->path), 0); /* it was left alone */
    close(first);                                 /* as when it is killed */
    assert_int_equal(connect_to(place->path), -ECONNREFUSED);
    int second = listen_unix(place->path, 0600, 4, NULL);
    assert_true(second >= 0);
    assert_int_equal(connect_to(place->path), 0);
    close(second);
}

/* Who has put another socket there since keeps it, whether it listens or not. */
static void test_sockets_of_others_stay(void **state)
{
    const struct place *place = *state;
    struct listen_unix_file first_file, second_file;
    int first = listen_unix(place->path, 0600, 4, &first_file);
    assert_true(first >= 0);
    unlink(place->path);
    listen_unix_remove(place->path, &first_file); /* there is nothing */
    int second = listen_unix(place->path, 0600, 4, &second_file);
    assert_true(second >= 0);
    listen_unix_remove(place->path, &first_file);
    assert_int_equal(connect_to(place->path), 0);
    listen_unix_remove(place->path, &second_file);
    assert_int_equal(access(place->path, F_OK), -1);
    close(first);
    close(second);
}

static void test_other_files_stay(void **state)
{
    const struct place *place = *state;
    close(open(place->path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(listen_unix(place->path, 0600, 4, NULL), -EADDRINUSE);
    assert_int_equal(access(place->path, F_OK), 0);
    unlink(place->path);
    assert_int_equal(symlink("/nowhere", place->path), 0);
    assert_int_equal(listen_unix(place->path, 0600, 4, NULL), -EADDRINUSE);
}

static void test_listen_open(void **state)
{
    const struct place *place = *state;
    struct config_endpoint endpoint = {.transport = CONFIG_UNIX, .socket_mode = 0660};
    struct listen_sockets sockets;
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    strcpy(endpoint.host, place->path);
    assert_int_equal(listen_open(&endpoint, "x::endpoint", &sockets, NULL), 0);
    assert_int_equal(sockets.n, 1);
    assert_int_equal(sockets.port, 0);
    struct listen_sockets more;
    assert_int_equal(listen_open(&endpoint, "x::endpoint", &more, &text), -EADDRINUSE);
    assert_non_null(memmem(text.data, text.len, place->path, strlen(place->path)));
    listen_remove(&sockets);
    listen_close(&sockets);
    assert_int_equal(access(place->path, F_OK), -1);
    strcpy(endpoint.host, "/nowhere/otlp.sock");
    assert_int_equal(listen_open(&endpoint, "x::endpoint", &sockets, NULL), -ENOENT);
}

/* Whoever waits at a socket that is shared is served, whichever of the two is closed. */
static void test_shared(void **state)
{
    const struct place *place = *state;
    struct config_endpoint endpoint = {.transport = CONFIG_UNIX, .socket_mode = 0600};
    struct listen_sockets first, second;
    strcpy(endpoint.host, place->path);
    assert_int_equal(listen_open(&endpoint, "x::endpoint", &first, NULL), 0);
    struct config_endpoint other = endpoint;
    other.socket_mode = 0666;
    assert_false(listen_share(&first, &other, &second));
    assert_true(listen_share(&first, &endpoint, &second));
    assert_int_equal(second.n, 1);
    assert_int_equal(fcntl(second.fds[0], F_GETFD), FD_CLOEXEC);
    assert_true(listen_same(&first, &second));
    assert_int_equal(connect_to(place->path), 0);
    listen_close(&first);
    assert_false(listen_same(&first, &second)); /* it has none any more */
    assert_int_equal(connect_to(place->path), 0);
    int fd = accept(second.fds[0], NULL, NULL);
    assert_true(fd >= 0);
    close(fd);
    listen_close(&second);
    assert_int_equal(connect_to(place->path), -ECONNREFUSED);
}

static void test_families(void **state)
{
    static const enum config_transport transports[] = {CONFIG_TCP4, CONFIG_TCP6};
    static const char *const hosts[] = {"localhost", ""};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct config_endpoint endpoint = {.transport = transports[i / 2]};
        struct listen_sockets sockets;
        struct sockaddr_storage address;
        socklen_t size = sizeof(address);
        strcpy(endpoint.host, hosts[i % 2]);
        int error = listen_open(&endpoint, "x::endpoint", &sockets, NULL);
        if (i / 2 && (error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT))
            continue; /* a node without IPv6 */
        assert_int_equal(error, 0);
        assert_int_equal(sockets.n, 1);
        assert_int_equal(getsockname(sockets.fds[0], (struct sockaddr *)&address, &size), 0);
        assert_int_equal(address.ss_family, i / 2 ? AF_INET6 : AF_INET);
        listen_close(&sockets);
    }
}

#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_mode),
        PLACE_TEST(test_stale_and_in_use),
        PLACE_TEST(test_sockets_of_others_stay),
        PLACE_TEST(test_other_files_stay),
        PLACE_TEST(test_listen_open),
        PLACE_TEST(test_shared),
        cmocka_unit_test(test_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
