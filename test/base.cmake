# SPDX-License-Identifier: Apache-2.0
foreach(module arena buf bytes clock files list log loop map stats utf8 worker)
    spanprof_unit_test(${module} spanprof_base)
endforeach()
foreach(module arena buf loop map stats worker)
    spanprof_failing_alloc(test_${module})
endforeach()
spanprof_fuzz_target(bytes spanprof_base)
