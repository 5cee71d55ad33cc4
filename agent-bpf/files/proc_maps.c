/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_maps_harmless() is a look before the leap, no lock: the process may map something else right
 * after. It spares the reader nearly all hangs; the rest end with the reader (reader_messages.h).
 */
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/proc_pid.h"
#include <unistd.h>

static bool take_hex(struct bytes *text, uint64_t *value)
{
    size_t n = 0;
    *value = 0;
    for (; n < text->len && n < 17; n++) {
        uint8_t c = text->data[n];
        unsigned digit = c >= '0' && c <= '9'   ? c - '0' + 0u
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10u
                                                : 16;
        if (digit == 16)
            break;
        *value = *value << 4 | digit;
    }
    text->data += n;
    text->len -= n;
    return n > 0 && n < 17;
}

static bool take_decimal(struct bytes *text, uint64_t *value)
{
    size_t n = 0;
    *value = 0;
    for (; n < text->len && n < 20 && text->data[n] >= '0' && text->data[n] <= '9'; n++)
        *value = *value * 10 + (uint64_t)(text->data[n] - '0');
    text->data += n;
    text->len -= n;
    return n > 0;
}

static bool take_char(struct bytes *text, char wanted)
{
    if (!text->len || *text->data != (uint8_t)wanted)
        return false;
    text->data++;
    text->len--;
    return true;
}

static struct bytes take_line(struct bytes *text)
{
    const uint8_t *newline = memchr(text->data, '\n', text->len);
    size_t len = newline ? (size_t)(newline - text->data) : text->len;
    struct bytes line = BYTES(text->data, len);
    size_t skip = newline ? len + 1 : len;
    text->data += skip;
    text->len -= skip;
    return line;
}

static bool is_memfd(struct bytes path)
{
    const struct bytes memfd = BYTES_LIT("/memfd:");
    return path.len >= memfd.len && !memcmp(path.data, memfd.data, memfd.len);
}

/* START-END rwxp OFFSET MAJOR:MINOR INODE   PATH */
static bool parse_map(struct bytes line, struct proc_map *map)
{
    memset(map, 0, sizeof(*map));
    uint64_t major, minor;
    if (!take_hex(&line, &map->start) || !take_char(&line, '-') || !take_hex(&line, &map->end) ||
        !take_char(&line, ' ') || line.len < 5)
        return false;
    map->readable = line.data[0] == 'r';
    map->executable = line.data[2] == 'x';
    bool is_shared = line.data[3] == 's';
    line.data += 4;
    line.len -= 4;
    if (!take_char(&line, ' ') || !take_hex(&line, &map->offset) || !take_char(&line, ' ') ||
        !take_hex(&line, &major) || !take_char(&line, ':') || !take_hex(&line, &minor) ||
        !take_char(&line, ' ') || !take_decimal(&line, &map->inode))
        return false;
    map->device_major = (uint32_t)major;
    map->device_minor = (uint32_t)minor;
    while (take_char(&line, ' '))
        ;
    map->path = line;
    if (map->executable && is_shared && is_memfd(line))
        map->inode = 0;
    return map->start < map->end;
}

bool proc_maps_next(struct bytes *text, struct proc_map *map)
{
    while (text->len)
        if (parse_map(take_line(text), map))
            return true;
    return false;
}

static bool is_code_of_file(const struct proc_map *map)
{
    return map->executable && map->inode && map->path.len && map->path.data[0] == '/';
}

bool proc_maps_next_code(struct bytes *text, struct proc_map *map)
{
    const struct proc_map last = *map;
    while (proc_maps_next(text, map))
        if (is_code_of_file(map) &&
            (map->inode != last.inode || !bytes_equal(map->path, last.path)))
            return true;
    return false;
}

bool proc_maps_have_code(struct bytes maps, uint64_t start, uint64_t inode)
{
    struct proc_map map;
    while (proc_maps_next(&maps, &map))
        if (map.start == start && map.inode == inode && map.executable)
            return true;
    return false;
}

int proc_maps_read(uint32_t pid, struct buf *text)
{
    text->limit_bytes = PROC_MAPS_BYTES_MAX;
    return proc_pid_read(pid, "maps", text);
}

int proc_mounts_read(uint32_t pid, struct buf *text)
{
    text->limit_bytes = PROC_MOUNTS_BYTES_MAX;
    return proc_pid_read(pid ? pid : (uint32_t)getpid(), "mountinfo", text);
}

static struct bytes take_word(struct bytes *line)
{
    while (line->len && *line->data == ' ')
        line->data++, line->len--;
    size_t n = 0;
    while (n < line->len && line->data[n] != ' ')
        n++;
    struct bytes word = BYTES(line->data, n);
    line->data += n;
    line->len -= n;
    return word;
}

struct mount {
    uint64_t major, minor;
    uint64_t id;
    struct bytes point; /* blanks as \040 */
    struct bytes type;
    struct bytes options;
    bool fuse;
};

/* ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE SUPEROPTIONS */
static bool parse_mount(struct bytes line, struct mount *mount)
{
    struct bytes id = take_word(&line);
    take_word(&line);
    struct bytes device = take_word(&line);
    take_word(&line);
    mount->point = take_word(&line);
    if (!take_decimal(&id, &mount->id) || !take_decimal(&device, &mount->major) ||
        !take_char(&device, ':') || !take_decimal(&device, &mount->minor))
        return false;
    for (struct bytes word = take_word(&line); word.len; word = take_word(&line)) {
        if (!bytes_is(word, "-"))
            continue;
        mount->type = take_word(&line);
        mount->fuse = mount->type.len >= 4 && !memcmp(mount->type.data, "fuse", 4);
        take_word(&line);
        mount->options = take_word(&line);
        return true;
    }
    return false;
}

bool proc_mounts_find(struct bytes mounts, uint64_t id, struct proc_mount *found)
{
    while (mounts.len) {
        struct mount mount = {0};
        if (!parse_mount(take_line(&mounts), &mount) || mount.id != id)
            continue;
        *found = (struct proc_mount){.type = mount.type, .options = mount.options};
        return true;
    }
    return false;
}

/* \ooo at i */
static bool take_octal(struct bytes text, size_t i, uint8_t *byte)
{
    if (text.data[i] != '\\' || text.len - i <= 3)
        return false;
    unsigned value = 0;
    for (size_t digit = 1; digit <= 3; digit++) {
        uint8_t c = text.data[i + digit];
        if (c < '0' || c > '7')
            return false;
        value = value << 3 | (c - '0' + 0u);
    }
    *byte = (uint8_t)value;
    return true;
}

/* Length of the mount point if path lies under it, with \ooo in the mount point undone; else -1. */
static ptrdiff_t maps_covers(struct bytes point, struct bytes path)
{
    size_t at = 0;
    for (size_t i = 0; i < point.len; i++, at++) {
        uint8_t c = point.data[i];
        if (take_octal(point, i, &c))
            i += 3;
        if (at >= path.len || path.data[at] != c)
            return -1;
    }
    bool whole = at == path.len || at == 1 || path.data[at] == '/';
    return whole ? (ptrdiff_t)at : -1;
}

bool proc_mounts_fuse(struct bytes mounts, uint32_t major, uint32_t minor, struct bytes path)
{
    ptrdiff_t longest = -1;
    bool fuse = false;
    while (mounts.len) {
        struct mount mount = {0};
        if (!parse_mount(take_line(&mounts), &mount))
            continue;
        if (major || minor) {
            if (mount.major == major && mount.minor == minor)
                return mount.fuse;
            continue;
        }
        ptrdiff_t length = maps_covers(mount.point, path);
        if (length >= longest && length >= 0) { /* of equal ones the later covers the earlier */
            longest = length;
            fuse = mount.fuse;
        }
    }
    return fuse;
}

/* Shared memory and memfds have an inode, but of the kernel's own file system. */
static bool is_memory(const struct proc_map *map, struct bytes mounts)
{
    if (!map->inode)
        return true;
    return !proc_mounts_fuse(mounts, map->device_major, map->device_minor, map->path);
}

bool proc_maps_harmless(struct bytes maps, struct bytes mounts, uint64_t address, uint64_t size)
{
    uint64_t end;
    if (!size || __builtin_add_overflow(address, size, &end))
        return false;
    struct proc_map map;
    while (address < end && proc_maps_next(&maps, &map)) {
        if (map.end <= address)
            continue;
        if (map.start > address || !map.readable || !is_memory(&map, mounts))
            return false;
        address = map.end;
    }
    return address >= end;
}
