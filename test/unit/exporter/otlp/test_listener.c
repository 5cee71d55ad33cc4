/* SPDX-License-Identifier: Apache-2.0 */
/* Who may listen where, as root sees it: sockets and directories of several users. */
#include "exporter/otlp/listener.h"
#include "base/fd.h"
#include "config/users.h"
#include "test/support/fixtures/skip.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { ROOT = 0, SERVICE = 12344, STRANGER = 12345, COLLECTOR = 12346, NOBODY = 65534 };

static char base[64];

static const char *place(const char *name)
{
    static char path[96]; /* with the name of a socket it fits sun_path */
    snprintf(path, sizeof(path), "%s/%s", base, name);
    return path;
}

static void directory_make(const char *name, uid_t owner, mode_t mode)
{
    assert_int_equal(mkdir(place(name), 0700), 0);
    assert_int_equal(chown(place(name), owner, owner), 0);
    assert_int_equal(chmod(place(name), mode), 0);
}

static void link_make(const char *name, const char *target)
{
    assert_int_equal(symlink(target, place(name)), 0);
}

static int setup(void **state)
{
    char own[100];
    (void)state;
    if (geteuid() != 0)
        return 0;
    strcpy(base, "/run/spanprof-listener-XXXXXX");
    if (!mkdtemp(base) || chmod(base, 0755))
        return -1;
    directory_make("own", COLLECTOR, 0755);
    directory_make("wide", COLLECTOR, 0777);
    directory_make("shared", ROOT, 01777);
    directory_make("shared/made", STRANGER, 0777);
    directory_make("service", SERVICE, 0755);
    directory_make("service/own", COLLECTOR, 0755);
    directory_make("stranger", STRANGER, 0755);
    directory_make("stranger/own", COLLECTOR, 0755);
    directory_make("group", ROOT, 0775);
    directory_make("group/own", COLLECTOR, 0755);
    directory_make("nobody", NOBODY, 0755);
    snprintf(own, sizeof(own), "%s", place("own"));
    link_make("link", "own");
    link_make("link to link", "./link");
    link_make("absolute", own);
    link_make("shared/link", own);
    link_make("link to shared", "shared/link");
    return 0;
}

static int teardown(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", base);
    return *base ? system(command) : 0;
}

/* As the user who listens; the service's user connects and asks. */
static int listen_as(uid_t user, const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)address, sizeof(*address)), 0);
    assert_int_equal(chmod(address->sun_path, 0666), 0);
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(seteuid(0), 0);
    return fd;
}

static bool may_have(const char *directory, uid_t listener, uid_t service,
                     const struct config_users *users, char why[LISTENER_WHY_MAX])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/otlp.sock", place(directory));
    int listening _cleanup_fd_ = listen_as(listener, &address);
    assert_true(listening >= 0);
    int fd _cleanup_fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(seteuid(service), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    bool may = listener_may_have(fd, address.sun_path, users, why);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(unlink(address.sun_path), 0);
    return may;
}

static void need_root(void)
{
    if (geteuid() != 0)
        skip_because("needs root, to listen as other users");
}

static void test_without_names(void **state)
{
    static const struct {
        const char *directory;
        uid_t listener;
        bool may;
    } cases[] = {
        {"own", COLLECTOR, true},
        {"own", STRANGER, false},
        {"own", SERVICE, true},
        {"own", ROOT, true},
        {"wide", COLLECTOR, true},
        {"wide", STRANGER, false},
        {"shared", COLLECTOR, false},
        {"shared", SERVICE, true},
        {"shared", ROOT, true},
        {"shared/made", STRANGER, false}, /* anybody could make it */
        {"service/own", COLLECTOR, true},
        {"stranger/own", COLLECTOR, false}, /* its place may have been taken */
        {"group/own", COLLECTOR, false},
        {"nobody", NOBODY, false},
        {"link", COLLECTOR, true},
        {"link to link", COLLECTOR, true},
        {"absolute", COLLECTOR, true},
        {"absolute", STRANGER, false},
        {"shared/link", COLLECTOR, false},
        {"link to shared", COLLECTOR, false},
    };
    static const struct config_users none;
    char why[LISTENER_WHY_MAX];
    (void)state;
    need_root();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (may_have(cases[i].directory, cases[i].listener, SERVICE, &none, why) != cases[i].may)
            fail_msg("%s, user %u", cases[i].directory, cases[i].listener);
}

/* A link within a link within ..., all of them root's. */
static void test_links_are_bounded(void **state)
{
    static const struct config_users none;
    char why[LISTENER_WHY_MAX], name[16], target[16];
    (void)state;
    need_root();
    for (int i = 0; i <= LISTENER_LINKS_MAX; i++) {
        snprintf(name, sizeof(name), "link%d", i);
        snprintf(target, sizeof(target), "link%d", i - 1);
        link_make(name, i ? target : "own");
        assert_int_equal(may_have(name, COLLECTOR, SERVICE, &none, why), i < LISTENER_LINKS_MAX);
    }
}

/* Its number is that of all users of other user namespaces. */
static void test_nobody(void **state)
{
    static const struct config_users none;
    const struct config_users named = {.names = {{"65534"}, 1}, .n_ids = 1, .ids = {NOBODY}};
    char why[LISTENER_WHY_MAX];
    (void)state;
    need_root();
    assert_false(may_have("shared", NOBODY, NOBODY, &none, why));
    assert_false(may_have("nobody", NOBODY, NOBODY, &none, why));
    assert_true(may_have("shared", NOBODY, NOBODY, &named, why));
}

static void users_of(struct config *config, const char *name)
{
    *config = (struct config){.n_exporters = 1};
    config->exporters[0] = (struct config_exporter){.id = "otlp_grpc",
                                                    .type = CONFIG_EXPORTER_OTLP_GRPC,
                                                    .otlp.socket_users = {{{name}, 1}, 7, {0}}};
    users_find(config);
}

static void test_with_names(void **state)
{
    static struct config config;
    const struct config_users *users = &config.exporters[0].otlp.socket_users;
    char why[LISTENER_WHY_MAX];
    (void)state;
    need_root();
    users_of(&config, "12346");
    assert_true(may_have("shared", COLLECTOR, SERVICE, users, why));
    assert_true(may_have("shared", ROOT, SERVICE, users, why));
    assert_false(may_have("shared", SERVICE, SERVICE, users, why));
    assert_false(may_have("own", STRANGER, SERVICE, users, why));
    assert_string_equal(why, "user 12345 listens there, who is not among socket_users");
    users_of(&config, "daemon");
    assert_true(may_have("shared", 1, SERVICE, users, why));
    users_of(&config, "no such user");
    assert_int_equal(users->n_ids, 0);
    assert_false(may_have("own", COLLECTOR, SERVICE, users, why)); /* not the default */
    users_of(&config, "4294967295");
    assert_int_equal(users->n_ids, 0);
}

static void test_why(void **state)
{
    static const struct config_users none;
    char why[LISTENER_WHY_MAX];
    (void)state;
    need_root();
    assert_false(may_have("shared", 4294967294, SERVICE, &none, why));
    assert_string_equal(why, "user 4294967294 listens there, who may be a stranger; "
                             "socket_users: [4294967294] allows it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_names), cmocka_unit_test(test_links_are_bounded),
        cmocka_unit_test(test_nobody),        cmocka_unit_test(test_with_names),
        cmocka_unit_test(test_why),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
