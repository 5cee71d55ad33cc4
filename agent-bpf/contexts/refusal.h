/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Why a publisher has given up, by the file or memfd that it has mapped
 * (context/publisher_state.h). The process may map what it likes: it says so of itself, in one of
 * four words. Pure; thread: any.
 */
#include "base/bytes.h"
#include "context/publisher_state.h"

/* maps: text of /proc/PID/maps. PUBLISHER_NONE: none has. */
enum publisher_state refusal_find(struct bytes maps);
