/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The symbols of one context ABI, as a program or library of its own exports them: compiled once
 * for each TLS model (CMakeLists.txt). publisher_open() finds them, in a library that is
 * linked to (publisher_linked.c) or loaded by dlopen() (publisher_late.c). Thread: any.
 */
struct publisher_slot {
    void *volatile *(*of_thread)(void); /* the calling thread's pointer; also allocates it */
    void *volatile *process_storage;    /* Elastic's; NULL: the ABI has none */
};

/* Ends the program if the library cannot be loaded. */
struct publisher_slot publisher_open(const char *library);

void *volatile *publisher_slot_of_thread(void);
void *volatile *publisher_slot_process_storage(void);
