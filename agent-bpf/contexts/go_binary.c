/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offsets are those of the runtime's DWARF, the same on both machines; test/peers compares them
 * with the toolchains. In a modified runtime a wrong offset does not lead to labels with the names
 * of ids, so it causes no wrong attribution.
 */
#include "agent-bpf/contexts/go_binary.h"
#include "agent-bpf/files/elf_dynamic.h"
#include "agent-bpf/go/go_buildinfo.h"
#include "agent-bpf/go/go_code.h"
#include "agent-bpf/contexts/thread_local.h"

#define OFFSET_MAX    (INT64_C(1) << 32) /* of thread-local storage from the thread pointer */
#define X86_G_DEFAULT (-8)               /* the only variable of a program without C */

static const struct layout {
    uint16_t first_minor, last_minor; /* of Go 1 */
    uint16_t g_m, m_curg, g_labels;
    uint8_t form; /* enum go_labels_form */
} layouts[] = {
    {13, 16, 48, 192, 344, GO_LABELS_MAP},   {17, 20, 48, 192, 360, GO_LABELS_MAP},
    {21, 22, 48, 192, 344, GO_LABELS_MAP},   {23, 23, 48, 192, 352, GO_LABELS_MAP},
    {24, 24, 48, 192, 352, GO_LABELS_SLICE}, {25, 25, 48, 184, 344, GO_LABELS_SLICE},
    {26, 27, 48, 184, 352, GO_LABELS_SLICE},
};

static const struct layout *layout_of(const struct go_binary *go)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
        if (go->major == 1 && go->minor >= layouts[i].first_minor &&
            go->minor <= layouts[i].last_minor)
            return &layouts[i];
    return NULL;
}

static int find_g(const struct elf *elf, struct go_binary *go)
{
    struct go_g g = {0};
    int error = go_code_find_g(elf, &g);
    if (error == ELF_MISSING && elf->machine == EM_X86_64) {
        g.offset = X86_G_DEFAULT;
        error = 0;
    } else if (error == ELF_MISSING) {
        g.place = GO_G_IN_REGISTER;
        error = 0;
    }
    go->g_in_word = g.place == GO_G_IN_WORD;
    go->g_in_register = g.place == GO_G_IN_REGISTER;
    go->g_offset = g.offset;
    go->g_vaddr = g.vaddr;
    return error;
}

int go_binary_find(const struct elf *elf, struct go_binary *go)
{
    memset(go, 0, sizeof(*go));
    char version[GO_VERSION_MAX];
    if (!elf_is_executable(elf)) /* of a library its main program decides */
        return 0;
    int error = go_buildinfo_version(elf, version);
    if (error)
        return error == ELF_MISSING ? 0 : error;
    go->found = true;
    const struct layout *layout =
        go_version_parse(version, &go->major, &go->minor) ? layout_of(go) : NULL;
    if (!layout)
        return GO_BINARY_UNSUPPORTED;
    error = find_g(elf, go);
    if (error)
        return error;
    go->g_m = layout->g_m;
    go->m_curg = layout->m_curg;
    go->g_labels = layout->g_labels;
    go->labels_form = layout->form;
    return 0;
}

static bool binary_plausible(int64_t offset)
{
    return offset > -OFFSET_MAX && offset < OFFSET_MAX && offset;
}

int go_binary_locate(const struct go_binary *go, const struct thread_local_process *process,
                     struct context_variable *variable)
{
    memset(variable, 0, sizeof(*variable));
    if (!go->found || !go->labels_form || !process->is_executable)
        return THREAD_LOCAL_UNRESOLVED;
    int64_t offset = go->g_offset;
    if (go->g_in_word) {
        uint64_t address = process->bias + go->g_vaddr;
        int error = process->read(process->context, address, &offset, sizeof(offset));
        if (error)
            return error;
    }
    if (!go->g_in_register && !binary_plausible(offset))
        return THREAD_LOCAL_UNRESOLVED;
    *variable = (struct context_variable){
        .source = CONTEXT_GO_LABELS,
        .thread_local_model = go->g_in_register ? THREAD_LOCAL_NONE : THREAD_LOCAL_STATIC,
        .offset = offset,
        .go_form = go->labels_form,
        .go_g_m = go->g_m,
        .go_m_curg = go->m_curg,
        .go_g_labels = go->g_labels,
    };
    return 0;
}
