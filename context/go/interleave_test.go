// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64) && go1.24 && !go1.28

package spanprofotel

import (
	"context"
	"math/rand"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// rounds compares what a profiler would read with the context's span, after each step of goroutines that take turns.
type rounds struct {
	tracer        trace.Tracer
	checks, wrong atomic.Int64
	jobs          chan job
}

type job struct {
	ctx  context.Context
	done chan struct{}
}

func (r *rounds) check(ctx context.Context) {
	r.checks.Add(1)
	if published() != current(ctx) {
		r.wrong.Add(1)
	}
}

// pause lets others run, in one of the ways that move goroutines between threads.
func pause(random *rand.Rand) {
	switch random.Intn(4) {
	case 0:
		runtime.Gosched()
	case 1:
		time.Sleep(time.Microsecond)
	case 2:
		wake := make(chan struct{})
		go close(wake)
		<-wake
	}
}

func startedElsewhere(ctx context.Context) bool {
	_, outer := unwrap(ctx)
	return outer == nil || outer.goroutine != goroutine()
}

// unit works for a span, for its children, and has goroutines and the pool work for it.
func (r *rounds) unit(ctx context.Context, random *rand.Rand, depth int) {
	for step := 0; step < 6; step++ {
		pause(random)
		r.check(ctx)
		if depth == 0 {
			continue
		}
		switch random.Intn(5) {
		case 0, 1:
			r.child(ctx, random, depth)
		case 2: // a goroutine inherits, and leaves this one alone
			var group sync.WaitGroup
			group.Add(1)
			seed := random.Int63()
			go func() {
				defer group.Done()
				r.unit(ctx, rand.New(rand.NewSource(seed)), depth-1)
			}()
			r.check(ctx)
			group.Wait()
		case 3:
			r.pooled(ctx)
		case 4: // a span that another goroutine ends
			if startedElsewhere(ctx) { // then the labels stay those of what is handed over
				continue
			}
			_, handed := r.tracer.Start(ctx, "handed over")
			done := make(chan struct{})
			go func() { handed.End(); close(done) }()
			if random.Intn(2) == 0 {
				<-done
			}
			childCtx, child := r.tracer.Start(ctx, "next") // until here this goroutine has the labels of what it handed over
			r.check(childCtx)
			child.End()
		}
		r.check(ctx)
	}
}

func (r *rounds) child(ctx context.Context, random *rand.Rand, depth int) {
	childCtx, span := r.tracer.Start(ctx, "child")
	defer func() {
		span.End()
		r.check(ctx)
	}()
	r.unit(childCtx, random, depth-1)
	pprof.Do(childCtx, pprof.Labels("step", "in Do"), func(ctx context.Context) { r.check(ctx) })
}

func (r *rounds) pooled(ctx context.Context) {
	work := job{ctx, make(chan struct{})}
	r.jobs <- work
	r.check(ctx)
	<-work.done
}

// worker is of a pool: it takes a span with the context, or begins one, and has none in between.
func (r *rounds) worker() {
	none := context.Background()
	for work := range r.jobs {
		r.check(none)
		ctx, span := r.tracer.Start(work.ctx, "job")
		r.check(ctx)
		runtime.Gosched()
		r.check(ctx)
		span.End()
		r.check(none)
		pprof.Do(work.ctx, pprof.Labels(), func(ctx context.Context) { r.check(ctx) })
		pprof.SetGoroutineLabels(none) // Do leaves those of its context
		close(work.done)
	}
}

func TestInterleave(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	r := &rounds{tracer: Wrap(sdktrace.NewTracerProvider()).Tracer("interleave"), jobs: make(chan job)}
	setLabels(nil)
	var workers, units sync.WaitGroup
	for i := 0; i < 6; i++ {
		workers.Add(1)
		go func() { defer workers.Done(); r.worker() }()
	}
	for i := 0; i < 24; i++ {
		units.Add(1)
		go func(random *rand.Rand) {
			defer units.Done()
			for round := 0; round < 12; round++ {
				if random.Intn(3) == 0 {
					r.unit(context.Background(), random, 3)
				} else {
					r.child(context.Background(), random, 4)
				}
			}
		}(rand.New(rand.NewSource(int64(i))))
	}
	units.Wait()
	close(r.jobs)
	workers.Wait()
	t.Logf("interleave %d checks, %d wrong", r.checks.Load(), r.wrong.Load())
	if r.checks.Load() < 100000 || r.wrong.Load() != 0 {
		t.Errorf("%d checks, %d wrong", r.checks.Load(), r.wrong.Load())
	}
}
