# SPDX-License-Identifier: Apache-2.0
"""Runs at the start of each Python that finds this directory by PYTHONPATH: the publisher begins with the import of
OpenTelemetry's context, also in programs that set up the SDK in code. No variable of OpenTelemetry's is set, since a
Python that does not look here (-I, -E) would log an error about it.

The sitecustomize that this one hides runs too: this directory moves to the end of sys.path, where it hides none. Every
Python reads this file, also Python 2."""
import os
import sys


class ContextWatch:
    """An importer that finds one module, by asking the others, and once."""
    name = "opentelemetry.context"

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != cls.name or cls not in sys.meta_path:
            return None
        sys.meta_path.remove(cls)
        from importlib.util import find_spec
        spec = find_spec(name)
        try:
            run = spec.loader.exec_module

            def run_and_publish(module):
                run(module)
                publish()
            spec.loader.exec_module = run_and_publish
        except Exception:  # pylint: disable=broad-exception-caught
            pass  # no such module, or a loader that takes no attribute: as without us
        return spec


def publish():
    try:
        import spanprof_otel
        spanprof_otel.instrument()
    except Exception as error:  # pylint: disable=broad-exception-caught
        if os.environ.get("SPANPROF_CONTEXT_DEBUG") == "1" and sys.stderr:
            sys.stderr.write("spanprof_otel: not publishing: %r\n" % error)


def is_served():
    return sys.version_info >= (3, 10) and sys.implementation.name == "cpython" and \
        os.environ.get("SPANPROF_CONTEXT") != "off"


HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path[-1:] != [HERE]:  # else no other was found, and this is the second time
    if is_served():
        sys.meta_path.insert(0, ContextWatch)
    sys.path[:] = [entry for entry in sys.path if entry != HERE] + [HERE]
    del sys.modules["sitecustomize"]
    import sitecustomize  # noqa: F401, E402  pylint: disable=import-self
