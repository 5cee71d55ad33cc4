/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/container.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define ECS "0123456789abcdef0123456789abcdef-1234567890"

static void expect(const char *path, const char *id)
{
    struct bytes found = container_id_from_path(BYTES_STR(path));
    if (!bytes_is(found, id))
        fail_msg("%s: got '%.*s'", path, (int)found.len, (const char *)found.data);
}

static void runtimes(void **state)
{
    (void)state;
    expect("/docker/" ID, ID);
    expect("/system.slice/docker-" ID ".scope", ID);
    expect("/kubepods/burstable/pod1b2c/" ID, ID);
    expect("/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope", ID);
    expect("/kubepods.slice/kubepods-pod1.slice/crio-" ID ".scope", ID);
    expect("/system.slice/containerd.service/kubepods-burstable-pod1.slice:cri-containerd:" ID, ID);
    expect("/libpod_parent/libpod-" ID, ID);
    expect("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container",
           ID);
    expect("/ecs/task/" ECS, ECS);
    expect("/docker/" ID "/", ID);
    expect("/../../docker-" ID ".scope", ID);
}

static void none(void **state)
{
    (void)state;
    expect("", "");
    expect("/", "");
    expect("/system.slice/ssh.service", "");
    expect("/user.slice/user-0.slice/session-1.scope", "");
    expect("/docker/0123456789abcdef", "");
    expect("/docker/" ID "0", "");
    expect("/x/z" ID, "");
    expect("/machine.slice/libpod-conmon-" ID ".scope", "");
    expect("/docker/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", "");
    expect("/ecs/0123456789abcdef0123456789abcdef-12x", "");
}

static void innermost(void **state)
{
    (void)state;
    expect("/docker/" ID "/docker/" ID2, ID2);
    expect("/docker/" ID "/system.slice/some.service", ID);
}

static void lines(void **state)
{
    (void)state;
    const char *both =
        "12:cpu,cpuacct:/docker/" ID2 "\n1:name=systemd:/docker/" ID2 "\n0::/docker/" ID "\n";
    assert_true(bytes_is(container_id_from_cgroup(BYTES_STR(both)), ID));
    const char *old = "12:cpu:/\n5:memory:/docker/" ID "\n0::/init.scope\n";
    assert_true(bytes_is(container_id_from_cgroup(BYTES_STR(old)), ID));
    assert_int_equal(container_id_from_cgroup(BYTES_STR("0::/\n")).len, 0);
    assert_int_equal(container_id_from_cgroup(BYTES_STR("nonsense\n:\n::\n\n0::")).len, 0);
    assert_int_equal(container_id_from_cgroup((struct bytes){0}).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runtimes),
        cmocka_unit_test(none),
        cmocka_unit_test(innermost),
        cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
