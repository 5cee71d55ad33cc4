# SPDX-License-Identifier: Apache-2.0
# The history of a running service.
spanprof_integration_test(history SERIAL LONG TIMEOUT 120)
