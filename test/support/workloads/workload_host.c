/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that publishes nothing, runs for some seconds, and then loads a library that does:
 *     workload_host LIBRARY SECONDS-BEFORE SECONDS-IN-LIBRARY
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 4)
        return fprintf(stderr, "usage: workload_host LIBRARY SECONDS SECONDS\n"), 2;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    printf("{\"type\":\"host\",\"pid\":%d}\n", getpid());
    usleep((useconds_t)(atof(argv[2]) * 1e6));
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    int (*run)(double) = (int (*)(double))dlsym(library, "plugin_run");
    return run ? run(atof(argv[3])) : 1;
}
