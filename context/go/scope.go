// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64) && !go1.28

package spanprofotel

import (
	"context"
	"runtime/pprof"
	"sync/atomic"
	"unsafe"
)

const supported = true

// scope is where a span's labels are: from Start to End, on the goroutine that called Start. That goroutine's labels
// are changed by no other one, so End elsewhere leaves labels alone.
type scope struct {
	outer          *scope  // of the span in the context that Start was given
	goroutine      uintptr // that called Start
	before, labels unsafe.Pointer
	open           atomic.Int32 // spans started there within this one that have not ended
	ended          atomic.Bool
	ids            [48]byte // trace id, span id
}

// enter gives the goroutine the labels of ctx, which Start makes of from.
func (s *scope) enter(ctx, from context.Context, outer *scope) {
	s.outer, s.goroutine, s.before = outer, goroutine(), getLabels()
	if s.isInner() {
		outer.open.Add(1)
		if s.before != outer.labels {
			// Of a span that was handed to another goroutine, or of pprof.Do: the context tells.
			pprof.SetGoroutineLabels(from)
			s.before = getLabels()
		}
	}
	pprof.SetGoroutineLabels(ctx)
	s.labels = getLabels()
}

func (s *scope) isInner() bool {
	return s.outer != nil && s.outer.goroutine == s.goroutine
}

// leave gives the goroutine back what it had, unless that is of a span that has ended since.
func (s *scope) leave() {
	if s.ended.Swap(true) {
		return
	}
	if s.isInner() {
		s.outer.open.Add(-1)
	}
	if goroutine() != s.goroutine {
		return
	}
	if s.open.Load() > 0 && getLabels() != s.labels {
		// A span within this one goes on, here or elsewhere, and no context has told since which it is.
		setLabels(s.outermost().before)
		return
	}
	labels := s.before
	for at := s; at.isInner() && labels == at.outer.labels && at.outer.ended.Load(); {
		at = at.outer
		labels = at.before
	}
	setLabels(labels)
}

// outermost is the first span of the goroutine: before it there was none.
func (s *scope) outermost() *scope {
	at := s
	for at.isInner() {
		at = at.outer
	}
	return at
}

// goroutine is an address that no two goroutines have at a time.
func goroutine() uintptr

// The runtime keeps these two as they are for the packages that use them so (go.dev/issue/67401).
//
//go:linkname getLabels runtime/pprof.runtime_getProfLabel
func getLabels() unsafe.Pointer

//go:linkname setLabels runtime/pprof.runtime_setProfLabel
func setLabels(labels unsafe.Pointer)
