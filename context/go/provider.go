// SPDX-License-Identifier: Apache-2.0

// Package spanprofotel tells profilers which OpenTelemetry span each goroutine works for. A span's ids are pprof labels
// of the goroutine that started it, and of those that it starts; the process context (OTEP 4719) has the SDK's Resource.
//
//	otel.SetTracerProvider(spanprofotel.Wrap(provider))
//
// The labels are in the context that Start returns, so pprof.Do adds to them. A goroutine that is given work by a
// channel takes them with the context: pprof.Do(ctx, pprof.Labels(), work).
//
// SPANPROF_CONTEXT=off switches it off. What fails is silent unless SPANPROF_CONTEXT_DEBUG=1, and spans are then the
// SDK's own.
package spanprofotel

import (
	"context"
	"reflect"
	"runtime/pprof"
	"strings"
	"unsafe"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Wrap returns a provider whose spans are published. Keep the SDK's own for Shutdown.
func Wrap(inner trace.TracerProvider) trace.TracerProvider {
	if inner == nil || leaveAlone(inner) || !publisher.configure() {
		return inner
	}
	return &provider{TracerProvider: inner}
}

// leaveAlone: wrapped before, or otel's global provider, which would be asked for itself without end.
func leaveAlone(inner trace.TracerProvider) bool {
	_, wrapped := inner.(*provider)
	return wrapped || strings.Contains(reflect.TypeOf(inner).String(), "global.")
}

type provider struct{ trace.TracerProvider }

func (p *provider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return &tracer{Tracer: p.TracerProvider.Tracer(name, options...), provider: p}
}

// ForceFlush and Shutdown are the SDK's, for callers that ask the global provider whether it has them.
func (p *provider) ForceFlush(ctx context.Context) error {
	if flusher, ok := p.TracerProvider.(interface{ ForceFlush(context.Context) error }); ok {
		return flusher.ForceFlush(ctx)
	}
	return nil
}

func (p *provider) Shutdown(ctx context.Context) error {
	if closer, ok := p.TracerProvider.(interface{ Shutdown(context.Context) error }); ok {
		return closer.Shutdown(ctx)
	}
	return nil
}

type tracer struct {
	trace.Tracer
	provider *provider
}

func (t *tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	from, outer := unwrap(ctx)
	ctx, inner := t.Tracer.Start(from, name, options...)
	spanContext := inner.SpanContext()
	if !spanContext.IsValid() || !publisher.meet(inner) {
		return ctx, inner
	}
	span, scope := t.wrap(inner)
	traceID, spanID := scope.texts(spanContext)
	ctx = pprof.WithLabels(ctx, pprof.Labels("span_id", spanID, "trace_id", traceID))
	scope.enter(ctx, from, outer)
	return trace.ContextWithSpan(ctx, span), span
}

// unwrap gives the SDK its own span as the parent, of which it keeps account.
func unwrap(ctx context.Context) (context.Context, *scope) {
	switch parent := trace.SpanFromContext(ctx).(type) {
	case *sdkSpan:
		return trace.ContextWithSpan(ctx, parent.ReadWriteSpan), &parent.scope
	case *otherSpan:
		return trace.ContextWithSpan(ctx, parent.Span), &parent.scope
	}
	return ctx, nil
}

func (t *tracer) wrap(inner trace.Span) (trace.Span, *scope) {
	if readWrite, ok := inner.(sdktrace.ReadWriteSpan); ok {
		span := &sdkSpan{ReadWriteSpan: readWrite, provider: t.provider}
		return span, &span.scope
	}
	span := &otherSpan{Span: inner, provider: t.provider}
	return span, &span.scope
}

// sdkSpan is a recording span of the SDK, with all that processors and others find in one.
type sdkSpan struct {
	sdktrace.ReadWriteSpan
	provider *provider
	scope    scope
}

func (s *sdkSpan) TracerProvider() trace.TracerProvider { return s.provider }

func (s *sdkSpan) End(options ...trace.SpanEndOption) {
	s.scope.leave()
	if panicked := recover(); panicked != nil {
		endPanicking(s.ReadWriteSpan, panicked, options)
	}
	s.ReadWriteSpan.End(options...)
}

// otherSpan is one that is not recorded, or not the SDK's.
type otherSpan struct {
	trace.Span
	provider *provider
	scope    scope
}

func (s *otherSpan) TracerProvider() trace.TracerProvider { return s.provider }

func (s *otherSpan) End(options ...trace.SpanEndOption) {
	s.scope.leave()
	if panicked := recover(); panicked != nil {
		endPanicking(s.Span, panicked, options)
	}
	s.Span.End(options...)
}

// endPanicking lets the SDK see the panic that its End is to record: recover works in a deferred call alone.
func endPanicking(inner trace.Span, panicked any, options []trace.SpanEndOption) {
	defer inner.End(options...)
	panic(panicked)
}

const hexDigits = "0123456789abcdef"

// texts makes the ids' texts in the scope itself.
func (s *scope) texts(spanContext trace.SpanContext) (traceID, spanID string) {
	trace, span := spanContext.TraceID(), spanContext.SpanID()
	encode(s.ids[:32], trace[:])
	encode(s.ids[32:], span[:])
	return unsafe.String(&s.ids[0], 32), unsafe.String(&s.ids[32], 16)
}

func encode(to, from []byte) {
	for i, value := range from {
		to[2*i], to[2*i+1] = hexDigits[value>>4], hexDigits[value&15]
	}
}
