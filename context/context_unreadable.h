/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reasons why a published context could not be read: the label of
 * spanprof_contexts_unreadable_total, and the sentence of the Status page for a process of which
 * nothing else could be read either.
 */
#define CONTEXT_UNREADABLE_ROWS(ROW)                                                               \
    ROW(MALFORMED, malformed, "its process context is not well-formed")                            \
    ROW(BEING_CHANGED, being_changed, "it was changing its process context each time")             \
    ROW(PROCESS_CHANGED, process_changed, "it became another program meanwhile")                   \
    ROW(VARIABLE, unresolved_variable, "its thread-local variable was not located")                \
    ROW(NO_VARIABLE, no_variable, "no file that it maps has the thread-local variable")            \
    ROW(LIBC, unknown_libc, "its C library is not known here")                                     \
    ROW(RECORDS, records, "most of what was read was no record")                                   \
    ROW(TOO_MANY, too_many, "it maps too many files, or too many publishers")                      \
    ROW(SCHEMA, unsupported_schema, "its thread contexts have a schema that is not known here")    \
    ROW(MEMORY, memory, "its memory could not be read")                                            \
    ROW(LABELS, unsupported_labels, "its custom-labels have a version that is not known here")     \
    ROW(GO, unsupported_go, "its version of Go is not known here")                                 \
    ROW(NODEJS, unsupported_nodejs, "its layout of V8 is not known here")                          \
    ROW(STORAGE, malformed_storage, "the storage of its Elastic agent is not well-formed")         \
    ROW(SOCKET_REFUSED, refused_socket, "the socket of its Elastic agent is not its own")          \
    ROW(SOCKET_FAILED, unreachable_socket, "the socket of its Elastic agent was not reached")      \
    ROW(ENVIRONMENT, malformed_environment, "OTEL_RESOURCE_ATTRIBUTES is not well-formed")         \
    ROW(NO_ROOM, no_room, "too many processes of its cgroup publish")

#define CONTEXT_UNREADABLE_ENUM_ROW(symbol, name, sentence) CONTEXT_UNREADABLE_##symbol,
enum context_unreadable {
    CONTEXT_UNREADABLE_ROWS(CONTEXT_UNREADABLE_ENUM_ROW) CONTEXT_UNREADABLES
};
#undef CONTEXT_UNREADABLE_ENUM_ROW

extern const char *const context_unreadable_names[CONTEXT_UNREADABLES];
