// SPDX-License-Identifier: Apache-2.0

// Labels works on spans in goroutines whose pprof labels name them, in the ways of the libraries that do
// so, and tells the truth as the other workloads do (test/support/workloads/workload_span.h): JSON objects of
// the types process, on, off and span. For Go 1.13 and later; no module, nothing but the standard library.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"log"
	"math/rand"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	sliceTime = 3 * time.Millisecond
	spanTime  = 200 * time.Millisecond
)

type span struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	TraceID  string `json:"trace_id"`
	SpanID   string `json:"span_id"`
	ParentID string `json:"parent_id,omitempty"`
	Start    int64  `json:"start"`
	End      int64  `json:"end"`
}

// slice of work on one thread; without ids: for no span.
type slice struct {
	Type    string `json:"type"`
	Tid     int    `json:"tid"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	TraceID string `json:"trace_id,omitempty"`
	SpanID  string `json:"span_id,omitempty"`
	Style   string `json:"style"`
}

type process struct {
	Type     string `json:"type"`
	Service  string `json:"service"`
	Instance string `json:"instance"`
	Pid      int    `json:"pid"`
	Go       string `json:"go"`
}

// style of a library: the labels that it sets while child runs under root. bySpan: they name the span
// that runs, else it is found by its trace and is the root.
type style struct {
	name   string
	bySpan bool
	labels func(root, child *span) []string
}

var styles = []style{
	{"grafana", true, func(root, child *span) []string {
		return []string{"trace_id", child.TraceID, "span_id", child.SpanID, "span_name", child.Name}
	}},
	{"polarsignals", false, func(root, child *span) []string {
		return []string{"otel_traceid", child.TraceID}
	}},
	{"polarsignals older", false, func(root, child *span) []string {
		return []string{"otel.traceid", child.TraceID}
	}},
	{"datadog", true, func(root, child *span) []string {
		return []string{"local root span id", decimal(root.SpanID), "span id", decimal(child.SpanID),
			"trace endpoint", "GET /checkout"}
	}},
	{"datadog with trace", true, func(root, child *span) []string {
		return []string{"local root span id", decimal(root.SpanID), "span id", decimal(child.SpanID),
			"trace id", child.TraceID}
	}},
	{"other", false, func(root, child *span) []string { // no ids: no Link
		return []string{"handler", "checkout", "tenant", "example"}
	}},
	{"none", false, nil},
}

func decimal(id string) string {
	bytes, err := hex.DecodeString(id)
	if err != nil {
		log.Fatal(err)
	}
	return strconv.FormatUint(binary.BigEndian.Uint64(bytes), 10)
}

type output struct {
	mutex   sync.Mutex
	writer  *bufio.Writer
	encoder *json.Encoder
}

func (out *output) write(records ...interface{}) {
	out.mutex.Lock()
	defer out.mutex.Unlock()
	for _, record := range records {
		if err := out.encoder.Encode(record); err != nil {
			log.Fatal(err)
		}
	}
	out.writer.Flush()
}

func now() int64 { return time.Now().UnixNano() }

var sink uint64

//go:noinline
func burn(until int64) {
	x := uint64(until)
	for now() < until {
		for i := 0; i < 20000; i++ {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	if x == 0 {
		sink++
	}
}

// work burns slices until the span's time is over, every other one in C if there is C. The thread is the
// goroutine's own for the time of a slice only, so that goroutines move between threads.
func work(truth slice, until int64) []interface{} {
	var slices []interface{}
	for inC := false; now() < until; inC = !inC {
		runtime.LockOSThread()
		truth.Tid = syscall.Gettid()
		truth.From = now()
		if inC && haveC {
			burnInC(truth.From + int64(sliceTime))
		} else {
			burn(truth.From + int64(sliceTime))
		}
		truth.To = now()
		runtime.UnlockOSThread()
		slices = append(slices, truth)
		runtime.Gosched()
	}
	return slices
}

func newSpan(random *rand.Rand, name string, parent *span) *span {
	id := func(size int) string {
		bytes := make([]byte, size)
		random.Read(bytes)
		return hex.EncodeToString(bytes)
	}
	made := &span{Type: "span", Name: name, SpanID: id(8), Start: now()}
	if parent != nil {
		made.TraceID, made.ParentID = parent.TraceID, parent.SpanID
	} else {
		made.TraceID = id(16)
	}
	return made
}

// inherit works in another goroutine, as servers do: it has the labels of the one that starts it.
func inherit(truth slice, until int64) []interface{} {
	done := make(chan []interface{})
	go func() { done <- work(truth, until) }()
	return <-done
}

func (s *style) truth(root, child *span) slice {
	truth := slice{Type: "on", TraceID: root.TraceID, SpanID: root.SpanID, Style: s.name}
	if s.bySpan {
		truth.SpanID = child.SpanID
	}
	if s.name == "other" || s.labels == nil {
		truth = slice{Type: "off", Style: s.name}
	}
	return truth
}

func (s *style) run(random *rand.Rand, out *output, until int64) {
	for now() < until {
		root := newSpan(random, s.name+" root", nil)
		child := newSpan(random, s.name+" child", root)
		truth := s.truth(root, child)
		var slices []interface{}
		end := now() + int64(spanTime)
		if s.labels == nil {
			slices = work(truth, end)
		} else {
			pprof.Do(context.Background(), pprof.Labels(s.labels(root, child)...), func(context.Context) {
				slices = inherit(truth, end)
			})
		}
		child.End, root.End = now(), now()
		out.write(slices...)
		if truth.Type == "on" {
			out.write(child, root)
		}
	}
}

func main() {
	lead := flag.Duration("lead", time.Second, "sleep before the first span")
	duration := flag.Duration("duration", 5*time.Second, "of the work")
	flag.Parse()
	writer := bufio.NewWriter(os.Stdout)
	out := &output{writer: writer, encoder: json.NewEncoder(writer)}
	out.write(process{"process", "go-labels", strconv.Itoa(os.Getpid()), os.Getpid(), runtime.Version()})
	time.Sleep(*lead)
	until := now() + int64(*duration)
	var all sync.WaitGroup
	for i := range styles {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			seed := now() ^ int64(os.Getpid())<<32 ^ int64(i)<<56
			styles[i].run(rand.New(rand.NewSource(seed)), out, until)
		}(i)
	}
	all.Wait()
}
