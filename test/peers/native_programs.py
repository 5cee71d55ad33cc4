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


def cargo(*arguments, folder):
    sdk_clients.need("cargo")
    done = subprocess.run(["cargo", *arguments], cwd=folder, capture_output=True, text=True, timeout=1800,
                          env=dict(os.environ, CARGO_HOME=os.path.join(sdk_clients.PEERS, "cargo"),
                                   CARGO_TARGET_DIR=os.path.join(RUST, "target")))
    if done.returncode:
        raise RuntimeError("cargo %s: %s" % (" ".join(arguments), (done.stdout + done.stderr)[-3000:]))
    return done.stdout


def build_rust():
    sdk_clients.need("cargo", "cc")
    try:
        cargo("build", "-q", "--release", "--locked", folder=sources("rust"))
    except RuntimeError as error:
        if "failed to download" in str(error) or "failed to get" in str(error):
            raise sdk_clients.Missing(str(error)) from error
        raise


def rust(name):
    return os.path.join(RUST, "target", "release", name)


def build_cpp():
    """Of the SDK as its CMake package has it."""
    sdk_clients.need("cmake", "g++")
    command = ["cmake", "-S", sources("cpp"), "-B", CPP, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
               "-DSPANPROF_LIBRARY=" + LIBRARY]
    if SDK_PREFIX:
        command.append("-DCMAKE_PREFIX_PATH=" + SDK_PREFIX)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode and "opentelemetry-cpp" in done.stderr:
        raise sdk_clients.Missing("no opentelemetry-cpp with its OTLP/HTTP exporter (Debian 13: opentelemetry-cpp-dev; "
                                  "elsewhere SPANPROF_OPENTELEMETRY_CPP names where it is installed)")
    if not done.returncode:
        done = subprocess.run(["cmake", "--build", CPP], capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-3000:])


def cpp(name):
    return os.path.join(CPP, name)
