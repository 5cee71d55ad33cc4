// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64) && go1.24 && !go1.28

package spanprofotel

import (
	"context"
	"errors"
	"runtime/pprof"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func TestNesting(t *testing.T) {
	tracer, recorder := setUp(t)
	background := context.Background()
	expect(t, "before", "")
	ctx, outer := tracer.Start(background, "outer")
	expect(t, "outer", current(ctx))
	innerCtx, inner := tracer.Start(ctx, "inner")
	expect(t, "inner", current(innerCtx))
	inner.End()
	expect(t, "outer again", current(ctx))
	outer.End()
	expect(t, "after", "")
	outer.End()
	expect(t, "ended twice", "")

	ended := recorder.Ended()
	if len(ended) != 2 || ended[0].Parent().SpanID() != ended[1].SpanContext().SpanID() {
		t.Error("the SDK has other spans than were made")
	}
	if ended[1].ChildSpanCount() != 1 {
		t.Error("the SDK has not counted the child")
	}
}

func TestLabelsOfOthersStay(t *testing.T) {
	tracer, _ := setUp(t)
	pprof.Do(context.Background(), pprof.Labels("tenant", "a"), func(ctx context.Context) {
		spanCtx, span := tracer.Start(ctx, "span")
		expect(t, "in the span", current(spanCtx))
		pprof.Do(spanCtx, pprof.Labels("step", "b"), func(ctx context.Context) {
			expect(t, "in Do in the span", current(spanCtx))
			if published2("tenant") != "a" || published2("step") != "b" {
				t.Error("labels were lost")
			}
		})
		span.End()
		expect(t, "after it", "")
		if published2("tenant") != "a" {
			t.Error("the label from before was lost")
		}
	})
}

func TestContextOfAnother(t *testing.T) {
	tracer, _ := setUp(t)
	ctx, outer := tracer.Start(context.Background(), "outer")
	rootCtx, root := tracer.Start(context.Background(), "root of a library")
	expect(t, "root", current(rootCtx))
	root.End()
	expect(t, "outer again", current(ctx))
	outer.End()
}

func TestRemoteParent(t *testing.T) {
	tracer, _ := setUp(t)
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
		TraceFlags: trace.FlagsSampled, Remote: true})
	ctx, span := tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), remote), "server")
	expect(t, "server", current(ctx))
	if span.SpanContext().TraceID() != remote.TraceID() {
		t.Error("the parent was lost")
	}
	span.End()
	expect(t, "after", "")
}

func TestUnsampled(t *testing.T) {
	tracer, recorder := setUp(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx, span := tracer.Start(context.Background(), "dropped")
	expect(t, "dropped", current(ctx))
	span.End()
	expect(t, "after", "")
	if len(recorder.Ended()) != 0 {
		t.Error("the sampler was not heard")
	}
}

func TestNoSDK(t *testing.T) {
	setUp(t)
	_, span := Wrap(&provider{TracerProvider: trace.SpanFromContext(context.Background()).TracerProvider()}).
		Tracer("none").Start(context.Background(), "none")
	expect(t, "no span", "")
	span.End()
}

func TestEndElsewhere(t *testing.T) {
	tracer, _ := setUp(t)
	ctx, outer := tracer.Start(context.Background(), "outer")
	_, handed := tracer.Start(ctx, "handed over")
	done := make(chan string)
	go func() {
		otherCtx, other := tracer.Start(context.Background(), "of another")
		handed.End()
		done <- published() + "|" + current(otherCtx)
		other.End()
	}()
	got := <-done
	if len(got) != 48+1+48 || got[:48] != got[49:] {
		t.Errorf("End on another goroutine: published and current are %s", got)
	}
	outer.End()
	expect(t, "outer has ended, and what was handed over", "")
}

func TestEndElsewhereLater(t *testing.T) {
	tracer, _ := setUp(t)
	ctx, outer := tracer.Start(context.Background(), "outer")
	handedCtx, handed := tracer.Start(ctx, "handed over")
	outer.End()
	if got := published(); got != "" && got != current(handedCtx) {
		t.Errorf("published %q", got)
	}
	done := make(chan bool)
	go func() { handed.End(); close(done) }()
	<-done
	_, next := tracer.Start(context.Background(), "next")
	next.End()
	expect(t, "after the next", "")
}

func TestOutOfOrder(t *testing.T) {
	tracer, _ := setUp(t)
	rootCtx, root := tracer.Start(context.Background(), "root")
	aCtx, a := tracer.Start(rootCtx, "a")
	_, b := tracer.Start(aCtx, "b")
	a.End()
	if got := published(); got == current(rootCtx) || got == current(aCtx) {
		t.Errorf("b goes on, and %q is published", got)
	}
	b.End()
	expect(t, "both have ended", current(rootCtx))
	root.End()
	expect(t, "after", "")
}

func TestEndThroughContext(t *testing.T) {
	tracer, recorder := setUp(t)
	ctx, _ := tracer.Start(context.Background(), "span")
	trace.SpanFromContext(ctx).End()
	expect(t, "after", "")
	if len(recorder.Ended()) != 1 {
		t.Error("not ended")
	}
}

func TestPanic(t *testing.T) {
	tracer, recorder := setUp(t)
	reason := errors.New("reason")
	func() {
		defer func() {
			if recover() != reason {
				t.Error("the panic was lost")
			}
		}()
		_, span := tracer.Start(context.Background(), "panics")
		defer span.End()
		panic(reason)
	}()
	expect(t, "after", "")
	events := recorder.Ended()[0].Events()
	if len(events) != 1 || events[0].Name != "exception" {
		t.Errorf("the SDK has not recorded the panic: %v", events)
	}
}

func TestSpanIsTheSDKs(t *testing.T) {
	tracer, _ := setUp(t)
	ctx, span := tracer.Start(context.Background(), "span")
	defer span.End()
	if readable, ok := span.(sdktrace.ReadOnlySpan); !ok || readable.Name() != "span" {
		t.Error("a processor would not find the span")
	}
	_, child := span.TracerProvider().Tracer("library").Start(ctx, "child")
	expect(t, "child by the span's provider", child.SpanContext().TraceID().String()+child.SpanContext().SpanID().String())
	child.End()
	expect(t, "span", current(ctx))
}

func TestWrapTwice(t *testing.T) {
	once := Wrap(sdktrace.NewTracerProvider())
	if Wrap(once) != once || Wrap(nil) != nil {
		t.Error("wrapped again")
	}
	if global := otel.GetTracerProvider(); Wrap(global) != global {
		t.Error("the global provider was wrapped")
	}
}

func BenchmarkSpan(b *testing.B) {
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
	for _, of := range []struct {
		name     string
		provider trace.TracerProvider
	}{{"sdk", sdk}, {"published", Wrap(sdk)}} {
		tracer := of.provider.Tracer("bench")
		outer, span := tracer.Start(context.Background(), "outer")
		b.Run(of.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; i < b.N; i++ {
				_, span := tracer.Start(outer, "span")
				span.End()
			}
		})
		span.End()
	}
}
