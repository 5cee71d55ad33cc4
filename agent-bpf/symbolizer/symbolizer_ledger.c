/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbolizer/symbolizer_ledger.h"
#include "agent-bpf/files/fs_rights.h"
#include "base/clock.h"
#include "base/memfd.h"
#include "base/stats.h"
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

STAT_LOSS(hangs, "spanprof_symbolizer_hangs_total",
          "Symbolizers that ended while they were inspecting a process.");

#define BANS_MAX       256
#define TEXT_BYTES_MAX (64 * 1024)

struct ban {
    enum process_owner_kind kind; /* OWNER_NONE: free */
    uint32_t strikes;
    uint64_t key;
    uint64_t until_ns;
};

/* An owner, written before `busy` and read after it. */
struct symbolizer_ledger {
    _Atomic bool busy;
    struct process_owner current;
    struct ban bans[BANS_MAX];
};

static const uint64_t ban_ns[] = {2 * NS_PER_SEC, 60 * NS_PER_SEC, 600 * NS_PER_SEC,
                                  3600 * NS_PER_SEC};

int symbolizer_ledger_make(void)
{
    return memfd_shared("spanprof-ledger", sizeof(struct symbolizer_ledger));
}

int symbolizer_ledger_open(int fd, struct symbolizer_ledger **out)
{
    *out = memfd_map(fd, sizeof(struct symbolizer_ledger));
    return *out ? 0 : -ENOMEM;
}

void symbolizer_ledger_close(struct symbolizer_ledger *ledger)
{
    if (ledger)
        munmap(ledger, sizeof(*ledger));
}

/* ---- owners ---- */

static bool take_line(struct bytes *text, struct bytes *line)
{
    if (!text->len)
        return false;
    const uint8_t *end = memchr(text->data, '\n', text->len);
    *line = BYTES(text->data, end ? (size_t)(end - text->data) : text->len);
    size_t skip = line->len + (end ? 1 : 0);
    *text = BYTES(text->data + skip, text->len - skip);
    return true;
}

/* Its user may make cgroups of his own below this one. */
static struct bytes cut_at_user_slice(struct bytes path)
{
    static const char start[] = "/user.slice/user-";
    size_t n = sizeof(start) - 1;
    const uint8_t *end = path.len > n && !memcmp(path.data, start, n)
                             ? memchr(path.data + n, '/', path.len - n)
                             : NULL;
    return end ? BYTES(path.data, (size_t)(end - path.data)) : path;
}

/* Its path, of version 2 where there is that. Empty: the root. */
static struct bytes cgroup_path(struct bytes text)
{
    struct bytes line, found = {0};
    while (take_line(&text, &line)) {
        const uint8_t *at = line.len ? memchr(line.data, '/', line.len) : NULL;
        struct bytes path = at ? BYTES(at, line.len - (size_t)(at - line.data)) : BYTES(NULL, 0);
        if (path.len == 1)
            path.len = 0;
        if (line.len > 3 && !memcmp(line.data, "0::", 3))
            return path;
        if (!found.len)
            found = path;
    }
    return found;
}

static uint64_t hash_path(struct bytes path)
{
    struct fnv128 fnv;
    uint8_t digest[16];
    uint64_t hash;
    fnv128_init(&fnv);
    fnv128_add(&fnv, path.data, path.len);
    fnv128_finish(&fnv, digest);
    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

void process_owner_from(uint32_t pid, struct bytes cgroup, struct bytes status,
                        struct process_owner *owner)
{
    struct fs_rights rights;
    struct bytes path = cut_at_user_slice(cgroup_path(cgroup));
    *owner = (struct process_owner){.kind = OWNER_PROCESS, .pid = pid, .key = pid};
    if (path.len) {
        owner->kind = OWNER_CGROUP;
        owner->key = hash_path(path);
    } else if (fs_rights_parse(status, &rights) && rights.uid) {
        owner->kind = OWNER_USER;
        owner->key = rights.uid;
    }
}

/* ---- who is looked at ---- */

void symbolizer_ledger_enter(struct symbolizer_ledger *ledger, const struct process_owner *owner)
{
    if (!ledger)
        return;
    ledger->current = *owner;
    atomic_store_explicit(&ledger->busy, true, memory_order_release);
}

void symbolizer_ledger_leave(struct symbolizer_ledger *ledger)
{
    if (ledger)
        atomic_store_explicit(&ledger->busy, false, memory_order_release);
}

uint32_t symbolizer_ledger_ban_last(struct symbolizer_ledger *ledger, uint64_t now_ns)
{
    if (!ledger || !atomic_exchange(&ledger->busy, false))
        return 0;
    const struct process_owner owner = ledger->current;
    stat_add(&hangs, 1);
    symbolizer_ledger_ban(ledger, &owner, now_ns);
    return owner.pid;
}

/* ---- bans ---- */

static struct ban *ban_of(struct symbolizer_ledger *ledger, const struct process_owner *owner)
{
    struct ban *oldest = &ledger->bans[0];
    for (int i = 0; i < BANS_MAX; i++) {
        if (ledger->bans[i].kind == owner->kind && ledger->bans[i].key == owner->key)
            return &ledger->bans[i];
        if (ledger->bans[i].until_ns < oldest->until_ns)
            oldest = &ledger->bans[i];
    }
    *oldest = (struct ban){.kind = owner->kind, .key = owner->key};
    return oldest;
}

void symbolizer_ledger_ban(struct symbolizer_ledger *ledger, const struct process_owner *owner,
                           uint64_t now_ns)
{
    if (!ledger)
        return;
    struct ban *ban = ban_of(ledger, owner);
    uint32_t last = sizeof(ban_ns) / sizeof(*ban_ns) - 1;
    ban->until_ns = now_ns + ban_ns[ban->strikes < last ? ban->strikes : last];
    ban->strikes++;
}

bool symbolizer_ledger_has_bans(const struct symbolizer_ledger *ledger)
{
    return ledger && ledger->bans[0].kind != OWNER_NONE;
}

bool symbolizer_ledger_banned(const struct symbolizer_ledger *ledger,
                              const struct process_owner *owner, uint64_t now_ns, bool for_good)
{
    for (int i = 0; ledger && i < BANS_MAX; i++) {
        const struct ban *ban = &ledger->bans[i];
        if (ban->kind == owner->kind && ban->key == owner->key)
            return for_good || ban->until_ns > now_ns;
    }
    return false;
}
