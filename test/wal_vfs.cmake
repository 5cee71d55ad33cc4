# SPDX-License-Identifier: Apache-2.0
# The store's log, written a transaction at once.
spanprof_unit_test(wal_vfs spanprof_store)
