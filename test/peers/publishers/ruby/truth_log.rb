# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# What a service worked on and when, as its own API says it, a line of JSON each: $TRUTH/PID.
module TruthLog
  LOCK = Mutex.new
  @file = nil

  class << self
    # Of this thread's CPU time, for its current span.
    def burn(seconds)
      context = OpenTelemetry::Trace.current_span.context
      start = clock(Process::CLOCK_REALTIME, :nanosecond)
      finish = clock(Process::CLOCK_THREAD_CPUTIME_ID) + seconds
      (1..100).sum { |i| i * i } while clock(Process::CLOCK_THREAD_CPUTIME_ID) < finish
      record = { type: context.valid? ? 'on' : 'off', tid: Thread.current.native_thread_id, from: start,
                 to: clock(Process::CLOCK_REALTIME, :nanosecond) }
      record.update(trace_id: context.hex_trace_id, span_id: context.hex_span_id) if context.valid?
      tell(record)
    end

    # A thread that is nobody's.
    def burn_without_span(seconds = 0.003, pause = 0.05)
      Thread.new do
        loop do
          burn(seconds)
          sleep(pause)
        end
      end
    end

    private

    def clock(...)
      Process.clock_gettime(...)
    end

    def tell(record)
      LOCK.synchronize do
        if @file.nil? || @pid != Process.pid
          @pid = Process.pid
          @file = File.open(File.join(ENV.fetch('TRUTH'), @pid.to_s), 'a')
          @file.sync = true
        end
        @file.write("#{JSON.generate(record)}\n")
      end
    end
  end
end
