/* SPDX-License-Identifier: Apache-2.0 */
/* What dwarf_lines_find() says of ELF addresses, in hex on standard input: a line for each
 * function, innermost first, of name and place with a tab between them, and an empty line behind
 * each address. Arguments: the executable, and the file with its DWARF, if that is another. */
#include "agent-bpf/dwarf/dwarf_lines.h"
#include "base/clock.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static struct dwarf_function functions[DWARF_FUNCTIONS_AT_MAX];

int main(int argc, char **argv)
{
    struct elf executable, debug;
    struct dwarf_lines *lines;
    uint64_t vaddr;
    int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    int debug_fd = argc > 1 ? open(argv[argc - 1], O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || debug_fd < 0 || elf_open(fd, &executable) || elf_open(debug_fd, &debug) ||
        dwarf_lines_open(&executable, &debug, NULL, &lines))
        return 1;
    while (scanf("%" SCNx64, &vaddr) == 1) {
        size_t n = dwarf_lines_find(lines, vaddr, UINT64_MAX, functions);
        for (size_t i = 0; i < n; i++)
            printf("%s\t%s:%" PRIu32 "\n", functions[i].name, functions[i].file, functions[i].line);
        putchar('\n');
    }
    fprintf(stderr, "%zu bytes\n", dwarf_lines_bytes(lines));
    dwarf_lines_close(lines);
    close(debug_fd);
    close(fd);
    return 0;
}
