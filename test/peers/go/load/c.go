// SPDX-License-Identifier: Apache-2.0

//go:build cgo
// +build cgo

package main

/*
#include <stdint.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static int sort(int n)
{
    uint32_t *values = malloc(n * sizeof(*values));
    uint32_t first;
    for (int i = 0; i < n; i++)
        values[i] = i * 2654435761u;
    qsort(values, n, sizeof(*values), compare);
    first = values[0];
    free(values);
    return first;
}
*/
import "C"

func inC(n int) int {
	return int(C.sort(C.int(n)))
}
