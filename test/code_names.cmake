# SPDX-License-Identifier: Apache-2.0
# Frames of code without a file. The libraries: test/store.cmake, test/intake.cmake.
spanprof_unit_test(code_names spanprof_store_fixture)
spanprof_unit_test(intake_code spanprof_intake_fixture)
