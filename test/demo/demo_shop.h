/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The shop's routes: what each request does, in spans. Thread: any, after demo_shop_open(). */
#include <stddef.h>

int demo_shop_open(void);
/* path is what stands between "GET " and " HTTP". Writes the body of the answer. 0: no such route.
 */
int demo_shop_serve(const char *path, char *body, size_t size);
