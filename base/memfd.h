/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Contents handed from one process to another as a sealed memfd: what was written once cannot be
 * changed by either. Thread: any.
 */
#include "base/buf.h"
#include <sys/types.h>

/* A memfd (CLOEXEC) with these contents, sealed against any change. Negative errno. */
int memfd_sealed(const char *name, struct bytes contents);
/* Writes all of it; for any descriptor. 0 or negative errno. */
int memfd_write(int fd, struct bytes contents);
/* Seals what was written to one (MFD_ALLOW_SEALING) against any change. 0 or negative errno. */
int memfd_seal(int fd);
/* The size of a memfd that is sealed against change; -EINVAL: it is not sealed so, or no memfd;
 * -EFBIG: more than limit_bytes; other negative errno. */
ssize_t memfd_size(int fd, size_t limit_bytes);
/* Appends all contents of a memfd that is sealed against change. 0, BUF_FULL, what
 * memfd_size() says. */
int memfd_read(int fd, size_t limit_bytes, struct buf *out);
/* A memfd (CLOEXEC) of `size` zero bytes, to be mapped shared; its size is sealed. Negative errno.
 */
int memfd_shared(const char *name, size_t size);
/* Maps all of one; NULL: it has another size, or no memory. */
void *memfd_map(int fd, size_t size);
