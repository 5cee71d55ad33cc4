# SPDX-License-Identifier: Apache-2.0
"""Programs of publishers/{rust,cpp} with the publishers of this tree, built below build/peers. What cannot be had raises
sdk_clients.Missing."""
import os
import subprocess

import harness
import sdk_clients

HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = os.path.join(harness.SOURCE, "context", "go")
CRATE = os.path.join(harness.SOURCE, "context", "rust")
LIBRARY = os.path.join(harness.BUILD, "context")  # where libspanprof-context.so is built
RUST = os.path.join(sdk_clients.PEERS, "publish_rust")
CPP = os.path.join(sdk_clients.PEERS, "publish_cpp")
SDK_PREFIX = os.environ.get("SPANPROF_OPENTELEMETRY_CPP")  # where opentelemetry-cpp is installed, if not below /usr


def sources(language):
    return os.path.join(HERE, "publishers", language)
