/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One question to a running spanprof, over its Unix socket: the pages' server (docs/api.md).
 * Blocking; thread: the only one of a command.
 */
#include "proto/http/http_answer.h"

#define CLIENT_ANSWER_MAX ((size_t)64 << 20)
#define CLIENT_WAIT_S     60 /* for each part of an answer */

/* 0 when there is an answer, whatever its status; -EPROTO: what answers there speaks something
 * else; -EMSGSIZE; -ETIMEDOUT; else as connect(), send() and recv() have it. http_answer_close() in
 * any case. */
int client_http_get(const char *socket_path, const char *target, struct http_answer *answer);
