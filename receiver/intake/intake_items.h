/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A request of metrics or logs on the writer: inflate, check, put into the outbox as it came.
 * WRITER thread only, inside the store's transaction.
 */
#include "receiver/intake/intake_body.h"

intake_signal_run intake_items_run;
