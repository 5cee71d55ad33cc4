/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The process that is asked (supervisor_ask.h): how it answers. Thread: main of its process. */
#include "base/buf.h"

/* An answer is sent. 0 or negative errno: the supervisor is gone, or there is no memory. */
int answer_contents(int answer_fd, size_t i, struct bytes contents);
int answer_error(int answer_fd, size_t i, int error);

/* To QUESTION_FILES: the contents of each path of the list, in its order. Regular files of at most
 * SUPERVISOR_FILE_BYTES_MAX; others are answered with -EINVAL, -EFBIG, or why they cannot be read.
 */
int answer_files(int answer_fd, struct bytes paths);
/* The next text of a list; false: there is none, or it has no end. */
bool answer_next(struct bytes *list, const char **text);
/* Erases what it holds, and closes it. */
void answer_wipe(struct buf *buf);

#define _cleanup_wipe_ __attribute__((cleanup(answer_wipe)))
