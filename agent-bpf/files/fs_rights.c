/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses system calls directly: glibc's setgroups() would change all threads. The effective
 * capabilities are reduced to the two that are needed to restore the rights, whatever our user is:
 * the kernel does that itself only for user 0, and only with the capabilities for files.
 *
 * A change of rights resets the signal on the parent's death and the dumpable flag (prctl(2)); both
 * are restored. A parent that dies in between is noticed by its socket.
 */
#include "agent-bpf/files/fs_rights.h"
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL(result)     ((result) < 0 ? -errno : 0)
#define SETS_IDS         (UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID)
#define ID_UNCHANGED     ((unsigned)-1) /* setfsuid(2): an invalid id, to query the current one */
#define FS_COLUMN        3              /* real, effective, saved, of the file system */
#define LOW_WORD(set)    ((uint32_t)(set))
#define HIGH_WORD(set)   ((uint32_t)((set) >> 32))
#define WORDS(low, high) ((uint64_t)(high) << 32 | (low))

/* ---- /proc/PID/status ---- */

/* The rest of the line that begins so; empty data: there is none. */
static struct bytes line_of(struct bytes status, const char *start)
{
    const uint8_t *at = status.len ? memmem(status.data, status.len, start, strlen(start)) : NULL;
    if (!at)
        return BYTES(NULL, 0);
    at += strlen(start);
    size_t left = status.len - (size_t)(at - status.data);
    const uint8_t *end = left ? memchr(at, '\n', left) : NULL;
    return end ? BYTES(at, (size_t)(end - at)) : BYTES(NULL, 0);
}

static bool next_id(struct bytes *line, uint32_t *id)
{
    while (line->len && (*line->data == ' ' || *line->data == '\t'))
        line->data++, line->len--;
    uint64_t number = 0;
    size_t digits = 0;
    for (; line->len && *line->data >= '0' && *line->data <= '9' && number <= UINT32_MAX; digits++)
        number = number * 10 + (uint64_t)(*line->data - '0'), line->data++, line->len--;
    *id = (uint32_t)number;
    return digits && number < UINT32_MAX;
}

static bool fs_id(struct bytes line, uint32_t *id)
{
    for (int column = 0; column <= FS_COLUMN; column++)
        if (!next_id(&line, id))
            return false;
    return line.len == 0;
}

bool fs_rights_parse(struct bytes status, struct fs_rights *rights)
{
    *rights = (struct fs_rights){0};
    struct bytes groups = line_of(status, "\nGroups:");
    if (!fs_id(line_of(status, "\nUid:"), &rights->uid) ||
        !fs_id(line_of(status, "\nGid:"), &rights->gid) || !groups.data)
        return false;
    uint32_t group;
    while (next_id(&groups, &group)) {
        if (rights->n_groups == FS_RIGHTS_GROUPS_MAX)
            return false;
        rights->groups[rights->n_groups++] = group;
    }
    return groups.len == 0;
}

/* ---- this thread ---- */

static int get_capabilities(struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return CALL(syscall(SYS_capget, &header, data));
}

static int set_effective(uint64_t effective)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    int error = get_capabilities(data);
    if (error)
        return error;
    data[0].effective = LOW_WORD(effective) & data[0].permitted;
    data[1].effective = HIGH_WORD(effective) & data[1].permitted;
    return CALL(syscall(SYS_capset, &header, data));
}

static int get_groups(struct fs_rights *rights)
{
    long n = syscall(SYS_getgroups, FS_RIGHTS_GROUPS_MAX, rights->groups);
    if (n < 0)
        return -errno;
    rights->n_groups = (size_t)n;
    return 0;
}

static int get_rights(struct fs_rights *rights)
{
    int error = get_groups(rights);
    rights->uid = (uid_t)syscall(SYS_setfsuid, ID_UNCHANGED);
    rights->gid = (gid_t)syscall(SYS_setfsgid, ID_UNCHANGED);
    return error;
}

static bool same_groups(const struct fs_rights *a, const struct fs_rights *b)
{
    return a->n_groups == b->n_groups &&
           memcmp(a->groups, b->groups, a->n_groups * sizeof(*a->groups)) == 0;
}

/* setfsuid() and setfsgid() return the previous id, not whether they succeeded. */
static int set_rights(const struct fs_rights *to, const struct fs_rights *from)
{
    if (!same_groups(to, from) && syscall(SYS_setgroups, to->n_groups, to->groups) < 0)
        return -errno;
    syscall(SYS_setfsgid, to->gid);
    syscall(SYS_setfsuid, to->uid);
    bool is_set = (gid_t)syscall(SYS_setfsgid, ID_UNCHANGED) == to->gid &&
                  (uid_t)syscall(SYS_setfsuid, ID_UNCHANGED) == to->uid;
    return is_set ? 0 : -EPERM;
}

static int get_own(struct fs_rights_own *own)
{
    struct __user_cap_data_struct data[2];
    int error = get_capabilities(data);
    if (error)
        return error;
    own->effective = WORDS(data[0].effective, data[1].effective);
    own->dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    if (prctl(PR_GET_PDEATHSIG, &own->death_signal, 0, 0, 0) < 0)
        return -errno;
    return get_rights(&own->rights);
}

int fs_rights_take(const struct fs_rights *rights, struct fs_rights_own *own)
{
    int error = get_own(own);
    if (error)
        return error;
    error = set_rights(rights, &own->rights);
    if (!error)
        error = set_effective(own->effective & SETS_IDS);
    if (error)
        fs_rights_return(own);
    return error;
}

void fs_rights_return(const struct fs_rights_own *own)
{
    struct fs_rights now;
    if (get_rights(&now) || set_rights(&own->rights, &now) || set_effective(own->effective) ||
        prctl(PR_SET_PDEATHSIG, own->death_signal, 0, 0, 0) < 0)
        abort();
    if (own->dumpable == 1)
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {{0}, {0}};
    return CALL(syscall(SYS_capset, &header, none));
}

int fs_rights_become(const struct fs_rights *rights)
{
    struct fs_rights own;
    int death_signal;
    uid_t stays = getuid() ? ID_UNCHANGED : rights->uid;
    int error = CALL(prctl(PR_GET_PDEATHSIG, &death_signal, 0, 0, 0));
    if (!error)
        error = get_groups(&own);
    if (!error && !same_groups(rights, &own))
        error = CALL(syscall(SYS_setgroups, rights->n_groups, rights->groups));
    if (!error)
        error = CALL(syscall(SYS_setresgid, rights->gid, rights->gid, rights->gid));
    if (!error)
        error = CALL(syscall(SYS_setresuid, stays, rights->uid, stays));
    if (!error)
        error = drop_capabilities();
    if (!error)
        error = CALL(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    return error ? error : CALL(prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0));
}
