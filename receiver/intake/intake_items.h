/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Runs a request of metrics or logs on the writer: inflate, check, put into the outbox unchanged.
 * WRITER thread only, inside the store's transaction.
 */
#include "receiver/intake/intake_body.h"

intake_signal_run intake_items_run;
