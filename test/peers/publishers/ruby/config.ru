# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# rackup or puma, with the SDK and its Rack instrumentation: nothing here is about profiling.
require 'json'
require 'opentelemetry/sdk'
require 'opentelemetry/exporter/otlp'
require 'opentelemetry-instrumentation-rack'
require_relative 'truth_log'

OpenTelemetry::SDK.configure { |config| config.use 'OpenTelemetry::Instrumentation::Rack' }
TRACER = OpenTelemetry.tracer_provider.tracer('service')

# Work of three spans of one thread, a millisecond in turn.
def fibers
  units = Array.new(3) do |i|
    Fiber.new do
      TRACER.in_span("fiber #{i}") do
        4.times do
          TruthLog.burn(0.001)
          Fiber.yield
        end
      end
      TruthLog.burn(0.001)
    end
  end
  units.each(&:resume) until units.tap { |all| all.select!(&:alive?) }.empty?
  TruthLog.burn(0.004)
end

def answer(path)
  case path
  when '/render' then TruthLog.burn(0.02)
  when '/fibers' then fibers
  when '/thread'
    context = OpenTelemetry::Context.current
    Thread.new { OpenTelemetry::Context.with_current(context) { TruthLog.burn(0.01) } }.join
    TruthLog.burn(0.01)
  else sleep(0.02)
  end
end

use(*OpenTelemetry::Instrumentation::Rack::Instrumentation.instance.middleware_args)
run(lambda { |env|
  answer(env['PATH_INFO'])
  [200, { 'content-type' => 'text/plain' }, ["done\n"]]
})
TruthLog.burn_without_span unless ENV['WEB_CONCURRENCY']
