/* SPDX-License-Identifier: Apache-2.0 */
/* Load without end: sorting with a callback, printing, searching, memory. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS 500

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t count(char **texts, int from, int to)
{
    if (to - from < 2)
        return (size_t)(texts[from][0] % 7);
    return count(texts, from, (from + to) / 2) + count(texts, (from + to) / 2, to);
}

int main(void)
{
    static char *texts[TEXTS];
    uint32_t random = 1;
    for (size_t sum = 0; sum < SIZE_MAX;) {
        for (int i = 0; i < TEXTS; i++) {
            char text[64];
            random = random * 1664525 + 1013904223;
            snprintf(text, sizeof(text), "%u-%.3f-%s", random, sqrt(random), "text");
            free(texts[i]);
            texts[i] = strdup(text);
        }
        qsort(texts, TEXTS, sizeof(*texts), compare);
        for (int i = 0; i < 200; i++)
            sum = (sum + count(texts, 0, TEXTS)) & 0xffff;
    }
    return 0;
}
