/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Runs a trace request on the writer: inflate, check, join each span, put the result into the
 * outbox. WRITER thread only, inside the store's transaction. A large request comes in parts, with
 * request->left: then there is room for all of it before a part is put.
 */
#include "receiver/intake/intake_body.h"

intake_signal_run intake_spans_run;
