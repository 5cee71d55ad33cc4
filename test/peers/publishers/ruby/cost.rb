# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# ns of what the publisher has a part in: lines `name value`, the best of some rounds.
require 'opentelemetry/sdk'

OpenTelemetry::SDK.configure { |config| config.service_name = 'cost' }
TRACER = OpenTelemetry.tracer_provider.tracer('cost')
N = 50_000
ROUNDS = 5

def best(name)
  times = Array.new(ROUNDS) do
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - start
  end
  puts "#{name} #{times.min.fdiv(N)}"
end

def switches
  fiber = Fiber.new { loop { Fiber.yield } }
  N.times { fiber.resume }
end

TRACER.in_span('first') do |_, context|
  best('attach_detach') { N.times { OpenTelemetry::Context.detach(OpenTelemetry::Context.attach(context)) } }
  best('two_fiber_switches_in_span') { switches }
end
best('span') { N.times { TRACER.in_span('one') {} } }
best('two_fiber_switches') { switches }
