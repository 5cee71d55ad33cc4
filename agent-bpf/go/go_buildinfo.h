/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads the version that the Go linker writes into each executable (since Go 1.13), also in
 * stripped ones. Source of the format: debug/buildinfo and cmd/link of Go: 16-byte aligned, 14
 * bytes of magic, the size of a pointer, flags; then pointers to Go strings, or since Go 1.18
 * strings in line from byte 32 on. Symbolizer only. Limit: GO_BUILDINFO_BYTES_MAX are searched in
 * files without sections.
 */
#include "agent-bpf/files/elf.h"

#define GO_BUILDINFO_BYTES_MAX (UINT64_C(16) << 20)
#define GO_VERSION_MAX         128 /* with NUL */

/* version: as the linker wrote it, of printable ASCII, "go1.26.8" or the like.
 * 0, ELF_MISSING, ELF_MALFORMED, negative errno. */
int go_buildinfo_version(const struct elf *elf, char version[GO_VERSION_MAX]);

/* False: not a released version (development, beta, release candidate), or malformed. Suffixes of
 * custom builds are accepted: "go1.26.8 X:boringcrypto", "go1.26-1". */
bool go_version_parse(const char *version, uint16_t *major, uint16_t *minor);
