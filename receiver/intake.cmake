# SPDX-License-Identifier: Apache-2.0
list(APPEND sources correlation.c correlation_counts.c intake.c intake_analyst.c intake_body.c intake_code.c intake_context.c intake_drain.c intake_frames.c
    intake_items.c intake_profiles.c intake_samples.c intake_spans.c intake_stacks.c
    intake_window.c)
