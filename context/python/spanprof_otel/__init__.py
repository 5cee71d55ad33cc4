# SPDX-License-Identifier: Apache-2.0
"""Publishes the OpenTelemetry span that each thread works for, for profilers on this machine (OTEP 4947).

Three things load it: the entry point opentelemetry_pre_instrument, which opentelemetry-instrument runs; for programs that
set up the SDK themselves, sitecustomize.py, where PYTHONPATH names its directory, or the entry point
opentelemetry_context, which OTEL_PYTHON_CONTEXT=spanprof names. SPANPROF_CONTEXT=off switches it off. On any failure the program runs as without it, silent unless SPANPROF_CONTEXT_DEBUG=1.
"""
import atexit
import contextvars
import errno
import importlib.util
import json
import os
import sys

from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext


def _debug(*words):
    if os.environ.get("SPANPROF_CONTEXT_DEBUG") == "1" and sys.stderr:
        print("spanprof_otel:", *words, file=sys.stderr)


_refusal = None  # a mapping that stays


def _refuse(state, *why):
    """Nothing is published. The node sees why: a file of that name is mapped (context/publisher_state.h)."""
    global _refusal  # pylint: disable=global-statement
    _debug("not publishing:", *why)
    try:
        import mmap
        with open(os.path.join(os.path.dirname(__file__), "spanprof-refused-" + state), "rb") as file:
            _refusal = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    except Exception as error:  # pylint: disable=broad-exception-caught
        _debug("the node cannot see it:", repr(error))


def _text(value):
    """Of a Resource's attribute: a str, bool, number or a sequence of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _attributes(resource):
    """(key, text) pairs; service.* first: what does not fit is left out at the end."""
    items = sorted(resource.attributes.items(), key=lambda item: not item[0].startswith("service."))
    return [(key, _text(value)) for key, value in items]


def _start(span):
    """With the first span of the SDK: its Resource is the process's."""
    try:
        switches = _native.start(_attributes(span.resource))
        sys.meta_path.insert(0, _ImportWatch)
        os.register_at_fork(after_in_child=_native.forked)
        atexit.register(_native.off)  # spans of the interpreter's own end are not published
        _debug("publishing; switches are seen by", switches)
    except Exception as error:  # pylint: disable=broad-exception-caught
        _native.off()
        _refuse("taken" if getattr(error, "errno", None) == errno.EEXIST else "failed", repr(error))


class _ImportWatch:
    """An importer that finds no module. It sees those that change how threads switch, and Datadog's tracer, which
    publishes a process context at its import: a process has one publisher."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "ddtrace":
            _native.withdraw()
            _debug("not publishing any more: ddtrace publishes")
        _native.expect(name)


class RuntimeContext(ContextVarsRuntimeContext):
    def __init__(self, variable=None):
        super().__init__()
        if variable is not None:  # tokens of the context before stay valid
            self._current_context = variable
        try:
            self._configure()
        except ImportError as error:
            _refuse("no_library", repr(error))
        except Exception as error:  # pylint: disable=broad-exception-caught
            _refuse("unknown_version" if isinstance(error, RuntimeError) else "failed", repr(error))

    def _configure(self):
        if os.environ.get("SPANPROF_CONTEXT") == "off":
            return
        if sys.implementation.name != "cpython" or sys.version_info < (3, 10):
            raise RuntimeError("%s %d.%d is not supported" % (sys.implementation.name, *sys.version_info[:2]))
        if not isinstance(self._current_context, contextvars.ContextVar):
            raise RuntimeError("this release of opentelemetry-api keeps its context elsewhere")
        from . import _native as native  # makes it a name of this module
        native.configure(self._current_context, _start)
        self.attach, self.detach, self.get_current = native.attach, native.detach, native.get_current


def _has_exporter(protocol):
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto." + protocol) is not None
    except Exception:  # pylint: disable=broad-exception-caught
        return False  # a package above it is not there


def _choose_protocol():
    """`spanprof exec` names one for all runtimes. Where its exporter is not installed the SDK would send nothing; a node
    takes both on each port."""
    variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
    if os.environ.get(variable) == "http/protobuf" and not _has_exporter("http") and _has_exporter("grpc"):
        os.environ[variable] = "grpc"


def instrument():
    """Replaces the runtime context that the API has already."""
    _choose_protocol()
    try:
        from opentelemetry import context as api
        api.get_current()  # releases as late as 1.20 make theirs at the first use
        current = api._RUNTIME_CONTEXT  # pylint: disable=protected-access
        if type(current) is ContextVarsRuntimeContext:  # a subclass has an own way to attach
            api._RUNTIME_CONTEXT = RuntimeContext(current._current_context)
        elif not isinstance(current, RuntimeContext):
            _refuse("failed", "the runtime context is", repr(current))
    except Exception as error:  # pylint: disable=broad-exception-caught
        _refuse("failed", repr(error))
