/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By the system calls, not by libcap: what happens to rights should be readable in one place. The
 * order matters: the bounding set and the ids need rights that the last step takes away.
 */
#include "agent-bpf/supervisor/privileges.h"
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAPABILITIES 64
#define CALL(result) ((result) < 0 ? -errno : 0)

static int get_permitted(uint64_t *permitted)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    *permitted = (uint64_t)data[1].permitted << 32 | data[0].permitted;
    return 0;
}

static int set_capabilities(uint64_t set, uint64_t inheritable)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    uint32_t low = (uint32_t)set, high = (uint32_t)(set >> 32);
    struct __user_cap_data_struct data[2] = {
        {.permitted = low, .effective = low, .inheritable = (uint32_t)inheritable},
        {.permitted = high, .effective = high, .inheritable = (uint32_t)(inheritable >> 32)},
    };
    return CALL(syscall(SYS_capset, &header, data));
}

static int find_user(const char *user, struct privileges *out)
{
    char text[4096];
    struct passwd entry, *found = NULL;
    if (getpwnam_r(user, &entry, text, sizeof(text), &found) != 0 || !found)
        return -ENOENT;
    out->uid = found->pw_uid;
    out->gid = found->pw_gid;
    return 0;
}

static void find_owner(const char *directory, struct privileges *out)
{
    char path[4096];
    struct stat info;
    snprintf(path, sizeof(path), "%s", directory && *directory ? directory : ".");
    while (stat(path, &info) < 0) {
        char *slash = strrchr(path, '/');
        if (!slash)
            snprintf(path, sizeof(path), ".");
        else if (slash == path)
            path[1] = '\0';
        else
            *slash = '\0';
        if (!slash && stat(path, &info) < 0)
            return;
    }
    out->uid = info.st_uid;
    out->gid = info.st_gid;
}

int privileges_target(const char *user, const char *directory, struct privileges *out)
{
    uint64_t permitted = 0;
    *out = (struct privileges){.uid = geteuid(), .gid = getegid()};
    int r = get_permitted(&permitted);
    if (r < 0)
        return r;
    bool able = (permitted & PRIVILEGE(CAP_SETUID)) && (permitted & PRIVILEGE(CAP_SETGID));
    if (user && *user) {
        r = find_user(user, out);
        if (r == 0 && !able && out->uid != geteuid())
            r = -EPERM;
        return r == 0 && able && out->uid == 0 ? PRIVILEGES_OF_ROOT : r;
    }
    if (!able)
        return 0;
    find_owner(directory, out);
    if (out->uid != 0 || find_user("spanprof", out) == 0)
        return 0;
    return find_user("nobody", out);
}

void privileges_own_account(const char *name, struct privileges *privileges)
{
    uint64_t permitted = 0;
    struct privileges found = *privileges;
    bool able = get_permitted(&permitted) == 0 && (permitted & PRIVILEGE(CAP_SETUID)) &&
                (permitted & PRIVILEGE(CAP_SETGID));
    if (able && find_user(name, &found) == 0 && found.uid != 0)
        *privileges = found;
}

static int drop_bounding(uint64_t keep)
{
    for (unsigned long capability = 0; capability < CAPABILITIES; capability++) {
        int has = prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
        if (has < 0)
            return 0; /* past the kernel's last one */
        if (has == 0 || (keep & PRIVILEGE(capability)))
            continue;
        /* Without CAP_SETPCAP the set stays; no_new_privs makes it powerless. */
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 && errno != EPERM)
            return -errno;
    }
    return 0;
}

static int drop_ids(const struct privileges *to)
{
    uint64_t permitted = 0;
    int r = get_permitted(&permitted);
    if (r < 0)
        return r;
    if ((permitted & PRIVILEGE(CAP_SETGID)) && setgroups(0, NULL) < 0 && errno != EPERM)
        return -errno; /* EPERM: a user namespace that forbids it */
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return -errno;
    if (setresgid(to->gid, to->gid, to->gid) < 0 || setresuid(to->uid, to->uid, to->uid) < 0)
        return -errno;
    return CALL(prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0));
}

static int check_dropped(const struct privileges *to)
{
    uint64_t permitted = 0;
    uid_t real, effective, saved;
    int r = get_permitted(&permitted);
    if (r < 0)
        return r;
    if (getresuid(&real, &effective, &saved) < 0)
        return -errno;
    bool is_there = real == to->uid && effective == to->uid && saved == to->uid;
    return is_there && !(permitted & ~to->keep) ? 0 : -EPERM;
}

int privileges_drop(const struct privileges *to)
{
    uint64_t permitted = 0;
    int r = drop_bounding(to->keep);
    if (r == 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        r = -errno;
    if (r == 0)
        r = drop_ids(to);
    if (r == 0)
        r = get_permitted(&permitted);
    if (r == 0)
        r = set_capabilities(permitted & to->keep, 0);
    if (r == 0)
        r = CALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    return r == 0 ? check_dropped(to) : r;
}

/* As ambient ones: the program's file gives it none, and it may run as any user. */
int privileges_keep_over_exec(void)
{
    uint64_t permitted = 0;
    int r = get_permitted(&permitted);
    if (r == 0)
        r = set_capabilities(permitted, permitted);
    for (unsigned long capability = 0; r == 0 && capability < CAPABILITIES; capability++)
        if (permitted & PRIVILEGE(capability))
            r = CALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0));
    return r;
}

int privileges_settle(void)
{
    uint64_t permitted = 0;
    int r = CALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
    if (r == 0)
        r = get_permitted(&permitted);
    return r == 0 ? set_capabilities(permitted, 0) : r;
}

int privileges_limit(uint64_t keep)
{
    uint64_t permitted = 0;
    int r = drop_bounding(keep);
    if (r == 0)
        r = get_permitted(&permitted);
    if (r == 0)
        r = set_capabilities(permitted & keep, 0);
    return r == 0 ? CALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) : r;
}
