/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/files/container.h"
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

#define UID     "0b9c1f2e-3d4a-4b5c-8d6e-7f8091a2b3c4"
#define UID_    "0b9c1f2e_3d4a_4b5c_8d6e_7f8091a2b3c4"
#define UID_MIX "0b9c1f2e_3d4a-4b5c_8d6e_7f8091a2b3c4"

static void expect_pod(const char *path, const char *uid)
{
    struct container container;
    container_from_path(BYTES_STR(path), &container);
    if (strcmp(container.pod_uid, uid) != 0)
        fail_msg("%s: got '%s'", path, container.pod_uid);
    if (*uid)
        assert_true(bytes_is(container.id, ID));
}

static void pods(void **state)
{
    (void)state;
    /* cgroup v1 and v2 without systemd: Docker, containerd, CRI-O */
    expect_pod("/kubepods/burstable/pod" UID "/" ID, UID);
    expect_pod("/kubepods/pod" UID "/" ID, UID);
    expect_pod("/kubepods/besteffort/pod" UID "/crio-" ID, UID);
    /* slices of systemd */
    expect_pod("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
               ".slice/cri-containerd-" ID ".scope",
               UID);
    expect_pod("/kubepods.slice/kubepods-pod" UID_ ".slice/docker-" ID ".scope", UID);
    expect_pod("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
               ".slice/crio-" ID ".scope/container",
               UID);
    /* kind: a node in a container */
    expect_pod("/system.slice/docker-" ID2
               ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
               "kubelet-kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope",
               UID);
    /* containerd with cgroupfs paths under systemd's driver */
    expect_pod("/system.slice/containerd.service/kubepods-burstable-pod" UID_
               ".slice:cri-containerd:" ID,
               UID);
    /* as seen from within another cgroup namespace */
    expect_pod("/../../pod" UID "/" ID, UID);
    expect_pod("/../../kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope", UID);
}

static void no_pods(void **state)
{
    (void)state;
    expect_pod("/docker/" ID, "");
    expect_pod("/kubepods/burstable/pod" UID, "");          /* no container in it */
    expect_pod("/kubepods/burstable/pod" UID "/x/" ID, ""); /* somebody else's cgroups in it */
    expect_pod("/docker/" ID "/pod" UID "/y", "");
    expect_pod("/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" ID, ""); /* from a file */
    expect_pod("/kubepods.slice/kubepods-pod" UID_MIX ".slice/cri-containerd-" ID ".scope", "");
    expect_pod("/kubepods/pod" UID "0/" ID, "");
    expect_pod("/kubepods/xpod" UID "/" ID, "");
    expect_pod("/kubepods/pod" UID_ "g.slice/" ID, "");
    expect_pod("/machine.slice/machine-libpod_pod_" ID2 ".slice/libpod-" ID ".scope", "");
    expect_pod("", "");
    expect_pod("/", "");
}

static void expect_name(const char *path, const char *name)
{
    struct container container;
    container_from_path(BYTES_STR(path), &container);
    if (!bytes_is(container.id, name) || container.unknown)
        fail_msg("%s: got '%.*s', unknown %d", path, (int)container.id.len,
                 (const char *)container.id.data, container.unknown);
}

#define KEY "0a1b2c3d4e5f6g7h8i9jklmno"

static void names(void **state)
{
    (void)state;
    expect_name("/lxc.payload.mail", "mail");
    expect_name("/lxc.payload.mail/system.slice/postfix.service", "mail");
    expect_name("/user.slice/user-1000.slice/user@1000.service/app.slice/lxc.payload.web-01",
                "web-01");
    expect_name("/system.slice/lxc.payload.a_B.2.scope", "a_B.2");
    expect_name("/lxc/100/ns/init.scope", "100");
    expect_name("/lxc.payload.outer/lxc.payload.inner/init.scope", "inner");
    expect_name("/lxc.payload.outer/docker/" ID, ID);
    expect_name("/docker/" ID "/lxc.payload.inner", "inner");
    expect_name("/buildkit/" KEY, KEY);
    expect_name("/docker/buildkit/" KEY "/x", KEY);
    expect_name("/kubepods/burstable/pod1/" ID "/buildkit/" KEY, KEY);
    expect_name("/system.slice/buildkit-" KEY ".scope", KEY);
    expect_name("/system.slice/docker-" KEY ".scope", KEY);
    expect_name("/default/redis", "redis");
    expect_name("/k8s.io/" ID, ID);
    expect_name("/moby/x", "x");
    expect_name("/../default/redis", "redis");
    expect_name("/default/" ECS, ECS);
    assert_int_equal(container_id_from_path(BYTES_STR("/lxc.payload.mail")).len, 0); /* no ID */
}

static void no_names(void **state)
{
    (void)state;
    expect_name("/lxc.monitor.mail", "");
    expect_name("/lxc.monitor/100", "");
    expect_name("/lxc.payload.", "");
    expect_name("/lxc", "");
    expect_name("/lxc/..", "");
    expect_name("/buildkit", "");
    expect_name("/system.slice/buildkit.service", "");
    expect_name("/system.slice/default/redis", ""); /* somebody's own cgroup */
    expect_name("/work/redis", "");                 /* may be a namespace of containerd, or not */
    expect_name("/system.slice/docker.service", "");
    expect_name("/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/emulator", "");
    expect_name("/docker/" ID "/machine.slice/libpod-conmon-" ID2 ".scope", ID);
}

static void expect_unknown(const char *path, enum container_unknown unknown)
{
    struct container container;
    container_from_path(BYTES_STR(path), &container);
    if (container.id.len || container.unknown != unknown)
        fail_msg("%s: got '%.*s', unknown %d", path, (int)container.id.len,
                 (const char *)container.id.data, container.unknown);
}

static void unknown(void **state)
{
    char path[200] = "/lxc/";
    struct container container;
    (void)state;
    memset(path + 5, 'n', 128);
    expect_name(path, path + 5);
    path[5 + 128] = 'n';
    expect_unknown(path, CONTAINER_UNKNOWN_NAME_LONG);
    expect_unknown("/lxc.payload.m a i l", CONTAINER_UNKNOWN_NAME);
    expect_unknown("/buildkit/\303\244", CONTAINER_UNKNOWN_NAME);
    expect_unknown("/docker/" ID "/lxc.payload.a b", CONTAINER_UNKNOWN_NAME); /* not the outer's */
    expect_unknown("/kubepods/burstable/pod" UID, CONTAINER_UNKNOWN_FORM);
    expect_unknown("/machine.slice/machine-debian.scope/payload", CONTAINER_UNKNOWN_FORM);
    expect_unknown("/system.slice/docker-0123.scope", CONTAINER_UNKNOWN_FORM);
    expect_unknown("/docker/..", CONTAINER_UNKNOWN_NONE);
    container_from_cgroup(BYTES_STR("3:cpu:/lxc.payload.a b\n2:memory:/docker/" ID "\n"),
                          &container);
    assert_true(bytes_is(container.id, ID));
    assert_int_equal(container.unknown, CONTAINER_UNKNOWN_NONE);
    container_from_cgroup(BYTES_STR("2:memory:/docker/" ID "\n0::/lxc.payload.a b\n"), &container);
    assert_true(bytes_is(container.id, ID));
    container_from_cgroup(BYTES_STR("2:memory:/\n0::/lxc.payload.a b\n"), &container);
    assert_int_equal(container.unknown, CONTAINER_UNKNOWN_NAME);
}

static struct bytes container_id_from_cgroup(struct bytes text)
{
    struct container container;
    container_from_cgroup(text, &container);
    return container.id;
}

static void pod_of_lines(void **state)
{
    (void)state;
    struct container container;
    const char *both = "12:cpu,cpuacct:/docker/" ID2 "\n"
                       "4:memory:/kubepods/pod" UID "/" ID "\n"
                       "0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope\n";
    container_from_cgroup(BYTES_STR(both), &container);
    assert_true(bytes_is(container.id, ID));
    assert_string_equal(container.pod_uid, UID);
    const char *old = "12:cpu,cpuacct:/kubepods/pod" UID "/" ID "\n4:memory:/docker/" ID2 "\n";
    container_from_cgroup(BYTES_STR(old), &container);
    assert_true(bytes_is(container.id, ID));
    assert_string_equal(container.pod_uid, UID);
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
        cmocka_unit_test(runtimes),     cmocka_unit_test(none),  cmocka_unit_test(innermost),
        cmocka_unit_test(lines),        cmocka_unit_test(pods),  cmocka_unit_test(no_pods),
        cmocka_unit_test(pod_of_lines), cmocka_unit_test(names), cmocka_unit_test(no_names),
        cmocka_unit_test(unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
