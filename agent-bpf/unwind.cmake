# SPDX-License-Identifier: Apache-2.0
# Unwind information of executables, and stacks unwound with it.
set(AGENT_UNWIND_SOURCES eh_cfa.c eh_entry.c eh_expression.c eh_frame.c go_unwind.c unwind.c unwind_block.c unwind_maps.c
    unwind_page.c vdso.c)
