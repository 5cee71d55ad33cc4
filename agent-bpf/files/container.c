/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path's parts are checked from the innermost, because containers nest (kind, docker in docker)
 * and a process belongs to the inner one. Cgroups of supervisors are named like the container that
 * they are outside of.
 */
#include "agent-bpf/files/container.h"
#include "base/bytes.h"

#define ID_DIGITS  64
#define ECS_DIGITS 32
#define KEY_CHARS  25 /* of a step of a build */

static bool is_hex(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
}

static size_t count_hex(struct bytes text)
{
    size_t n = 0;
    while (n < text.len && is_hex(text.data[n]))
        n++;
    return n;
}

static bool is_ecs_id(struct bytes text)
{
    if (text.len < ECS_DIGITS + 2 || text.len > ID_DIGITS || count_hex(text) != ECS_DIGITS ||
        text.data[ECS_DIGITS] != '-')
        return false;
    for (size_t i = ECS_DIGITS + 1; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return true;
}

static bool ends_with(struct bytes text, const char *end)
{
    size_t n = strlen(end);
    return text.len >= n && !memcmp(text.data + text.len - n, end, n);
}

static bool starts_with(struct bytes text, const char *start)
{
    size_t n = strlen(start);
    return text.len >= n && !memcmp(text.data, start, n);
}

static bool is_supervisor(struct bytes part)
{
    return starts_with(part, "libpod-conmon-") || starts_with(part, "crio-conmon-") ||
           starts_with(part, "lxc.monitor");
}

/* One part of the path: [runtime-]ID[.scope] */
static struct bytes id_of_part(struct bytes part)
{
    if (is_supervisor(part))
        return (struct bytes){0};
    if (ends_with(part, ".scope"))
        part.len -= strlen(".scope");
    if (is_ecs_id(part))
        return part;
    if (part.len < ID_DIGITS)
        return (struct bytes){0};
    struct bytes id = BYTES(part.data + part.len - ID_DIGITS, ID_DIGITS);
    bool bounded = part.len == ID_DIGITS || part.data[part.len - ID_DIGITS - 1] == '-' ||
                   part.data[part.len - ID_DIGITS - 1] == ':';
    return count_hex(id) == ID_DIGITS && bounded ? id : (struct bytes){0};
}

/* A part of a path, from the innermost to the outermost. */
struct part {
    struct bytes path; /* without a slash at its end */
    size_t start, end;
};

static struct part part_last(struct bytes path)
{
    size_t end = path.len && path.data[path.len - 1] == '/' ? path.len - 1 : path.len;
    return (struct part){BYTES(path.data, end), end + 1, end + 1};
}

/* False: there is no further one. */
static bool part_next(struct part *part)
{
    if (!part->start)
        return false;
    part->end = part->start - 1;
    for (part->start = part->end; part->start && part->path.data[part->start - 1] != '/';)
        part->start--;
    return true;
}

static struct bytes part_text(const struct part *part)
{
    return BYTES(part->path.data + part->start, part->end - part->start);
}

static struct bytes part_above(struct part part)
{
    return part_next(&part) ? part_text(&part) : (struct bytes){0};
}

/* Runtimes make them at the top, or what is above is hidden from here. */
static bool is_below_namespace(struct part part)
{
    if (!part_next(&part))
        return false;
    struct bytes name = part_text(&part), above = part_above(part);
    return (bytes_is(name, "default") || bytes_is(name, "k8s.io") || bytes_is(name, "moby")) &&
           (!above.len || bytes_is(above, ".."));
}

static bool is_key(struct bytes text)
{
    size_t n = 0;
    while (n < text.len && ((text.data[n] >= 'a' && text.data[n] <= 'z') ||
                            (text.data[n] >= '0' && text.data[n] <= '9')))
        n++;
    return n == KEY_CHARS && n == text.len;
}

static struct bytes without(struct bytes text, const char *start, const char *end)
{
    size_t n = strlen(start);
    if (!starts_with(text, start) || !ends_with(text, end) || text.len < n + strlen(end))
        return (struct bytes){0};
    return BYTES(text.data + n, text.len - n - strlen(end));
}

/* Of a container that has a name, whatever its characters. */
static struct bytes name_of_part(const struct part *part)
{
    struct bytes text = part_text(part), above = part_above(*part);
    struct bytes key = without(text, "docker-", ".scope");
    if (bytes_is(text, "..") || bytes_is(text, "."))
        return (struct bytes){0};
    if (starts_with(text, "lxc.payload."))
        return ends_with(text, ".scope") ? without(text, "lxc.payload.", ".scope")
                                         : without(text, "lxc.payload.", "");
    if (starts_with(text, "buildkit-"))
        return without(text, "buildkit-", ".scope");
    if (bytes_is(above, "lxc") || bytes_is(above, "buildkit") || is_below_namespace(*part))
        return text;
    return is_key(key) ? key : (struct bytes){0};
}

static enum container_unknown check_name(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t byte = name.data[i];
        bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                     (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '-';
        if (!plain)
            return CONTAINER_UNKNOWN_NAME;
    }
    return name.len > CONTAINER_ID_MAX ? CONTAINER_UNKNOWN_NAME_LONG : CONTAINER_UNKNOWN_NONE;
}

static bool is_of_runtime(struct bytes part)
{
    static const char *const starts[] = {"kubepods", "docker-",        "libpod-", "crio-",
                                         "machine-", "cri-containerd", "nerdctl-"};
    bool found = false;
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
        found |= starts_with(part, starts[i]);
    return found && !starts_with(part, "machine-qemu"); /* a virtual machine */
}

/* The innermost part that names a container. *at: it. */
static void find_container(struct bytes path, struct container *container, struct part *at)
{
    enum container_unknown unknown = CONTAINER_UNKNOWN_NONE;
    for (*at = part_last(path); part_next(at);) {
        struct bytes text = part_text(at);
        if (is_supervisor(text))
            continue;
        container->id = id_of_part(text);
        if (container->id.len)
            return;
        struct bytes name = name_of_part(at);
        container->unknown = check_name(name);
        if (container->unknown)
            return;
        container->id = name;
        if (name.len)
            return;
        if (is_of_runtime(text))
            unknown = CONTAINER_UNKNOWN_FORM;
    }
    container->unknown = unknown;
}

struct bytes container_id_from_path(struct bytes path)
{
    for (struct part part = part_last(path); part_next(&part);) {
        struct bytes id = id_of_part(part_text(&part));
        if (id.len)
            return id;
    }
    return (struct bytes){0};
}

/* 8-4-4-4-12 hex digits with '-' between them, or '_' all through. */
static bool take_uuid(struct bytes text, char *uuid)
{
    if (text.len < CONTAINER_POD_UID_MAX || (text.data[8] != '-' && text.data[8] != '_'))
        return false;
    for (size_t i = 0; i < CONTAINER_POD_UID_MAX; i++) {
        bool between = i == 8 || i == 13 || i == 18 || i == 23;
        if (between ? text.data[i] != text.data[8] : !is_hex(text.data[i]))
            return false;
        uuid[i] = between ? '-' : (char)text.data[i];
    }
    return true;
}

/* [kubepods-][burstable-]podUID[.slice][:runtime:ID] */
static bool take_pod(struct bytes part, char *uid)
{
    static const char start[] = "pod";
    size_t n = sizeof(start) - 1;
    for (size_t i = 0; i + n + CONTAINER_POD_UID_MAX <= part.len; i++) {
        struct bytes rest = BYTES(part.data + i + n + CONTAINER_POD_UID_MAX,
                                  part.len - i - n - CONTAINER_POD_UID_MAX);
        bool bounded = (i == 0 || part.data[i - 1] == '-') &&
                       (!rest.len || rest.data[0] == '.' || rest.data[0] == ':');
        if (bounded && !memcmp(part.data + i, start, n) &&
            take_uuid(BYTES(part.data + i + n, CONTAINER_POD_UID_MAX), uid))
            return true;
    }
    return false;
}

void container_from_path(struct bytes path, struct container *container)
{
    struct part at;
    *container = (struct container){0};
    find_container(path, container, &at);
    if (!container->id.len)
        return;
    struct bytes own = part_text(&at);
    own.len = (size_t)(container->id.data - own.data);
    if (!take_pod(part_above(at), container->pod_uid) && !take_pod(own, container->pod_uid))
        container->pod_uid[0] = 0;
}

/* The path of one line, behind the second colon; *unified if it is that of cgroup v2 ("0::"). */
static struct bytes path_of_line(struct bytes line, bool *unified)
{
    *unified = starts_with(line, "0::");
    const uint8_t *colon = memchr(line.data, ':', line.len);
    if (!colon)
        return (struct bytes){0};
    size_t at = (size_t)(colon - line.data) + 1;
    colon = memchr(line.data + at, ':', line.len - at);
    if (!colon)
        return (struct bytes){0};
    at = (size_t)(colon - line.data) + 1;
    return BYTES(line.data + at, line.len - at);
}

void container_from_cgroup(struct bytes text, struct container *container)
{
    *container = (struct container){0};
    for (size_t at = 0; at < text.len;) {
        const uint8_t *newline = memchr(text.data + at, '\n', text.len - at);
        size_t end = newline ? (size_t)(newline - text.data) : text.len;
        struct bytes line = BYTES(text.data + at, end - at);
        struct container found = {0};
        bool unified = false;
        if (line.len)
            container_from_path(path_of_line(line, &unified), &found);
        if (found.id.len ? unified || !container->id.len : found.unknown && !container->id.len)
            *container = found;
        if (found.id.len && unified)
            return;
        at = end + 1;
    }
}
