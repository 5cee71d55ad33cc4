# SPDX-License-Identifier: Apache-2.0
spanprof_unit_test(labels spanprof_agent)
spanprof_fuzz_target(labels spanprof_agent)
spanprof_bench(labels spanprof_agent)
