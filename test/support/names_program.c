/* SPDX-License-Identifier: Apache-2.0 */
/* An executable with a function that only its symbol table names. */
#include <stdio.h>

static int __attribute__((noinline)) known_by_symtab(int x)
{
    return x * 3 + 1;
}

int main(int argc, char **argv)
{
    (void)argv;
    printf("%d\n", known_by_symtab(argc));
    return 0;
}
