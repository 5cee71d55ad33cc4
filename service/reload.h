/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One configuration after the other: SIGHUP brings the next one, and if the service does not start
 * with it, the one before comes back. Thread: main of the supervisor.
 */
#include "config/load/cli.h"

/* Runs spanprof until it is stopped. Returns the exit code. */
int reload_run(const struct cli *cli);
