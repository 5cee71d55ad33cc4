/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/contexts/publishers.h"
#include "agent-bpf/contexts/elastic_storage.h"
#include "agent-bpf/contexts/unreadable.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/files/elf_symtab.h"
#include "context/context_layout.h"
#include <errno.h>
#include <stdlib.h>

/* Exported by libspanprof-context next to the thread context; its writer always sets the flags. */
#define OUR_WRITER_SYMBOL        "spanprof_context_records_v1"
#define CUSTOM_LABELS_SYMBOL     "custom_labels_current_set"
#define CUSTOM_LABELS_ABI_SYMBOL "custom_labels_abi_version"

struct finder {
    const struct elf *elf;
    const struct elf_dynamic *dynamic; /* NULL: a static executable */
    struct publishers *publishers;
};

static bool find_symbol(const struct finder *finder, const char *name, unsigned type,
                        struct elf_symbol *found)
{
    int error = finder->dynamic ? elf_dynamic_find(finder->dynamic, name, found) : ELF_MISSING;
    if (error == ELF_MISSING) /* not exported */
        error = elf_symtab_find(finder->elf, name, type, found);
    return !error && ELF64_ST_TYPE(found->symbol.st_info) == type;
}

/* The address of a variable of at least that size. */
static bool find_object(const struct finder *finder, const char *name, uint64_t size,
                        uint64_t *vaddr)
{
    struct elf_symbol found;
    if (!find_symbol(finder, name, STT_OBJECT, &found) || found.symbol.st_size < size)
        return false;
    *vaddr = found.symbol.st_value;
    return true;
}

static bool find_thread_local(const struct finder *finder, const char *name,
                              struct thread_local_symbol *symbol)
{
    return !thread_local_find(finder->elf, name, symbol) && symbol->defined;
}

static void find_otel(const struct finder *finder)
{
    struct publishers *publishers = finder->publishers;
    struct elf_symbol ours;
    if (!find_thread_local(finder, OTEL_THREAD_SYMBOL, &publishers->otel))
        return;
    publishers->sources |= CONTEXT_BIT(CONTEXT_OTEL_THREAD);
    publishers->sets_trace_flags = find_symbol(finder, OUR_WRITER_SYMBOL, STT_TLS, &ours);
}

static void find_otel_nodejs(const struct finder *finder)
{
    struct publishers *publishers = finder->publishers;
    if (find_thread_local(finder, OTEL_NODEJS_SYMBOL, &publishers->otel_nodejs))
        publishers->sources |= CONTEXT_BIT(CONTEXT_OTEL_NODEJS);
}

static void find_elastic(const struct finder *finder)
{
    struct publishers *publishers = finder->publishers;
    if (find_thread_local(finder, ELASTIC_THREAD_SYMBOL, &publishers->elastic) &&
        find_object(finder, ELASTIC_PROCESS_SYMBOL, 8, &publishers->elastic_storage))
        publishers->sources |= CONTEXT_BIT(CONTEXT_ELASTIC);
}

static void find_custom_labels(const struct finder *finder)
{
    struct publishers *publishers = finder->publishers;
    if (find_thread_local(finder, CUSTOM_LABELS_SYMBOL, &publishers->custom_labels) &&
        find_object(finder, CUSTOM_LABELS_ABI_SYMBOL, 4, &publishers->custom_labels_abi))
        publishers->sources |= CONTEXT_BIT(CONTEXT_CUSTOM_LABELS);
}

static void find_go(const struct finder *finder)
{
    struct publishers *publishers = finder->publishers;
    int error = go_binary_find(finder->elf, &publishers->go);
    if (error == GO_BINARY_UNSUPPORTED)
        context_count_unreadable(CONTEXT_UNREADABLE_GO);
    if (!error && publishers->go.found && publishers->go.labels_form)
        publishers->sources |= CONTEXT_BIT(CONTEXT_GO_LABELS);
}

int publishers_find(const struct elf *elf, struct publishers **out)
{
    struct publishers found = {0};
    struct elf_dynamic dynamic;
    struct finder finder = {elf, &dynamic, &found};
    *out = NULL;
    int missing = elf_dynamic_open(elf, &dynamic);
    if (missing == ELF_MISSING)
        finder.dynamic = NULL;
    if (elf_segment(elf, PT_TLS) && (!missing || !finder.dynamic)) {
        find_otel(&finder);
        find_otel_nodejs(&finder);
        find_elastic(&finder);
        find_custom_labels(&finder);
    }
    find_go(&finder);
    if (!found.sources)
        return 0;
    *out = malloc(sizeof(found));
    if (!*out)
        return -ENOMEM;
    **out = found;
    return 0;
}
