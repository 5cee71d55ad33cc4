/* SPDX-License-Identifier: Apache-2.0 */
/* What go_binary_find() says of each file given, a JSON object a line. */
#include "agent-bpf/contexts/go_binary.h"
#include "agent-bpf/go/go_code.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static int inspect(const char *path)
{
    struct elf elf;
    struct go_binary go = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return perror(path), 1;
    int outcome = elf_open(fd, &elf);
    struct go_g g;
    bool decoded = !outcome && !go_code_find_g(&elf, &g); /* else go_binary_find() assumes */
    outcome = outcome ? outcome : go_binary_find(&elf, &go);
    printf("{\"outcome\": %d, \"found\": %s, \"version\": \"%u.%u\", \"form\": %u, \"g_m\": %u, "
           "\"m_curg\": %u, \"g_labels\": %u, \"in_word\": %s, \"in_register\": %s, "
           "\"decoded\": %s, \"g_offset\": %" PRId64 ", \"g_vaddr\": %" PRIu64 "}\n",
           outcome, go.found ? "true" : "false", go.major, go.minor, go.labels_form, go.g_m,
           go.m_curg, go.g_labels, go.g_in_word ? "true" : "false",
           go.g_in_register ? "true" : "false", decoded ? "true" : "false", go.g_offset,
           go.g_vaddr);
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= inspect(argv[i]);
    return failed;
}
