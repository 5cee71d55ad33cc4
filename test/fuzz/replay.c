/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a fuzz corpus (files or folders given as arguments) through a target, without a fuzzer.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned n_replayed;

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return perror(path), -1;
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(size + 1); /* exact size for the sanitizer, one byte for size 0 */
    if (!data || fread(data, 1, size, file) != size)
        return perror(path), -1;
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_replayed++;
    return 0;
}

static int replay(const char *path)
{
    struct stat status;
    if (stat(path, &status))
        return perror(path), -1;
    if (!S_ISDIR(status.st_mode))
        return replay_file(path);
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    int error = 0;
    for (int i = 0; i < n; i++) {
        char child[4096];
        snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            error |= replay(child);
        free(entries[i]);
    }
    free(entries);
    return error;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (replay(argv[i]))
            return 1;
    printf("%u inputs replayed\n", n_replayed);
    return n_replayed ? 0 : 1;
}
