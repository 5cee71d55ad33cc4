/* SPDX-License-Identifier: Apache-2.0 */
/* What function_names_find() says of ELF addresses, in hex on standard input: for each a line of
 * function, system name, file and line, between tabs. */
#include "agent-bpf/symbols/function_names.h"
#include "test/support/rigs/reader_rig.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    reader_rig_attach();
    struct elf elf;
    struct function_names *names;
    struct function_name name;
    uint64_t vaddr;
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || elf_open(fd, &elf) || function_names_open(&elf, 0, &names))
        return 1;
    while (scanf("%" SCNx64, &vaddr) == 1) {
        function_names_find(names, vaddr, &name);
        printf("%s\t%s\t%s\t%" PRIu32 "\n", name.function, name.system_name, name.file, name.line);
    }
    function_names_close(names);
    close(fd);
    return 0;
}
