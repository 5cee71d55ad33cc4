# SPDX-License-Identifier: Apache-2.0
spanprof_unit_test(history_disk spanprof_history_fixture spanprof_history_load)
set_tests_properties(unit.history_disk PROPERTIES SKIP_RETURN_CODE 77)
spanprof_one_thread(history_disk)
