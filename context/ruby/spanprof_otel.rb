# SPDX-License-Identifier: Apache-2.0
# frozen_string_literal: true

# Tells the profiler of this node which span each thread works for (OTEP 4947), as OpenTelemetry's API has it.
#
# RUBYOPT=-r/.../spanprof_otel.rb loads it into each Ruby program. It waits for OpenTelemetry's SDK; a program that
# loads none pays for one short method at the definition of each class. SPANPROF_CONTEXT=off switches it off. Whatever
# fails leaves the program as it is, silent unless SPANPROF_CONTEXT_DEBUG=1.
module SpanprofOtel
  # Of Object's singleton class: is called with each new class. The method is removed with the SDK's arrival.
  module Classes
    private

    def inherited(subclass)
      super
      SpanprofOtel.install if defined?(::OpenTelemetry) && SpanprofOtel.tracer_provider?(self)
    end
  end

  # Of the API's Context.
  module Contexts
    def attach(context)
      token = super
      Native.switched or SpanprofOtel.meet
      token
    end

    def detach(token)
      super
    ensure
      Native.switched
    end

    def clear
      super
    ensure
      Native.switched
    end
  end

  # Of Process. daemon() forks without _fork().
  module Forks
    def _fork
      pid = super
      Native.forked if pid.zero?
      pid
    end

    def daemon(*)
      result = super
      Native.forked
      result
    end
  end

  # A version of Ruby, of the API or of the SDK that is not known.
  class Unknown < StandardError; end

  ATTRIBUTES_BYTES_MAX = 16_384
  KEY_BYTES = 1..255
  VALUE_BYTES_MAX = 4096

  class << self
    # Versions that are not served must be able to read this file: no syntax that is newer than they are.
    def watch
      quietly do
        next if RUBY_ENGINE != 'ruby' || ENV['SPANPROF_CONTEXT'] == 'off'

        if sdk?
          install
        else
          Object.singleton_class.prepend(Classes)
        end
      end
    end

    # The SDK's TracerProvider inherits from the API's: by then the API is loaded.
    def tracer_provider?(superclass)
      loaded?(:OpenTelemetry) && defined?(::OpenTelemetry::Trace::TracerProvider) &&
        ::OpenTelemetry::Trace::TracerProvider.equal?(superclass)
    end

    def install
      quietly do
        Classes.send(:remove_method, :inherited) if Classes.private_method_defined?(:inherited, false)
        next if const_defined?(:Native, false)

        raise Unknown, "there is no publisher for Ruby #{RUBY_VERSION}" unless File.exist?(library)

        require library
        api = ::OpenTelemetry::Context
        unless [:attach, :detach].all? { |name| api.method(name).arity == 1 } && api.method(:clear).arity.zero?
          raise Unknown, 'this version of the API is not known'
        end

        api.singleton_class.prepend(Contexts)
      end
    end

    # The first span of this process's own: its Resource is the process's.
    def meet
      quietly do
        span = ::OpenTelemetry::Trace.current_span
        context = span.context
        next unless context.valid? && !context.remote? && Native.meet

        begin
          start(span, context)
        rescue StandardError => e
          stop
          refuse(e)
        end
      end
    end

    private

    def library
      require 'rbconfig'
      File.join(__dir__, RbConfig::CONFIG['ruby_version'], 'native.so')
    end

    # Without loading it, if it is to be loaded when it is used first.
    def loaded?(name)
      Object.const_defined?(name, false) && !Object.autoload?(name)
    end

    def sdk?
      loaded?(:OpenTelemetry) && defined?(::OpenTelemetry::SDK::Trace::TracerProvider)
    end

    def start(span, context)
      configure
      flags = context.trace_flags.sampled? ? 1 : 0
      found = Native.read
      unless found && found[0] == context.trace_id && found[1] == context.span_id && found[2] & 1 == flags
        raise Unknown, 'the layout of its contexts is not known'
      end

      error = Native.publish_resource(attributes(resource(span)))
      raise SystemCallError.new(nil, -error) unless error.zero?

      Native.start
      Process.singleton_class.prepend(Forks)
      debug('publishing')
    end

    # Since 1.5 the API's stack is an attribute of the Fiber, before it was a fiber-local variable.
    def configure
      attribute = Fiber.method_defined?(:opentelemetry_context)
      Native.configure(::OpenTelemetry::Trace.const_get(:CURRENT_SPAN_KEY),
                       attribute ? :@opentelemetry_context : :__opentelemetry_context_storage__)
    end

    def stop
      Native.stop
      Contexts.instance_methods(false).each { |name| Contexts.send(:remove_method, name) }
    end

    def refuse(error)
      debug("not publishing: #{error.message}")
      state = case error
              when LoadError then 'no_library'
              when Unknown then 'unknown_version'
              when Errno::EEXIST then 'taken'
              else 'failed'
              end
      File.open(File.join(__dir__, "spanprof-refused-#{state}")) { |file| @refusal = mapping(file) }
    rescue StandardError, LoadError => e
      debug("the node cannot see it: #{e.message}")
    end

    # The node sees the file's name (context/publisher_state.h) for as long as the process lives.
    def mapping(file)
      return mapping_by_fiddle(file) unless IO.const_defined?(:Buffer)

      experimental = Warning[:experimental]
      Warning[:experimental] = false
      IO::Buffer.map(file, file.size, 0, IO::Buffer::READONLY)
    ensure
      Warning[:experimental] = experimental unless experimental.nil?
    end

    # Before Ruby 3.1.
    def mapping_by_fiddle(file)
      require 'fiddle'
      int = Fiddle::TYPE_INT
      mmap = Fiddle::Function.new(Fiddle.dlopen(nil)['mmap'], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, int, int, int,
                                                               Fiddle::TYPE_LONG], Fiddle::TYPE_VOIDP)
      read = shared = 1
      mmap.call(nil, file.size, read, shared, file.fileno, 0)
    end

    def resource(span)
      [span, ::OpenTelemetry.tracer_provider].each { |owner| return owner.resource if owner.respond_to?(:resource) }
      raise 'there is no Resource'
    end

    # What fits, the service's name and instance first.
    def attributes(resource)
      bytes = 0
      pairs = resource.attribute_enumerator.map { |key, value| [text(key), text(value)] }
      pairs.sort_by { |key, _| key.to_s.start_with?('service.') ? 0 : 1 }.select do |key, value|
        next unless key && value && KEY_BYTES.cover?(key.bytesize) && value.bytesize <= VALUE_BYTES_MAX

        size = key.bytesize + value.bytesize + 4
        bytes + size <= ATTRIBUTES_BYTES_MAX && bytes += size
      end
    end

    # nil: not text.
    def text(value)
      value = value.to_s.encode(Encoding::UTF_8)
      value if value.valid_encoding? && !value.include?("\0")
    rescue EncodingError
      nil
    end

    # Another thread's raise() or a timeout waits until the block has ended: it is not for us to catch.
    def quietly
      Thread.handle_interrupt(Object => :never) do
        begin
          yield
        rescue StandardError, LoadError => e
          refuse(e)
        end
      end
    end

    def debug(line)
      warn("spanprof_otel: #{line}") if ENV['SPANPROF_CONTEXT_DEBUG'] == '1'
    end
  end

  watch
end
