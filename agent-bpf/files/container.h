/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The container id in a process's cgroup path, as the container runtimes name their cgroups:
 *   docker      /docker/ID                     /system.slice/docker-ID.scope
 *   kubernetes  /kubepods/burstable/podUID/ID  /kubepods.slice/.../cri-containerd-ID.scope,
 *               crio-ID.scope
 *   podman      /libpod_parent/libpod-ID       .../libpod-ID.scope[/container]
 *   lxc         /lxc.payload.NAME/...          /lxc/NAME/...
 *   buildkit    .../buildkit/NAME              .../buildkit-NAME.scope, docker-KEY.scope
 *   containerd  /NAMESPACE/NAME, for the namespaces default, k8s.io and moby
 * where ID is 64 hex digits, also the 32-hex-task form of ECS (32 hex, '-', digits); NAME is 1 to
 * 128 of A-Z a-z 0-9 _ . -, and KEY 25 of a-z 0-9. The innermost wins. UID is a UUID, in slices of
 * systemd with '_' for '-'. Supervisors (conmon, lxc.monitor) are in no container.
 * Pure; thread: any.
 */
#include "base/bytes.h"

#define CONTAINER_ID_MAX      128
#define CONTAINER_POD_UID_MAX 36 /* a UUID */

/* Why the id of a process that seems to be in a container is not known. */
enum container_unknown {
    CONTAINER_UNKNOWN_NONE,      /* it is known, or the process is in no container */
    CONTAINER_UNKNOWN_NAME,      /* the name has other characters than those above */
    CONTAINER_UNKNOWN_NAME_LONG, /* it has more than CONTAINER_ID_MAX */
    CONTAINER_UNKNOWN_FORM,      /* the path is a runtime's, but of none of the forms above */
    CONTAINER_UNKNOWNS
};

struct container {
    struct bytes id; /* borrowed from the path; empty: none */
    enum container_unknown unknown;
    char pod_uid[CONTAINER_POD_UID_MAX + 1]; /* of Kubernetes, as in its API; empty: none */
};

/* From one cgroup path; borrowed from it. An ID alone, no NAME. Empty if there is none. */
struct bytes container_id_from_path(struct bytes cgroup_path);
/* The pod is the parent cgroup of the container's. Static pods (read from files by the kubelet)
 * have no UUID there, so pod_uid is empty: the API has another one for them. */
void container_from_path(struct bytes cgroup_path, struct container *container);
/* From the text of /proc/PID/cgroup (lines hierarchy:controllers:path), the unified hierarchy
 * first. */
void container_from_cgroup(struct bytes text, struct container *container);
