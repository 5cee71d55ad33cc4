/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The addresses of a host's name. It reads files and asks servers, which may take for ever: it is
 * called in a process of its own (service/config_process.h). Thread: any that may block.
 */
#include "base/buf.h"

#define LISTEN_ADDRESSES_MAX 4096 /* bytes */

/* Appends the addresses as text, each with a line end. 0; -ENOENT: there is none; -EAGAIN: no
 * server of names has answered; BUF_FULL, other negative errno. */
int listen_name_resolve(const char *name, struct buf *addresses);
