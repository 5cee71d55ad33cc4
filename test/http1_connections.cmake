# SPDX-License-Identifier: Apache-2.0
spanprof_unit_test(http1_connections spanprof_proto)
