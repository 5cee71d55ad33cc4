/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreters and virtual machines export functions for programs that embed them, so a stripped
 * file has them too. Go and Rust compile to executables without exports: Go's linker writes its
 * version; Rust's compiler writes its own into .comment, and where that was removed, the paths of
 * its library's sources, which each panic message needs, are still there.
 */
#include "agent-bpf/runtimes/runtime_find.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/files/elf_search.h"
#include "agent-bpf/go/go_buildinfo.h"

#define COMMENT_MAX     4096 /* bytes looked at */
#define RUSTC_VERSION   "rustc version "
#define RUST_SOURCES    "/rustc/" /* then a commit, of 40 digits */
#define COMMIT_DIGITS   40
#define EXPORT_NAME_MAX 64

_Static_assert(sizeof(RUST_SOURCES) + COMMIT_DIGITS < ELF_SEARCH_AROUND, "both are in the match");

/* One of the names is exported. */
static bool exports_any(const struct elf_dynamic *dynamic, const char *names)
{
    char name[EXPORT_NAME_MAX];
    struct elf_symbol found;
    for (size_t length; *names; names += length + (names[length] == ' ')) {
        length = strcspn(names, " ");
        if (length >= sizeof(name))
            continue;
        memcpy(name, names, length);
        name[length] = '\0';
        if (!elf_dynamic_find(dynamic, name, &found))
            return true;
    }
    return false;
}

static enum runtime runtime_by_exports(const struct elf *elf)
{
    struct elf_dynamic dynamic;
    if (elf_dynamic_open(elf, &dynamic))
        return RUNTIME_UNKNOWN;
    for (enum runtime runtime = RUNTIME_UNKNOWN + 1; runtime < RUNTIMES; runtime++)
        if (exports_any(&dynamic, runtime_row(runtime)->exports))
            return runtime;
    return RUNTIME_UNKNOWN;
}

static bool is_go(const struct elf *elf)
{
    char version[GO_VERSION_MAX];
    return !go_buildinfo_version(elf, version);
}

static bool comment_names_rustc(const struct elf *elf)
{
    Elf64_Shdr section;
    char comment[COMMENT_MAX];
    if (elf_section_named(elf, ".comment", &section))
        return false;
    size_t size = section.sh_size < sizeof(comment) ? (size_t)section.sh_size : sizeof(comment);
    return !elf_read(elf, section.sh_offset, comment, size) &&
           memmem(comment, size, RUSTC_VERSION, strlen(RUSTC_VERSION));
}

static bool take_sources(void *context, uint64_t vaddr, const uint8_t *match)
{
    const uint8_t *commit = match + strlen(RUST_SOURCES);
    uint8_t id[COMMIT_DIGITS / 2];
    (void)context;
    (void)vaddr;
    return commit[COMMIT_DIGITS] == '/' &&
           bytes_from_hex(BYTES(commit, COMMIT_DIGITS), id, sizeof(id));
}

static bool is_rust(const struct elf *elf)
{
    const struct elf_search search = {
        .segment_flags = PF_R,
        .needle = BYTES_LIT(RUST_SOURCES),
        .align = 1,
        .bytes_max = RUNTIME_SEARCH_MAX,
        .take = take_sources,
    };
    return comment_names_rustc(elf) || !elf_search(elf, &search);
}

enum runtime runtime_find(const struct elf *elf)
{
    enum runtime runtime = runtime_by_exports(elf);
    if (runtime || !elf_is_executable(elf))
        return runtime;
    return is_go(elf) ? RUNTIME_GO : is_rust(elf) ? RUNTIME_RUST : RUNTIME_UNKNOWN;
}
