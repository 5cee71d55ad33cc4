/* SPDX-License-Identifier: Apache-2.0 */
/* Has texts that begin as the paths of Rust's sources, and are not. With an argument it loads that
 * library and waits. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    puts("/rustc/82e1608dfa6e0b5569232559e3d385fea5a9311/library/core/src/slice/mod.rs");
    puts("/rustc/82e1608dfa6e0b5569232559e3d385fea5a931123/library/core/src/slice/mod.rs");
    puts("/rustc/");
    if (argc > 1 && dlopen(argv[1], RTLD_NOW))
        pause();
    return 0;
}
