/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A page of memory that nobody can read: it maps a file on a FUSE mount whose daemon, a child that
 * dies with this process, never answers a READ. In a mount namespace of its own (call it before any
 * thread is started), so that nothing is left behind. Needs root, or a user and mount namespace.
 * Source of the protocol: linux/fuse.h.
 */

/* The page; NULL: FUSE cannot be mounted here. directory: exists, and is mounted on. */
void *publisher_fuse_page(const char *directory);
