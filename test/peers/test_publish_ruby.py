# SPDX-License-Identifier: Apache-2.0
"""Stock Ruby services get their spans' CPU by `spanprof exec --with ruby` alone: every sample of what their handlers burned is linked to the
span of that request. Interleave: what is published is the current span, on each Ruby that is here.

The SDK is what `require "opentelemetry/sdk"` finds: gems of the machine, or directories in SPANPROF_RUBYLIB (with
colons: the `lib` of api, sdk, common, registry, semantic_conventions, exporter/otlp and exporter/otlp-common of
opentelemetry-ruby, of instrumentation/base and instrumentation/rack of opentelemetry-ruby-contrib). What these need, and
the servers, are Debian's ruby-google-protobuf, ruby-googleapis-common-protos-types, ruby-rack, ruby-webrick and puma."""
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "integration", "support")]
import harness  # noqa: E402
import publisher_services  # noqa: E402
import publishing  # noqa: E402

SOURCES = os.path.join(HERE, "publishers", "ruby")
TREE = os.path.join(harness.BUILD, "publishers", "ruby")
PUBLISHER = os.path.join(TREE, "spanprof_otel.rb")
CHECKS = 100000  # on each Ruby at the least
PARTS = {"the SDK": "opentelemetry/sdk", "the exporter": "opentelemetry/exporter/otlp",
         "the Rack instrumentation": "opentelemetry-instrumentation-rack"}


def environment(**more):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    rubylib = os.environ.get("SPANPROF_RUBYLIB")
    return {**kept, **({"RUBYLIB": rubylib} if rubylib else {}), "OTEL_TRACES_EXPORTER": "none", **more}


def published(**more):
    return environment(RUBYOPT="-r" + PUBLISHER, **more)


def run(ruby, *arguments, timeout=600, **options):
    return subprocess.run([ruby, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                          cwd=SOURCES, **options)


def rubies():
    """{version: program} of those that a library was built for; SPANPROF_RUBY names more than the machine's own."""
    found = {}
    candidates = os.environ.get("SPANPROF_RUBY", "").split(":") + glob.glob("/usr/bin/ruby[0-9].[0-9]")
    for program in filter(None, candidates):
        done = run(program, "-e", "print RbConfig::CONFIG['ruby_version']", env=environment())
        if done.returncode == 0 and os.path.exists(os.path.join(TREE, done.stdout.decode(), "native.so")):
            found.setdefault(done.stdout.decode(), program)
    return found


def why_not(ruby, *parts):
    """The reason why Ruby does not have these parts of OpenTelemetry, or None."""
    for part in parts:
        if run(ruby, "-e", "require ARGV[0]", PARTS[part], env=environment()).returncode:
            return "Ruby has not %s of OpenTelemetry (%s): see SPANPROF_RUBYLIB" % (part, PARTS[part])
    return None


class PublishRuby(publishing.PublishersTest):
    def setUp(self):
        super().setUp()
        self.rubies = rubies()
        if not self.rubies:
            self.skipTest("the publisher is not built: no ruby-dev")


class Untouched(PublishRuby):
    """A program is left as it is by the publisher that has nothing to do, or may not do it."""
    PROGRAM = "puts [1, Class.new.new.class.name, Object.private_method_defined?(:inherited)].inspect; exit 3"

    def compare(self, program, *options, **more):
        for version, ruby in self.rubies.items():
            plain = run(ruby, *options, "-e", program, env=environment())
            ours = run(ruby, *options, "-e", program, env=published(**more))
            self.assertEqual((plain.returncode, plain.stdout, plain.stderr), (ours.returncode, ours.stdout, ours.stderr),
                             version)

    def test_without_opentelemetry(self):
        self.compare(self.PROGRAM)
        self.compare(self.PROGRAM, "--disable-gems", "-W2")

    def test_other_namesakes(self):
        self.compare("module OpenTelemetry; module Trace; class TracerProvider; end; end; end;"
                     "class Own < OpenTelemetry::Trace::TracerProvider; end; p Own.superclass")

    def test_autoload_is_not_triggered(self):
        self.compare("autoload :OpenTelemetry, '/nonexistent'; class A; end; class B < A; end; p B")

    def test_other_layout(self):
        """An SDK whose contexts look otherwise."""
        self.compare("""
            module Native; end
            module OpenTelemetry
              Fiber.attr_accessor :opentelemetry_context
              Id = Struct.new(:trace_id, :span_id, :flags) do
                def valid? = true
                def remote? = false
                def trace_flags = self
                def sampled? = true
              end
              module Trace
                CURRENT_SPAN_KEY = 'span'
                Span = Struct.new(:context)
                class TracerProvider; end
                def self.current_span = Span.new(Id.new('t' * 16, 's' * 8, 1))
              end
              class Context
                def self.attach(context) = 7
                def self.detach(token) = token
                def self.clear = nil
              end
              module SDK
                module Trace
                  class TracerProvider < OpenTelemetry::Trace::TracerProvider; end
                end
              end
            end
            p OpenTelemetry::Context.attach(1), OpenTelemetry::Context.detach(2)""")

    def test_off(self):
        for ruby in self.rubies.values():
            done = run(ruby, "-e", "p defined?(SpanprofOtel::Classes), Object.singleton_class.ancestors.first(2)",
                       env=published(SPANPROF_CONTEXT="off"))
            self.assertNotIn(b"SpanprofOtel", done.stdout)

    def test_ractors_define_classes(self):
        self.compare("Warning[:experimental] = false; r = Ractor.new { Class.new(String).new('x').to_s };"
                     "p r.respond_to?(:value) ? r.value : r.take")

    def test_another_publisher(self):
        """The process context is taken: nothing is published, no hook is left, the program goes on."""
        for version, ruby in self.rubies.items():
            if why_not(ruby, "the SDK"):
                self.skipTest(why_not(ruby, "the SDK"))
            done = run(ruby, os.path.join(SOURCES, "taken.rb"), env=published(SPANPROF_CONTEXT_DEBUG="1"))
            self.assertEqual(done.stdout, b"true true [] taken\n", done.stderr)
            self.assertIn(b"not publishing: File exists", done.stderr)


    REFUSED = """
        require 'opentelemetry/sdk'
        OpenTelemetry::SDK.configure
        OpenTelemetry.tracer_provider.tracer('refused').in_span('one') {}
        puts File.read('/proc/self/maps').scan(%r{/spanprof-refused-(\\w+)}).uniq.inspect
    """

    def assert_refused(self, ruby, state, tree):
        """It goes on; the node is told why, and nobody else."""
        done = run(ruby, "-W2", "-e", self.REFUSED, env=environment(RUBYOPT="-r" + os.path.join(tree, "spanprof_otel.rb")))
        self.assertEqual((done.returncode, done.stdout.decode()), (0, '[["%s"]]\n' % state), done.stderr)
        self.assertNotIn(b"spanprof", done.stderr)
        self.assertNotIn(b"experimental", done.stderr)

    def test_gives_up(self):
        for version, ruby in self.rubies.items():
            if why_not(ruby, "the SDK"):
                self.skipTest(why_not(ruby, "the SDK"))
            tree = os.path.join(self.directory, version)
            shutil.copytree(TREE, tree)
            with open(os.path.join(tree, version, "native.so"), "w") as file:
                file.write("not a library")
            self.assert_refused(ruby, "no_library", tree)
            shutil.rmtree(os.path.join(tree, version))
            self.assert_refused(ruby, "unknown_version", tree)


class Interleave(PublishRuby):
    def one(self, ruby, version, **more):
        done = run(ruby, os.path.join(SOURCES, "interleave.rb"), env=published(**more))
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        print(version, more or "", "; ".join(" ".join(line) for line in lines), flush=True)
        counted = {name: (int(checks), int(wrong)) for name, checks, wrong in (line for line in lines if len(line) == 3)}
        self.assertEqual(done.returncode, 0, done.stderr.decode()[-2000:])
        self.assertEqual(sum(wrong for _, wrong in counted.values()), 0)
        self.assertGreater(sum(checks for checks, _ in counted.values()), CHECKS)

    def each(self, **more):
        tested = 0
        for version, ruby in self.rubies.items():
            reason = why_not(ruby, "the SDK")
            if reason:
                print("%s skipped: %s" % (version, reason), flush=True)
                continue
            self.one(ruby, version, **more)
            tested += 1
        if not tested:
            self.skipTest("no Ruby has the SDK of OpenTelemetry")

    def test_threads_and_fibers(self):
        self.each()

    def test_threads_that_move(self):
        self.rubies = {version: ruby for version, ruby in self.rubies.items()
                       if tuple(map(int, version.split("."))) >= (3, 3, 0)}
        if not self.rubies:
            self.skipTest("no Ruby from 3.3 on: threads do not move")
        self.each(RUBY_MN_THREADS="1")


class Service(publisher_services.Service):
    options = ("--with", "ruby")
    complaints = "spanprof_otel|Error"
    paths = ["/render", "/wait", "/fibers", "/thread"]
    burning = 3


class Services(publisher_services.ServicesTest, PublishRuby):
    def run_service(self, name, program, *arguments, **more):
        found = shutil.which(program)
        ruby = next(iter(self.rubies.values()))
        if not found:
            self.skipTest("no " + program)
        if why_not(ruby, *PARTS):
            self.skipTest(why_not(ruby, *PARTS))
        self.judge(name, lambda spanprof, service: Service(
            self, spanprof, service, [ruby, found, *arguments], SOURCES, **environment(OTEL_TRACES_EXPORTER="otlp", **more)))

    def test_webrick(self):
        self.run_service("webrick", "rackup", "-q", "-s", "webrick", "-E", "none", "-o", "127.0.0.1", "-p", "{port}")

    def test_puma(self):
        self.run_service("puma", "puma", "-q", "-t", "4:4", "-e", "production", "-b", "tcp://127.0.0.1:{port}")

    def test_puma_workers(self):
        self.run_service("puma_workers", "puma", "-q", "-C", "puma_workers.rb", "-e", "production", "-b",
                   "tcp://127.0.0.1:{port}", WEB_CONCURRENCY="2")

    def test_puma_forked_with_its_sdk(self):
        """The SDK's Resource has the pid of the process that configured it, the parent."""
        self.run_service("puma_preload", "puma", "-q", "-w", "2", "-t", "2:2", "--preload", "-e", "production", "-b",
                   "tcp://127.0.0.1:{port}", WEB_CONCURRENCY="2")


if __name__ == "__main__":
    harness.main()
