/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The container id in a process's cgroup path, as the container runtimes name their cgroups:
 *   docker      /docker/ID                     /system.slice/docker-ID.scope
 *   kubernetes  /kubepods/burstable/podUID/ID  /kubepods.slice/.../cri-containerd-ID.scope,
 * crio-ID.scope podman      /libpod_parent/libpod-ID       .../libpod-ID.scope[/container] where ID
 * is 64 hex digits; also the 32-hex-task form of ECS (32 hex, '-', digits). The innermost wins.
 * Pure; thread: any.
 */
#include "base/bytes.h"

#define CONTAINER_ID_MAX 64

/* From one cgroup path; the id is a part of it. Empty if it names no container. */
struct bytes container_id_from_path(struct bytes cgroup_path);
/* From the text of /proc/PID/cgroup (lines hierarchy:controllers:path), the unified hierarchy
 * first. */
struct bytes container_id_from_cgroup(struct bytes text);
