/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The container id in a process's cgroup path, as the container runtimes name their cgroups:
 *   docker      /docker/ID                     /system.slice/docker-ID.scope
 *   kubernetes  /kubepods/burstable/podUID/ID  /kubepods.slice/.../cri-containerd-ID.scope,
 *               crio-ID.scope
 *   podman      /libpod_parent/libpod-ID       .../libpod-ID.scope[/container]
 * where ID is 64 hex digits; also the 32-hex-task form of ECS (32 hex, '-', digits). The innermost
 * wins. UID is a UUID, in slices of systemd with '_' for '-'.
 * Pure; thread: any.
 */
#include "base/bytes.h"

#define CONTAINER_ID_MAX      64
#define CONTAINER_POD_UID_MAX 36 /* a UUID */

struct container {
    struct bytes id;                         /* borrowed from the path; empty: none */
    char pod_uid[CONTAINER_POD_UID_MAX + 1]; /* of Kubernetes, as in its API; empty: none */
};

/* From one cgroup path; the id is borrowed from it. Empty if it names no container. */
struct bytes container_id_from_path(struct bytes cgroup_path);
/* The pod is the parent cgroup of the container's. Static pods (read from files by the kubelet)
 * have no UUID there, so pod_uid is empty: the API has another one for them. */
void container_from_path(struct bytes cgroup_path, struct container *container);
/* From the text of /proc/PID/cgroup (lines hierarchy:controllers:path), the unified hierarchy
 * first. */
void container_from_cgroup(struct bytes text, struct container *container);
