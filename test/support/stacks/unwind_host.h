/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* In a file of its own, which is built with frame pointers and without unwind information. */
void without_unwind_info(void (*called)(void));
