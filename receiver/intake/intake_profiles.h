/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Runs another profiler's request on the writer: inflate, check, find the spans that its samples
 * name, and hold the request until those spans arrive (store/pending_profiles/pending_profiles.h).
 * WRITER thread only, inside the store's transaction.
 */
#include "receiver/intake/intake_body.h"

intake_signal_run intake_profiles_run;
