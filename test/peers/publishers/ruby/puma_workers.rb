# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# puma -C: each worker loads the service, and so the SDK, itself.
workers 2
threads 2, 2
preload_app! false
