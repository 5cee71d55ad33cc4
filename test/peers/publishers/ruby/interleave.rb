# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# Whether what the publisher has written is the SDK's current span, at each step of units that take turns: fibers,
# enumerators, threads, tasks of Async, forks. A line a case: name, checks, wrong ones.
#
#     RUBYOPT=-r/.../spanprof_otel.rb ruby interleave.rb [CASE ...]
require 'opentelemetry/sdk'

NONE = ["\0" * 16, "\0" * 8, 0].freeze
STEPS = Integer(ENV.fetch('STEPS', 4000))
LOCK = Mutex.new

OpenTelemetry::SDK.configure do |config|
  config.service_name = 'interleave'
  config.error_handler = ->(**) {} # timeouts leave its stack unbalanced
end
TRACER = OpenTelemetry.tracer_provider.tracer('interleave')

# Counts what it compares.
module Check
  @checks = @wrong = 0

  class << self
    attr_reader :checks, :wrong

    def reset
      @checks = @wrong = 0
    end

    def now
      context = OpenTelemetry::Trace.current_span.context
      wanted = context.valid? && !context.remote? ? [context.trace_id, context.span_id, flags(context)] : NONE
      add(1, SpanprofOtel::Native.current == wanted ? 0 : 1)
    end

    def add(checks, wrong)
      LOCK.synchronize do
        @checks += checks
        @wrong += wrong
      end
    end

    private

    def flags(context)
      context.trace_flags.sampled? ? 1 : 0
    end
  end
end

def check
  Check.now
end

def span(name, &)
  TRACER.in_span(name, &)
end

# One of some units that take turns: pause gives the turn away.
def unit(with_span, steps = STEPS)
  unless with_span
    steps.times do
      check
      yield
    end
    return
  end
  span('unit') do
    steps.times do |i|
      check
      yield
      check
      next unless (i % 10).zero?

      span('inner') do
        check
        yield
        check
      end
    end
  end
  check
end

# The units, each in its turn; they may end at different times.
def take_turns
  units = [true, false, true].map { |with_span| yield with_span }
  until units.empty?
    units.select! do |fiber|
      fiber.resume
      check
      fiber.alive?
    end
  end
end

# What the cases are.
module Cases
  class << self
    def fibers
      take_turns { |with_span| Fiber.new { unit(with_span) { Fiber.yield } } }
    end

    def fibers_within_a_span
      span('outer') { take_turns { |with_span| Fiber.new { unit(with_span) { Fiber.yield } } } }
      check
    end

    def transfers
      main = Fiber.current
      fibers = [true, false].map { |with_span| Fiber.new { unit(with_span) { main.transfer } && main.transfer } }
      STEPS.times do
        fibers.each do |fiber|
          fiber.transfer if fiber.alive?
          check
        end
      end
    end

    def enumerators
      span('outer') do
        lists = [true, false].map { |with_span| Enumerator.new { |list| unit(with_span) { list << 1 } } }
        STEPS.times do
          lists.each do |list|
            list.next
            check
          end
        end
      end
      check
    end

    # A fiber with a span and its caller with another: a switch must not allocate.
    def allocations
      span('outer') do
        fiber = Fiber.new { span('unit') { loop { Fiber.yield } } }
        allocated = lambda do |steps|
          before = GC.stat(:total_allocated_objects)
          steps.times { fiber.resume }
          GC.stat(:total_allocated_objects) - before
        end
        first, few, many = [1, 1, STEPS].map(&allocated)
        raise 'the first step begins a span' if first <= few

        Check.add(STEPS, many - few)
      end
    end

    def fibers_that_fail
      (STEPS / 4).times do
        span('outer') do
          failing = Fiber.new do
            span('failing') do
              check
              Fiber.yield
              raise 'failed'
            end
          end
          failing.resume
          check
          begin
            failing.resume
          rescue RuntimeError
            check
          end
          check
        end
      end
    end

    def fibers_ended_early
      (STEPS / 4).times do
        span('outer') do
          Fiber.new { span('left') { Fiber.yield } }.resume
          check
          [1, 2, 3].each { |i| span('each') { check && break if i == 2 } }
          check
        end
      end
    end

    def threads
      Array.new(8) do |i|
        Thread.new do
          unit(i.odd?, STEPS / 4) { Thread.pass }
          (STEPS / 40).times do
            span('fibers') { take_turns { |with_span| Fiber.new { unit(with_span, 3) { Fiber.yield } } } }
          end
        end
      end.each(&:join)
    end

    def threads_that_leave_a_context
      (STEPS / 20).times do
        Thread.new do
          context = OpenTelemetry::Trace.context_with_span(TRACER.start_span('left'))
          OpenTelemetry::Context.attach(context)
          check
        end.join
        Thread.new { check }.join
      end
    end

    def threads_that_are_killed
      (STEPS / 20).times do
        ready = Queue.new
        thread = Thread.new { span('killed') { ready.push(check) && sleep } }
        ready.pop
        thread.kill
        thread.join
        Thread.new { check }.join
        check
      end
    end

    def timeouts
      require 'timeout'
      40.times do
        span('outer') do
          Timeout.timeout(0.002) { loop { span('inner') { check } } }
        rescue Timeout::Error
          check
        end
        check
      end
    end

    def async
      require 'async'
      Async do |task|
        [true, false, true].each do |with_span|
          task.async { |own| unit(with_span, STEPS / 4) { own.sleep(0) } }
        end
      end
      check
    end

    def remote_parents
      propagator = OpenTelemetry::Trace::Propagation::TraceContext.text_map_propagator
      carrier = { 'traceparent' => "00-#{'1' * 32}-#{'2' * 16}-01" }
      STEPS.times do
        OpenTelemetry::Context.with_current(propagator.extract(carrier)) do
          check
          span('server') { check }
          check
        end
      end
    end

    def unsampled
      off = OpenTelemetry::SDK::Trace::TracerProvider.new(sampler: OpenTelemetry::SDK::Trace::Samplers::ALWAYS_OFF)
      (STEPS / 4).times do
        off.tracer('off').in_span('unsampled') { check }
        check
      end
    end

    def tokens_out_of_order
      (STEPS / 4).times do
        context = OpenTelemetry::Trace.context_with_span(TRACER.start_span('one'))
        tokens = Array.new(2) { OpenTelemetry::Context.attach(context) }
        check
        tokens.each { |token| OpenTelemetry::Context.detach(token) && check }
        OpenTelemetry::Context.attach(context)
        OpenTelemetry::Context.clear
        check
      end
    end

    def forks
      span('parent') do
        20.times { Check.add(3, forked) }
        check
      end
      check
    end

    private

    # How many checks of the child failed.
    def forked
      pid = fork do
        before = Check.wrong
        check
        span('child') { check }
        check
        exit!(Check.wrong - before)
      end
      Process.wait2(pid)[1].exitstatus
    end
  end
end

def main
  $stdout.sync = true
  span('first') { check }
  check
  failed = false
  (ARGV.empty? ? Cases.singleton_methods(false) - [:forked] : ARGV).each do |name|
    Check.reset
    Cases.public_send(name)
    failed |= Check.wrong.positive?
    puts "#{name} #{Check.checks} #{Check.wrong}"
  rescue LoadError => e
    puts "#{name} skipped: #{e.message}"
  end
  exit!(failed ? 1 : 0)
end

main
