/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Counts published contexts that could not be read, by reason. Thread: any. */
#include "context/context_unreadable.h"

void context_count_unreadable(enum context_unreadable reason);
