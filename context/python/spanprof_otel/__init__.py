# SPDX-License-Identifier: Apache-2.0
"""Tells the profiler of this node which span each thread works for (OTEP 4947), as OpenTelemetry's API has it.

Found by its entry points: opentelemetry_pre_instrument, which opentelemetry-instrument runs, and
opentelemetry_context, which OTEL_PYTHON_CONTEXT=spanprof names for programs that set up the SDK themselves.
SPANPROF_CONTEXT=off switches it off. Whatever fails leaves the program as it is, silent unless
SPANPROF_CONTEXT_DEBUG=1.
"""
import os
import sys
import threading

from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext

_seen = threading.local()
_LATE = ("greenlet", "uvloop")  # which change how threads switch, once they are imported


def _debug(*words):
    if os.environ.get("SPANPROF_CONTEXT_DEBUG") == "1":
        print("spanprof_otel:", *words, file=sys.stderr)


def _text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _meet(span):
    """The first span of the SDK: its Resource is the process's."""
    attributes = [(key, _text(value)) for key, value in span.resource.attributes.items()]
    error = _native.publish_resource(attributes)
    if error:
        _debug("not publishing:", os.strerror(-error))
        return
    sys.meta_path.insert(0, _Late)
    os.register_at_fork(after_in_child=_native.forked)
    _debug("publishing; switches by", _native.watch())


class _Late:
    """Sees imports, and finds none."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in _LATE:
            _native.again()
        return None


def _meet_thread():
    """What is new on this thread, or in the process since."""
    _native.rescan()
    greenlet = sys.modules.get("greenlet")
    if greenlet is None or not hasattr(greenlet, "settrace") or getattr(_seen, "greenlets", False):
        return
    _seen.greenlets = True
    before = greenlet.gettrace()

    def switched(event, arguments):
        _native.switched()
        if before is not None:
            before(event, arguments)
    greenlet.settrace(switched if before else _native.switched)


class RuntimeContext(ContextVarsRuntimeContext):
    def __init__(self, variable=None):
        super().__init__()
        if variable is not None:  # its tokens stay good
            self._current_context = variable
        try:
            self._publish()
        except Exception as error:  # pylint: disable=broad-exception-caught
            _debug("not publishing:", repr(error))

    def _publish(self):
        if os.environ.get("SPANPROF_CONTEXT") == "off":
            return
        if sys.implementation.name != "cpython":
            raise RuntimeError("%s is not known" % sys.implementation.name)
        from . import _native as native  # and so a name of this module
        native.configure(self._current_context, _meet, _meet_thread)
        self.attach, self.detach, self.get_current = native.attach, native.detach, native.get_current


def instrument():
    """In a program whose API has its context already."""
    try:
        from opentelemetry import context as api
        current = api._RUNTIME_CONTEXT  # pylint: disable=protected-access
        if not isinstance(current, RuntimeContext):
            api._RUNTIME_CONTEXT = RuntimeContext(current._current_context)
    except Exception as error:  # pylint: disable=broad-exception-caught
        _debug("not publishing:", repr(error))
