/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Another profiler's request on the writer: inflate, check, find the spans that its samples name,
 * and hold it for them (store/pending_profiles/pending_profiles.h). WRITER thread only, inside the
 * store's transaction.
 */
#include "agent-bpf/drain/labels.h"
#include "receiver/intake/intake.h"
#include "store/store.h"

/* names: labels that hold ids beside those that are known; borrowed. Sets request->outcome and
 * message. 0, or the store's negative errno: then the batch is lost. */
int intake_profiles_run(struct intake_request *request, struct store *store,
                        const struct label_names *names);
