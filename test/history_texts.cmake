# SPDX-License-Identifier: Apache-2.0
spanprof_unit_test(history_texts spanprof_history_truth)
