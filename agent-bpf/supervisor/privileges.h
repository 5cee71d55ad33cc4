/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Drops rights so that they cannot be regained, by the system calls themselves.
 * Thread: a child just forked or executed, single-threaded.
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
 * Whom the service runs as, never root if there is a choice: the account `user`; if that is NULL or
 * "", the owner of `directory` (the nearest parent that exists), and if that is root, the account
 * "spanprof", otherwise "nobody". A caller without CAP_SETUID and CAP_SETGID always gets itself,
 * unless user names another account: then -EPERM. 0, PRIVILEGES_OF_ROOT (user names root, and the
 * caller could be another), -ENOENT (no such account), -EPERM.
 */
enum { PRIVILEGES_OF_ROOT = 1 };
int privileges_target(const char *user, const char *directory, struct privileges *out);

/* The account of this name instead, if there is one and the caller may be another user. */
void privileges_own_account(const char *name, struct privileges *privileges);

/* Gives up, in this process, all capabilities but these, and whatever programs could give. What is
 * not there is no error. 0 or negative errno. */
int privileges_limit(uint64_t keep);

/*
 * Drops bounding, ambient and inheritable sets, groups, ids, and all capabilities but `keep`;
 * forbids new privileges. Kept ones are those that the caller has. 0 or negative errno: then the
 * caller ends.
 */
int privileges_drop(const struct privileges *to);

/* For a program executed next: it begins with the capabilities that this process has. 0 or negative
 * errno. */
int privileges_keep_over_exec(void);
/* In that program: what it executes in turn has none of them. 0 or negative errno. */
int privileges_settle(void);
