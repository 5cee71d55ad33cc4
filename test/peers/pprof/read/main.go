// SPDX-License-Identifier: Apache-2.0

// What others make of pprof files: read, checked, compacted and merged by google/pprof, which Parca, Grafana Alloy
// and the Collector's pprof receiver read with, and decoded as Pyroscope's own messages. Prints JSON.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/google/pprof/profile"
	pyroscope "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	"google.golang.org/protobuf/proto"
)

type sums struct {
	Samples   int              `json:"samples"` // as many stacks with labels
	Count     int64            `json:"count"`
	CPU       int64            `json:"cpu_ns"`
	Self      map[string]int64 `json:"self_ns"`    // by function; of frames without one by ""
	InSpan    int64            `json:"in_span_ns"` // with trace_id and span_id
	BySpan    map[string]int64 `json:"span_ns"`    // by span_name
	ByTrace   map[string]int64 `json:"trace_ns"`   // by trace_id
	ByThread  map[string]int64 `json:"thread_ns"`
	Types     []string         `json:"types"` // type/unit
	Period    int64            `json:"period_ns"`
	Start     int64            `json:"start_ns"`
	Duration  int64            `json:"duration_ns"`
	Default   string           `json:"default_type"`
	Mappings  int              `json:"mappings"`
	Locations int              `json:"locations"`
	Functions int              `json:"functions"`
}

func (s *sums) add(cpu, count int64, function string, label func(string) string) {
	s.Samples++
	s.Count += count
	s.CPU += cpu
	s.Self[function] += cpu
	s.ByThread[label("thread")] += cpu
	if label("trace_id") != "" && label("span_id") != "" {
		s.InSpan += cpu
		s.ByTrace[label("trace_id")] += cpu
		s.BySpan[label("span_name")] += cpu
	}
}

func newSums() *sums {
	return &sums{Self: map[string]int64{}, BySpan: map[string]int64{}, ByTrace: map[string]int64{},
		ByThread: map[string]int64{}}
}

func leaf(sample *profile.Sample) string {
	if len(sample.Location) == 0 || len(sample.Location[0].Line) == 0 {
		return ""
	}
	return sample.Location[0].Line[0].Function.Name
}

func sumsOf(p *profile.Profile) (*sums, error) {
	s := newSums()
	for _, sample := range p.Sample {
		for key, values := range sample.Label { // the Collector's converter wants exactly one
			if len(values) != 1 || values[0] == "" {
				return nil, fmt.Errorf("label %s has values %q", key, values)
			}
		}
		s.add(sample.Value[1], sample.Value[0], leaf(sample), func(key string) string {
			return append(sample.Label[key], "")[0]
		})
	}
	for _, t := range p.SampleType {
		s.Types = append(s.Types, t.Type+"/"+t.Unit)
	}
	s.Period, s.Start, s.Duration, s.Default = p.Period, p.TimeNanos, p.DurationNanos, p.DefaultSampleType
	s.Mappings, s.Locations, s.Functions = len(p.Mapping), len(p.Location), len(p.Function)
	return s, nil
}

// decodePyroscope also refuses texts that are not UTF-8.
func decodePyroscope(data []byte) (*sums, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(unpacked)
	if err != nil {
		return nil, err
	}
	var p, fast pyroscope.Profile
	if err := proto.Unmarshal(plain, &p); err != nil {
		return nil, err
	}
	if err := fast.UnmarshalVT(plain); err != nil {
		return nil, err
	}
	if !proto.Equal(&p, &fast) {
		return nil, fmt.Errorf("decoded differently")
	}
	if unknown := len(p.ProtoReflect().GetUnknown()); unknown > 0 {
		return nil, fmt.Errorf("%d bytes of unknown fields", unknown)
	}
	return sumsOfPyroscope(&p)
}

// check holds the profile to what Parca refuses it for (ids that are no sequence) and to what makes Pyroscope drop
// samples (a location with neither address nor function). No text stands twice.
func check(p *pyroscope.Profile) error {
	seen := map[string]bool{}
	for _, text := range p.StringTable {
		if seen[text] {
			return fmt.Errorf("%q stands twice", text)
		}
		seen[text] = true
	}
	for i, mapping := range p.Mapping {
		if mapping.Id != uint64(i+1) {
			return fmt.Errorf("mapping %d has id %d", i, mapping.Id)
		}
	}
	for i, function := range p.Function {
		if function.Id != uint64(i+1) {
			return fmt.Errorf("function %d has id %d", i, function.Id)
		}
	}
	for i, location := range p.Location {
		if location.Id != uint64(i+1) {
			return fmt.Errorf("location %d has id %d", i, location.Id)
		}
		if location.Address == 0 && len(location.Line) == 0 {
			return fmt.Errorf("location %d has neither address nor function", i)
		}
	}
	return nil
}

func sumsOfPyroscope(p *pyroscope.Profile) (*sums, error) {
	s := newSums()
	if err := check(p); err != nil {
		return nil, err
	}
	for _, sample := range p.Sample {
		function := ""
		if len(sample.LocationId) > 0 {
			if lines := p.Location[sample.LocationId[0]-1].Line; len(lines) > 0 {
				function = p.StringTable[p.Function[lines[0].FunctionId-1].Name]
			}
		}
		s.add(sample.Value[1], sample.Value[0], function, func(key string) string {
			for _, label := range sample.Label {
				if p.StringTable[label.Key] == key {
					return p.StringTable[label.Str]
				}
			}
			return ""
		})
	}
	for _, t := range p.SampleType {
		s.Types = append(s.Types, p.StringTable[t.Type]+"/"+p.StringTable[t.Unit])
	}
	s.Period, s.Start, s.Duration = p.Period, p.TimeNanos, p.DurationNanos
	s.Default = p.StringTable[p.DefaultSampleType]
	s.Mappings, s.Locations, s.Functions = len(p.Mapping), len(p.Location), len(p.Function)
	return s, nil
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	log.SetFlags(0)
	answer, profiles := map[string]*sums{}, []*profile.Profile{}
	for _, path := range os.Args[1:] {
		data := must(os.ReadFile(path))
		p := must(profile.ParseData(data))
		if err := p.CheckValid(); err != nil {
			log.Fatal(err)
		}
		answer[path] = must(sumsOf(p))
		answer["compact "+path] = must(sumsOf(p.Compact()))
		answer["pyroscope "+path] = must(decodePyroscope(data))
		profiles = append(profiles, p)
	}
	answer["merged"] = must(sumsOf(must(profile.Merge(profiles))))
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
}
