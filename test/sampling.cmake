# SPDX-License-Identifier: Apache-2.0
# What is sampled, and how often.
spanprof_bpf_test(filter PkgConfig::LIBBPF Threads::Threads m)
if(EXISTS ${CMAKE_SOURCE_DIR}/main.c)
    spanprof_integration_test(sampling SERIAL LONG TIMEOUT 90)
endif()
