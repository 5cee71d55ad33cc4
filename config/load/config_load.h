/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reads a configuration, prints one, and compares two. Thread: any. */
#include "config/config.h"

/* 0 and *config; or -EINVAL (-ENOMEM), *config is NULL, and errors holds one line an error, in the
 * order of the sources and of the places in them, then one a warning (for a person, on stderr). */
int config_load(const struct config_source *sources, size_t n, struct config **config,
                struct buf *errors);
void config_close(struct config *config); /* NULL is fine */

#define CONFIG_IMAGE_MAX ((size_t)32 << 20)
enum config_secrets { CONFIG_WITH_SECRETS, CONFIG_WITHOUT_SECRETS };
/* The configuration as one block for another process of this program; without secrets the values of
 * headers, tokens and keys are empty, and warnings are left out. At most CONFIG_IMAGE_MAX bytes. 0,
 * BUF_FULL, -ENOMEM. */
int config_pack(const struct config *config, enum config_secrets secrets, struct buf *out);
/* 0 and *config as config_load() gives it; -EINVAL: no such block, whoever made it; -ENOMEM. */
int config_unpack(struct bytes image, struct config **config);

/* The merged configuration with defaults filled in, as YAML; secrets (header values) redacted. */
int config_print(const struct config *config, struct buf *out);
bool config_same(const struct config *a, const struct config *b); /* also in what is not printed */
int config_print_components(
    struct buf *out); /* YAML: components with their signals and stability */
/* What the program can take with it at most: base/limits.h. */
int config_print_limits(const struct config *config, struct buf *out);
int config_print_reference(struct buf *out); /* docs/configuration.md */

/* The id that the exporter would have by the other name of its type: "otlp/x" is "otlp_grpc/x".
 * False if that has only one. */
bool config_other_id(const struct config_exporter *exporter, char other[CONFIG_NAME_MAX]);
