# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# The process context is another's (a mapping of its name, as the ABI wants it) before the first span.
require 'fiddle'
require 'opentelemetry/sdk'

SIZE = 4096
MEMFD_CREATE = Fiddle::Function.new(Fiddle.dlopen(nil)['memfd_create'], [Fiddle::TYPE_VOIDP, -Fiddle::TYPE_INT],
                                    Fiddle::TYPE_INT)
MMAP = Fiddle::Function.new(Fiddle.dlopen(nil)['mmap'],
                            [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT, Fiddle::TYPE_INT,
                             Fiddle::TYPE_INT, Fiddle::TYPE_LONG], Fiddle::TYPE_VOIDP)
file = File.open("/proc/self/fd/#{MEMFD_CREATE.call('OTEL_CTX', 0)}", 'r+b')
file.truncate(SIZE)
file.write(['OTEL_CTX', 2, 0, 1, 0].pack('a8L<L<Q<Q<'))
file.flush
MMAP.call(nil, SIZE, 3, 1, file.fileno, 0)

OpenTelemetry::SDK.configure
ids = OpenTelemetry.tracer_provider.tracer('taken').in_span('one') do |span|
  [SpanprofOtel::Native.current[1] == "\0" * 8, span.context.valid?]
end
refusals = File.read('/proc/self/maps').scan(%r{/spanprof-refused-(\w+)})
puts "#{ids.join(' ')} #{SpanprofOtel::Contexts.instance_methods(false)} #{refusals.join(',')}"
