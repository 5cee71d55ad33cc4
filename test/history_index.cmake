# SPDX-License-Identifier: Apache-2.0
# Where traces are in the history, and which have most CPU time.
spanprof_unit_test(history_index spanprof_store)
spanprof_unit_test(history_busiest spanprof_history_truth)
spanprof_one_thread(history_index history_busiest)
