/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Runs a trace request on the writer: inflate, check, join each span, put the result into the
 * outbox. WRITER thread only, inside the store's transaction.
 */
#include "receiver/intake/intake_body.h"

intake_signal_run intake_spans_run;
