/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kallsyms has no sizes: a function reaches up to the next one, at most FUNCTION_BYTES_MAX, so that
 * an address far behind the last function of a module stays unnamed. Lines need no order.
 */
#include "agent-bpf/symbols/kallsyms.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/files/elf.h"
#include "base/buf.h"
#include "base/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTION_BYTES_MAX (64 * 1024)
#define NAMES_LIMIT        (64u << 20)
#define READ_BYTES         16384 /* procfs states a block of 1 KiB, which costs thousands of reads */

LIMIT(kallsyms, LIMIT_SYMBOLIZER, "functions of the kernel", .bytes = KALLSYMS_MAX * UINT64_C(32));

struct function {
    uint64_t address;
    uint32_t name;
};

struct kallsyms {
    struct function *functions;
    size_t n;
    size_t cap;
    struct buf names;
    uint64_t text_start;
    uint64_t text_end;
};

static int kallsyms_add(struct kallsyms *kallsyms, uint64_t address, const char *name)
{
    if (kallsyms->n == KALLSYMS_MAX)
        return 0;
    if (kallsyms->n == kallsyms->cap) {
        size_t cap = kallsyms->cap ? kallsyms->cap * 2 : 1024;
        struct function *functions = realloc(kallsyms->functions, cap * sizeof(*functions));
        if (!functions)
            return -ENOMEM;
        kallsyms->functions = functions;
        kallsyms->cap = cap;
    }
    char clean[KALLSYMS_NAME_MAX];
    size_t len = bytes_sanitize(BYTES_STR(name), clean, sizeof(clean));
    struct function *function = &kallsyms->functions[kallsyms->n];
    *function = (struct function){.address = address, .name = (uint32_t)kallsyms->names.len};
    int error = buf_append(&kallsyms->names, clean, len + 1);
    if (error)
        return error < 0 ? error : 0;
    kallsyms->n++;
    return 0;
}

static void take_border(struct kallsyms *kallsyms, uint64_t address, const char *name)
{
    if (!strcmp(name, "_text") || (!strcmp(name, "_stext") && !kallsyms->text_start))
        kallsyms->text_start = address;
    if (!strcmp(name, "_end") || (!strcmp(name, "_etext") && !kallsyms->text_end))
        kallsyms->text_end = address;
}

/* ADDRESS TYPE NAME[\t[MODULE]] */
static int take_line(struct kallsyms *kallsyms, char *line)
{
    char *end;
    errno = 0;
    uint64_t address = strtoull(line, &end, 16);
    if (errno || end == line || end[0] != ' ' || !end[1] || end[2] != ' ' || !address)
        return 0;
    char type = end[1];
    char *name = end + 3;
    name[strcspn(name, "\t\n ")] = 0;
    if (!*name)
        return 0;
    take_border(kallsyms, address, name);
    bool function = type == 't' || type == 'T' || type == 'w' || type == 'W';
    return function ? kallsyms_add(kallsyms, address, name) : 0;
}

static int by_address(const void *a, const void *b)
{
    const struct function *left = a, *right = b;
    return left->address < right->address ? -1 : left->address > right->address;
}

static int read_file(struct kallsyms *kallsyms, FILE *file)
{
    char line[KALLSYMS_NAME_MAX + 128];
    for (uint64_t i = 0; fgets(line, sizeof(line), file); i++) {
        heartbeat_at(i);
        int error = take_line(kallsyms, line);
        if (error)
            return error;
    }
    if (ferror(file))
        return -EIO;
    if (!kallsyms->n)
        return KALLSYMS_HIDDEN;
    qsort(kallsyms->functions, kallsyms->n, sizeof(*kallsyms->functions), by_address);
    return 0;
}

static int kallsyms_of(FILE *file, struct kallsyms **out)
{
    char room[READ_BYTES];
    setvbuf(file, room, _IOFBF, sizeof(room));
    struct kallsyms *kallsyms = calloc(1, sizeof(*kallsyms));
    int error = kallsyms ? 0 : -ENOMEM;
    if (kallsyms) {
        kallsyms->names = BUF_INIT(NAMES_LIMIT);
        error = read_file(kallsyms, file);
    }
    fclose(file);
    if (error) {
        kallsyms_close(kallsyms);
        return error;
    }
    *out = kallsyms;
    return 0;
}

int kallsyms_read(int fd, struct kallsyms **out)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *file = own >= 0 && lseek(own, 0, SEEK_SET) == 0 ? fdopen(own, "r") : NULL;
    if (file)
        return kallsyms_of(file, out);
    int error = -errno;
    if (own >= 0)
        close(own);
    return error;
}

void kallsyms_close(struct kallsyms *kallsyms)
{
    if (!kallsyms)
        return;
    buf_close(&kallsyms->names);
    free(kallsyms->functions);
    free(kallsyms);
}

uint64_t kallsyms_text_start(const struct kallsyms *kallsyms)
{
    return kallsyms->text_start;
}

uint64_t kallsyms_text_end(const struct kallsyms *kallsyms)
{
    return kallsyms->text_end;
}

const char *kallsyms_find(const struct kallsyms *kallsyms, uint64_t address)
{
    size_t low = 0, high = kallsyms->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kallsyms->functions[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    const struct function *function = &kallsyms->functions[low - 1];
    if (address - function->address >= FUNCTION_BYTES_MAX)
        return NULL;
    return (const char *)kallsyms->names.data + function->name;
}

size_t kallsyms_build_id(struct bytes notes, uint8_t out[20])
{
    struct elf_build_ids ids = {0};
    elf_build_ids_of_notes(notes, 4, &ids);
    memcpy(out, ids.gnu, ids.gnu_len);
    return ids.gnu_len;
}
