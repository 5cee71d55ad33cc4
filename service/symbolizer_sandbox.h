/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the symbolizer can do once it runs. Thread: main of its process, before there are others. */

/* From here on: the calls of its table. 0 or negative errno. */
int symbolizer_sandbox_enter(void);
