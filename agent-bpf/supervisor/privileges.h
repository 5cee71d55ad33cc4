/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Drops rights so that they cannot be regained, by the system calls themselves.
 * Thread: a child just forked, single-threaded.
 */
#include <stdint.h>
#include <sys/types.h>

struct privileges {
    uid_t uid;
    gid_t gid;
    uint64_t keep; /* bits of capabilities that stay permitted and effective */
};

#define PRIVILEGE(capability) (UINT64_C(1) << (capability))

/*
 * Account of `user`; if that is NULL or "" the owner of `directory` (the nearest parent that
 * exists). An unprivileged caller always gets itself unless user names another account: then
 * -EPERM. 0, -ENOENT (no such account), -EPERM.
 */
int privileges_target(const char *user, const char *directory, struct privileges *out);

/*
 * Drops bounding, ambient and inheritable sets, groups, ids, and all capabilities but `keep`;
 * forbids new privileges. Kept ones are those that the caller has. 0 or negative errno: then the
 * caller ends.
 */
int privileges_drop(const struct privileges *to);
