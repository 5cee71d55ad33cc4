/* SPDX-License-Identifier: Apache-2.0 */
/* Has, as each program of Rust, the path of a source of Rust's library in a message; and no word of
 * the compiler's, as where .comment was removed. With an argument it loads that library and waits.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    puts("/rustc/82e1608dfa6e0b5569232559e3d385fea5a93112/library/core/src/slice/mod.rs");
    if (argc > 1 && dlopen(argv[1], RTLD_NOW))
        pause();
    return 0;
}
