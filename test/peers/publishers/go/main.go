// SPDX-License-Identifier: Apache-2.0

// publish is a stock net/http service with otelhttp; one line of it is about profiling. Its handlers' work is on
// goroutines that come and go, take turns and are of a pool.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"spanprof/spanprofotel"
)

const (
	slice        = 2 * time.Millisecond
	clocksDiffer = 25 * time.Millisecond // more than the join allows after a span's end
)

var tracer trace.Tracer

type job struct {
	ctx  context.Context
	done *sync.WaitGroup
}

var jobs = make(chan job)

func child(ctx context.Context, name string, work func(context.Context)) {
	ctx, span := tracer.Start(ctx, name)
	defer span.End()
	work(ctx)
}

// slices has others run in between.
func slices(n int) func(context.Context) {
	return func(ctx context.Context) {
		for i := 0; i < n; i++ {
			burn(ctx, slice)
			if i%2 == 0 {
				runtime.Gosched()
			} else {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
}

// startOther starts a goroutine that outlives its span: it still has the span's labels then, and works for none.
func startOther(ctx context.Context) {
	var began sync.WaitGroup
	ended := make(chan struct{})
	defer close(ended)
	began.Add(1)
	child(ctx, "start", func(ctx context.Context) {
		go func() {
			burn(ctx, slice/2)
			began.Done()
			<-ended
			time.Sleep(clocksDiffer)
			burn(context.Background(), slice/2)
		}()
		began.Wait()
	})
}

func render(writer http.ResponseWriter, request *http.Request) {
	ctx := request.Context()
	slices(1)(ctx)
	var group sync.WaitGroup
	group.Add(3)
	go func() { defer group.Done(); child(ctx, "fetch", slices(2)) }()
	go func() { defer group.Done(); slices(1)(ctx) }() // for the request's own span
	jobs <- job{ctx, &group}
	startOther(ctx)
	child(ctx, "layout", func(ctx context.Context) {
		slices(1)(ctx)
		child(ctx, "lines", slices(2))
		slices(1)(ctx)
	})
	slices(1)(ctx)
	group.Wait()
	_, _ = writer.Write([]byte("done\n"))
}

func wait(writer http.ResponseWriter, _ *http.Request) {
	time.Sleep(20 * time.Millisecond)
	_, _ = writer.Write([]byte("done\n"))
}

// worker is of a pool that is older than any span.
func worker() {
	for work := range jobs {
		child(work.ctx, "pooled", slices(1))
		burn(context.Background(), slice/4)
		work.done.Done()
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := openTruth(); err != nil {
		log.Fatal(err)
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		log.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	otel.SetTracerProvider(spanprofotel.Wrap(provider)) // the one line
	tracer = otel.Tracer("publish")
	for i := 0; i < 2; i++ {
		go worker()
	}
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			burn(context.Background(), slice)
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("/render", render)
	mux.HandleFunc("/wait", wait)
	server := &http.Server{Addr: "127.0.0.1:" + os.Args[1], Handler: otelhttp.NewHandler(mux, "http")}
	go func() { <-ctx.Done(); _ = server.Shutdown(context.Background()) }()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
	if err := provider.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}
