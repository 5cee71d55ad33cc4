/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's file comes first. One in a process's own root may be anything: names of a file that
 * several processes share would then be whatever one of them likes. So it counts only if it belongs
 * to root or to the owner of the executable, who could have changed that as well.
 */
#include "agent-bpf/files/debug_file.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/files/safe_open.h"
#include <errno.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEBUG_ROOT     "/usr/lib/debug/"
#define DIRECTORY      DEBUG_ROOT ".build-id/"
#define LINK_BYTES_MAX 4096
#define PATH_SIZE      (sizeof(DIRECTORY) + 2 * (size_t)ELF_GNU_BUILD_ID_MAX + sizeof("/.debug"))
#define CHUNK          ((size_t)64 * 1024)
#define RATIO_SINCE    ((size_t)1 << 20)

static bool make_path(const struct elf_build_ids *ids, char path[PATH_SIZE])
{
    char hex[2 * ELF_GNU_BUILD_ID_MAX + 1];
    if (ids->gnu_len < 2)
        return false;
    bytes_to_hex(BYTES(ids->gnu, ids->gnu_len), hex);
    snprintf(path, PATH_SIZE, DIRECTORY "%.2s/%s.debug", hex, hex + 2);
    return true;
}

static bool has_symbols(const struct elf *elf)
{
    Elf64_Shdr section;
    return !elf_section_of_type(elf, SHT_SYMTAB, &section) && section.sh_size;
}

static bool belongs_to(const struct elf *elf, const struct elf_build_ids *ids)
{
    struct elf_build_ids own;
    return !elf_build_ids(elf, &own) &&
           bytes_equal(BYTES(own.gnu, own.gnu_len), BYTES(ids->gnu, ids->gnu_len));
}

static bool same_owner(int fd, const struct elf *executable)
{
    struct stat own, other;
    return !fstat(fd, &own) && !fstat(executable->fd, &other) &&
           (own.st_uid == 0 || own.st_uid == other.st_uid);
}

static int open_below(uint32_t pid, const char *path, struct elf *elf)
{
    struct safe_file file;
    int error = safe_open_path(pid, path, &file);
    if (error)
        return error < 0 ? error : ELF_MISSING;
    error = elf_open(file.fd, elf);
    if (error)
        close(file.fd);
    return error;
}

struct place {
    const struct elf *executable;
    const struct elf_build_ids *ids;
    uint32_t pid; /* in its root; 0 = in ours */
    bool trusted;
    bool has_symbols; /* else it needs none */
};

static int open_in(const struct place *place, const char *path, struct elf *elf)
{
    int error = open_below(place->pid, path, elf);
    if (error)
        return error;
    if ((place->trusted || same_owner(elf->fd, place->executable)) &&
        (!place->has_symbols || has_symbols(elf)) && belongs_to(elf, place->ids))
        return 0;
    close(elf->fd);
    return ELF_MISSING;
}

/* On the host, else in the process's root. */
static int open_somewhere(const struct place *wanted, uint32_t pid, const char *path,
                          struct elf *elf)
{
    struct place place = *wanted;
    place.pid = 0;
    place.trusted = true;
    int error = open_in(&place, path, elf);
    if (!error || !pid)
        return error;
    place.pid = pid;
    place.trusted = false;
    return open_in(&place, path, elf);
}

int debug_file_separate(const struct elf *executable, uint32_t pid, struct elf *elf)
{
    struct elf_build_ids ids;
    char path[PATH_SIZE];
    int error = elf_build_ids(executable, &ids);
    if (error || !make_path(&ids, path))
        return error ? error : ELF_MISSING;
    struct place place = {.executable = executable, .ids = &ids, .has_symbols = true};
    return open_somewhere(&place, pid, path, elf);
}

/* .gnu_debugaltlink: a path with NUL, and the build id of what is there. */

static int read_link(const struct elf *debug, char path[LINK_BYTES_MAX], struct elf_build_ids *ids)
{
    Elf64_Shdr section;
    int error = elf_section_named(debug, ".gnu_debugaltlink", &section);
    if (error)
        return error;
    if (section.sh_type == SHT_NOBITS || section.sh_size > LINK_BYTES_MAX)
        return ELF_MALFORMED;
    error = elf_read(debug, section.sh_offset, path, section.sh_size);
    if (error)
        return error;
    size_t len = strnlen(path, section.sh_size) + 1;
    *ids = (struct elf_build_ids){.gnu_len = section.sh_size > len ? section.sh_size - len : 0};
    if (!ids->gnu_len || ids->gnu_len > sizeof(ids->gnu))
        return ELF_MALFORMED;
    memcpy(ids->gnu, path + len, ids->gnu_len);
    return 0;
}

int debug_file_shared(const struct elf *debug, uint32_t pid, struct elf *elf)
{
    struct elf_build_ids ids;
    char link[LINK_BYTES_MAX], path[PATH_SIZE];
    int error = read_link(debug, link, &ids);
    if (error)
        return error;
    struct place place = {.executable = debug, .ids = &ids};
    error = make_path(&ids, path) ? open_somewhere(&place, pid, path, elf) : ELF_MISSING;
    if (!error || strncmp(link, DEBUG_ROOT, strlen(DEBUG_ROOT)) != 0)
        return error;
    return open_somewhere(&place, pid, link, elf);
}

/* .gnu_debugdata */

struct decoder {
    const struct elf *elf;
    uint64_t at, end; /* of what is to be read, in the file */
    size_t taken, given;
    int out_fd;
    lzma_stream stream;
    uint8_t in[CHUNK];
    uint8_t out[CHUNK];
};

static int decoder_feed(struct decoder *decoder)
{
    if (decoder->stream.avail_in || decoder->at == decoder->end)
        return 0;
    uint64_t left = decoder->end - decoder->at;
    size_t now = left < CHUNK ? (size_t)left : CHUNK;
    int error = elf_read(decoder->elf, decoder->at, decoder->in, now);
    decoder->at += now;
    decoder->taken += now;
    decoder->stream.next_in = decoder->in;
    decoder->stream.avail_in = now;
    return error;
}

static int decoder_drain(struct decoder *decoder)
{
    size_t n = CHUNK - decoder->stream.avail_out;
    decoder->given += n;
    if (decoder->given > DEBUG_FILE_MEMORY_MAX ||
        decoder->given > RATIO_SINCE + decoder->taken * DEBUG_FILE_RATIO_MAX)
        return ELF_MALFORMED;
    decoder->stream.next_out = decoder->out;
    decoder->stream.avail_out = CHUNK;
    return write(decoder->out_fd, decoder->out, n) == (ssize_t)n ? 0 : -ENOSPC;
}

static int decoder_run(struct decoder *decoder)
{
    decoder->stream = (lzma_stream)LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&decoder->stream, DEBUG_FILE_XZ_MEMORY, 0) != LZMA_OK)
        return -ENOMEM;
    decoder->stream.next_out = decoder->out;
    decoder->stream.avail_out = CHUNK;
    lzma_ret outcome = LZMA_OK;
    int error = 0;
    while (!error && outcome == LZMA_OK) {
        error = decoder_feed(decoder);
        if (error)
            break;
        heartbeat();
        outcome = lzma_code(&decoder->stream, decoder->at == decoder->end ? LZMA_FINISH : LZMA_RUN);
        error = outcome == LZMA_OK || outcome == LZMA_STREAM_END ? decoder_drain(decoder)
                : outcome == LZMA_MEM_ERROR                      ? -ENOMEM
                                                                 : ELF_MALFORMED;
    }
    lzma_end(&decoder->stream);
    return error;
}

static int decode_section(const struct elf *elf, const Elf64_Shdr *section, int fd, size_t *size)
{
    struct decoder *decoder = malloc(sizeof(*decoder));
    if (!decoder)
        return -ENOMEM;
    decoder->elf = elf;
    decoder->at = section->sh_offset;
    decoder->end = section->sh_offset + section->sh_size;
    decoder->taken = decoder->given = 0;
    decoder->out_fd = fd;
    int error = decoder_run(decoder);
    *size = decoder->given;
    free(decoder);
    return error;
}

int debug_file_decode(const struct elf *elf, int *fd, size_t *size)
{
    Elf64_Shdr section;
    int error = elf_section_named(elf, ".gnu_debugdata", &section);
    if (error)
        return error;
    if (section.sh_type == SHT_NOBITS || section.sh_size > DEBUG_FILE_DATA_MAX ||
        section.sh_offset > elf->size || section.sh_size > elf->size - section.sh_offset)
        return ELF_MALFORMED;
    *fd = memfd_create("debugdata", MFD_CLOEXEC);
    if (*fd < 0)
        return -errno;
    error = decode_section(elf, &section, *fd, size);
    if (error) {
        close(*fd);
        *fd = -1;
    }
    return error;
}

static int open_inside(const struct elf *executable, struct debug_file *file)
{
    int fd;
    int error = debug_file_decode(executable, &fd, &file->memory_bytes);
    if (error)
        return error;
    error = elf_open(fd, &file->elf);
    error = error ? error : has_symbols(&file->elf) ? 0 : ELF_MISSING;
    if (error)
        close(fd);
    return error;
}

int debug_file_open(const struct elf *elf, uint32_t pid, struct debug_file *file)
{
    memset(file, 0, sizeof(*file));
    int error = debug_file_separate(elf, pid, &file->elf);
    error = error ? open_inside(elf, file) : 0;
    if (error)
        file->elf.fd = -1;
    return error;
}

void debug_file_close(struct debug_file *file)
{
    if (file->elf.fd >= 0)
        close(file->elf.fd);
    file->elf.fd = -1;
}
