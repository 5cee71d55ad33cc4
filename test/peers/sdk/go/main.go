// SPDX-License-Identifier: Apache-2.0

// Sends the spans of sdk_spans.py; prints each one's ids. OTEL_EXPORTER_OTLP_PROTOCOL chooses the exporter.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	spans        = 1000
	spansOfTrace = 10
	text         = "größe 漢字 🚀 \"\\\t\n\x01"
)

var kinds = []trace.SpanKind{trace.SpanKindInternal, trace.SpanKindServer, trace.SpanKindClient,
	trace.SpanKindProducer, trace.SpanKindConsumer}

func linkOf(i int) trace.Link {
	var traceID trace.TraceID
	var spanID trace.SpanID
	binary.BigEndian.PutUint64(traceID[8:], uint64(i+1))
	binary.BigEndian.PutUint64(spanID[:], uint64(i+1))
	state, err := trace.ParseTraceState("vendor=x")
	if err != nil {
		log.Fatal(err)
	}
	return trace.Link{
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID,
			TraceFlags: trace.FlagsSampled, TraceState: state}),
		Attributes: []attribute.KeyValue{attribute.Int("link", i)},
	}
}

func attributesOf(i int) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		attribute.Int("index", i), attribute.Int("negative", -i-1), attribute.Int64("large", 1<<53-1),
		attribute.Float64("ratio", float64(i)+0.5), attribute.Bool("even", i%2 == 0),
		attribute.String("text", text), attribute.String("empty", ""),
		attribute.StringSlice("words", []string{"a", "ß", ""}), attribute.IntSlice("numbers", []int{1, -2, i}),
	}
	if i == 100 {
		attributes = append(attributes, attribute.String("long", strings.Repeat("é漢", 20000)))
	}
	return attributes
}

// The context that the span is in.
func makeSpan(parent context.Context, tracer trace.Tracer, base int64, i int) context.Context {
	start := base + int64(i)*1000000
	options := []trace.SpanStartOption{trace.WithSpanKind(kinds[i%5]), trace.WithTimestamp(time.Unix(0, start)),
		trace.WithAttributes(attributesOf(i)...)}
	if i%4 == 0 {
		options = append(options, trace.WithLinks(linkOf(i)))
	}
	ctx, span := tracer.Start(parent, fmt.Sprintf("span %d größe 漢字 🚀", i), options...)
	for j := range i % 3 {
		span.AddEvent(fmt.Sprintf("event %d ✓", j), trace.WithTimestamp(time.Unix(0, start+int64(j)+1)),
			trace.WithAttributes(attribute.Int("n", j), attribute.String("why", text)))
	}
	if i == 500 {
		span.SetStatus(codes.Error, "it failed: größe")
	}
	if i == 501 {
		span.SetStatus(codes.Ok, "")
	}
	span.End(trace.WithTimestamp(time.Unix(0, start+456789+int64(i))))
	own := span.SpanContext()
	fmt.Println(i, own.TraceID(), own.SpanID())
	return ctx
}

func client() otlptrace.Client {
	if os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc" {
		return otlptracegrpc.NewClient()
	}
	return otlptracehttp.NewClient()
}

func main() {
	log.SetFlags(0)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Print(err) }))
	base, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	pause, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	exporter, err := otlptrace.New(context.Background(), client())
	if err != nil {
		log.Fatal(err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter))
	tracer := provider.Tracer("spanprof.peer", trace.WithInstrumentationVersion("1.2.3"),
		trace.WithSchemaURL("https://opentelemetry.io/schemas/1.30.0"))
	parent := context.Background()
	for i := range spans {
		if i%spansOfTrace == 0 {
			parent = makeSpan(context.Background(), tracer, base, i)
			time.Sleep(time.Duration(pause) * time.Millisecond)
		} else {
			makeSpan(parent, tracer, base, i)
		}
	}
	if err := provider.ForceFlush(context.Background()); err != nil {
		log.Fatal(err)
	}
	if err := provider.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}
