/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path's parts are checked from the innermost, because containers nest (kind, docker in docker)
 * and a process belongs to the inner one. "-conmon" scopes hold podman's and cri-o's supervisor,
 * which is outside of the container that it names.
 */
#include "agent-bpf/files/container.h"
#include "base/bytes.h"

#define ID_DIGITS  64
#define ECS_DIGITS 32

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
    if (text.len < ECS_DIGITS + 2 || text.len > CONTAINER_ID_MAX || count_hex(text) != ECS_DIGITS ||
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

/* One part of the path: [runtime-]ID[.scope] */
static struct bytes id_of_part(struct bytes part)
{
    if (starts_with(part, "libpod-conmon-") || starts_with(part, "crio-conmon-"))
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

/* The innermost part that names a container; [start, end) of it in the path. */
static struct bytes find_id(struct bytes path, size_t *start)
{
    size_t end = path.len && path.data[path.len - 1] == '/' ? path.len - 1 : path.len;
    for (size_t i = end; i-- > 0;) {
        if (i > 0 && path.data[i - 1] != '/')
            continue;
        struct bytes id = id_of_part(BYTES(path.data + i, end - i));
        *start = i;
        if (id.len)
            return id;
        end = i ? i - 1 : 0;
    }
    return (struct bytes){0};
}

struct bytes container_id_from_path(struct bytes path)
{
    size_t start;
    return find_id(path, &start);
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
    size_t start = 0;
    *container = (struct container){.id = find_id(path, &start)};
    if (!container->id.len)
        return;
    struct bytes own = BYTES(path.data + start, (size_t)(container->id.data - path.data) - start);
    size_t end = start ? start - 1 : 0, above = end;
    while (above > 0 && path.data[above - 1] != '/')
        above--;
    if (!take_pod(BYTES(path.data + above, end - above), container->pod_uid) &&
        !take_pod(own, container->pod_uid))
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
        if (found.id.len && (unified || !container->id.len))
            *container = found;
        if (found.id.len && unified)
            return;
        at = end + 1;
    }
}
