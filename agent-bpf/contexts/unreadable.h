/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reasons why a published context could not be read, counted. Thread: any. */

enum context_unreadable {
    CONTEXT_UNREADABLE_MALFORMED,
    CONTEXT_UNREADABLE_BEING_CHANGED,
    CONTEXT_UNREADABLE_PROCESS_CHANGED, /* while its contexts were being attached */
    CONTEXT_UNREADABLE_VARIABLE,        /* its thread-local variable was not located */
    CONTEXT_UNREADABLE_NO_VARIABLE,     /* no file that it maps has the variable, or says where */
    CONTEXT_UNREADABLE_LIBC,            /* the variable is dynamic, its C library is not known */
    CONTEXT_UNREADABLE_RECORDS,         /* most of what samples read there was no record */
    CONTEXT_UNREADABLE_TOO_MANY,        /* files or variables */
    CONTEXT_UNREADABLE_MEMORY,
    CONTEXT_UNREADABLE_LABELS, /* of a version that is not known */
    CONTEXT_UNREADABLE_GO,
    CONTEXT_UNREADABLE_STORAGE,
    CONTEXT_UNREADABLE_SOCKET_REFUSED,
    CONTEXT_UNREADABLE_SOCKET_FAILED,
    CONTEXT_UNREADABLE_ENVIRONMENT,
    CONTEXT_UNREADABLE_NO_ROOM, /* in the kernel's map */
    CONTEXT_UNREADABLES
};

void context_count_unreadable(enum context_unreadable reason);
const char *context_unreadable_name(enum context_unreadable reason);
