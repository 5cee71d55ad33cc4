// SPDX-License-Identifier: Apache-2.0
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/trace"
)

// truth says which span had which thread when, a line of JSON each: $TRUTH/PID.
var truth struct {
	lock sync.Mutex
	file *os.File
}

type interval struct {
	Type    string `json:"type"`
	TID     int    `json:"tid"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	TraceID string `json:"trace_id,omitempty"`
	SpanID  string `json:"span_id,omitempty"`
}

func openTruth() (err error) {
	truth.file, err = os.Create(filepath.Join(os.Getenv("TRUTH"), fmt.Sprint(os.Getpid())))
	return err
}

func (i interval) tell() {
	line, _ := json.Marshal(i)
	truth.lock.Lock()
	defer truth.lock.Unlock()
	_, _ = truth.file.Write(append(line, '\n'))
}

const clockThread = 3

func threadTime() time.Duration {
	var now syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThread, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano())
}

// burn uses CPU time for the context's span. The goroutine has the thread to itself for as long, so all of it is that
// span's; between two calls it moves as it likes.
func burn(ctx context.Context, duration time.Duration) {
	runtime.LockOSThread()
	at := interval{Type: "off", TID: syscall.Gettid(), From: time.Now().UnixNano()}
	for end := threadTime() + duration; threadTime() < end; {
		work()
	}
	at.To = time.Now().UnixNano()
	runtime.UnlockOSThread()
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		at.Type, at.TraceID, at.SpanID = "on", span.TraceID().String(), span.SpanID().String()
	}
	at.tell()
}

var sink [64]uint64

//go:noinline
func work() {
	var x uint64 = 88172645463325252
	for i := 0; i < 2000; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 {
		sink[0]++
	}
}
