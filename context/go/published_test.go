// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64) && go1.24 && !go1.28

package spanprofotel

import (
	"context"
	"os"
	"strings"
	"testing"
	"unsafe"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// labelList is where a profiler finds the labels of a goroutine since Go 1.24.
type labelList struct{ list []struct{ key, value string } }

// published is what a profiler would read now, as text.
func published() string {
	return published2("trace_id") + published2("span_id")
}

func published2(key string) string {
	labels := (*labelList)(getLabels())
	if labels == nil {
		return ""
	}
	for _, label := range labels.list {
		if label.key == key {
			return label.value
		}
	}
	return ""
}

func current(ctx context.Context) string {
	spanContext := trace.SpanContextFromContext(ctx)
	if !spanContext.IsValid() || spanContext.IsRemote() {
		return ""
	}
	return spanContext.TraceID().String() + spanContext.SpanID().String()
}

func expect(t *testing.T, when, want string) {
	t.Helper()
	if got := published(); got != want {
		t.Errorf("%s: published %q, current is %q", when, got, want)
	}
}

func setUp(t *testing.T, options ...sdktrace.TracerProviderOption) (trace.Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(recorder))...)
	setLabels(nil)
	t.Cleanup(func() { setLabels(nil) })
	return Wrap(provider).Tracer("test"), recorder
}

// mappings of this process with that in their names.
func mappings(t *testing.T, name string) []string {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.Contains(line, name) {
			found = append(found, line)
		}
	}
	return found
}

func bytesAt(address uint64, size int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), size)
}
