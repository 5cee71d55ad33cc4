/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Does an ExportProfilesServiceRequest obey the rules for profiles? What the conformance checker of
 * the profiling SIG (profcheck) fails on, its optional switches included: zero entries, indices in
 * range, link ids, address ranges, no key twice, timestamps in the window, one sample shape a
 * profile, nothing twice, nothing unreferenced; and that samples of one identity are merged. Pure;
 * thread: any. Limit: memory to decode in.
 */
#include "base/bytes.h"

enum profiles_check_outcome {
    PROFILES_CONFORM = 0,
    PROFILES_MALFORMED = 1,
    PROFILES_TOO_BIG = 2,    /* decoding needs more than arena_bytes */
    PROFILES_BREAK_RULE = 3, /* why says which */
};

/* Why: one sentence, NUL-terminated, also for the other outcomes ("" if all is well). */
int otlp_profiles_check(struct bytes request, size_t arena_bytes, char *why, size_t why_size);
