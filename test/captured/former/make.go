// SPDX-License-Identifier: Apache-2.0

// Makes the files of this folder: requests as the Collector's own types write them in versions whose
// profiles are numbered differently. In a folder of its own:
//
//	go mod init make
//	go get go.opentelemetry.io/collector/pdata/pprofile@VERSION go.opentelemetry.io/collector/pdata@SAME
//	go run . OUTPUT
//
// VERSION and SAME are v0.139.0 and v1.45.0 (OTLP 1.8), v0.147.0 and v1.53.0 (1.9), or v0.148.0 and v1.54.0 (since
// 1.10).
package main

import (
	"os"
	"reflect"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
)

const start = 1_800_000_000_000_000_000

type shape struct {
	values, times, attributes int
	value                     int64
	linked                    bool
}

// Until v0.139.0 it is called Sample.
func samplesOf(profile pprofile.Profile) pprofile.SampleSlice {
	method := reflect.ValueOf(profile).MethodByName("Samples")
	if !method.IsValid() {
		method = reflect.ValueOf(profile).MethodByName("Sample")
	}
	return method.Call(nil)[0].Interface().(pprofile.SampleSlice)
}

func dictionary(profiles pprofile.Profiles) {
	d := profiles.Dictionary()
	for _, text := range []string{"", "samples", "count", "cpu", "nanoseconds", "thread.name", "thread.id", "main", "app",
		"profile.frame.type"} {
		d.StringTable().Append(text)
	}
	d.MappingTable().AppendEmpty()
	d.MappingTable().AppendEmpty().SetFilenameStrindex(8)
	d.FunctionTable().AppendEmpty()
	d.FunctionTable().AppendEmpty().SetNameStrindex(7)
	d.LocationTable().AppendEmpty()
	location := d.LocationTable().AppendEmpty()
	location.SetMappingIndex(1)
	location.SetAddress(4096)
	location.AttributeIndices().Append(3)
	d.StackTable().AppendEmpty()
	d.StackTable().AppendEmpty().LocationIndices().Append(1)
	d.LinkTable().AppendEmpty()
	link := d.LinkTable().AppendEmpty()
	link.SetTraceID(pcommon.TraceID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	link.SetSpanID(pcommon.SpanID{1, 2, 3, 4, 5, 6, 7, 8})
	d.AttributeTable().AppendEmpty()
	name := d.AttributeTable().AppendEmpty()
	name.SetKeyStrindex(5)
	name.Value().SetStr("worker")
	id := d.AttributeTable().AppendEmpty()
	id.SetKeyStrindex(6)
	id.Value().SetInt(77)
	kind := d.AttributeTable().AppendEmpty()
	kind.SetKeyStrindex(9)
	kind.Value().SetStr("native")
}

func profilesOf(shapes []shape) (pprofile.Profiles, pprofile.Profile) {
	profiles := pprofile.NewProfiles()
	dictionary(profiles)
	resource := profiles.ResourceProfiles().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "shop")
	profile := resource.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	profile.SampleType().SetTypeStrindex(1)
	profile.SampleType().SetUnitStrindex(2)
	profile.PeriodType().SetTypeStrindex(3)
	profile.PeriodType().SetUnitStrindex(4)
	profile.SetPeriod(10_000_000)
	profile.SetTime(pcommon.Timestamp(start))
	for _, shape := range shapes {
		sample := samplesOf(profile).AppendEmpty()
		sample.SetStackIndex(1)
		for i := 0; i < shape.values; i++ {
			sample.Values().Append(shape.value)
		}
		for i := 0; i < shape.times; i++ {
			sample.TimestampsUnixNano().Append(start + uint64(i))
		}
		for i := 0; i < shape.attributes; i++ {
			sample.AttributeIndices().Append(int32(i + 1))
		}
		if shape.linked {
			sample.SetLinkIndex(1)
		}
	}
	return profiles, profile
}

func write(directory, name string, profiles pprofile.Profiles) {
	body, err := pprofileotlp.NewExportRequestFromProfiles(profiles).MarshalProto()
	if err == nil {
		err = os.WriteFile(directory+"/"+name+".pb", body, 0o644)
	}
	if err != nil {
		panic(err)
	}
}

func main() {
	directory := os.Args[1]
	for name, shapes := range map[string][]shape{
		"attributes": {{times: 1, attributes: 2}, {times: 3, attributes: 2, linked: true}},
		"aggregated": {{values: 1, value: 900, attributes: 1, linked: true}, {values: 1, value: 2}},
		"valued":     {{values: 2, times: 2, value: 1}, {values: 1, times: 1, value: 70000}},
		"ones":       {{values: 2, times: 2, value: 1}, {values: 1, times: 1, value: 1}},
		"one":        {{values: 1, times: 1, value: 1}, {values: 1, times: 1, value: 2}},
	} {
		profiles, _ := profilesOf(shapes)
		write(directory, name, profiles)
	}
	profiles, profile := profilesOf([]shape{{values: 1, value: 5, attributes: 2, linked: true}})
	profile.SetProfileID(pprofile.ProfileID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	profile.SetDroppedAttributesCount(3)
	profile.SetOriginalPayloadFormat("pprof")
	profile.OriginalPayload().FromRaw([]byte{1, 2, 3})
	profile.AttributeIndices().Append(2)
	write(directory, "whole", profiles)
	comments := reflect.ValueOf(profile).MethodByName("CommentStrindices")
	if comments.IsValid() {
		comments.Call(nil)[0].Interface().(pcommon.Int32Slice).Append(7)
		write(directory, "comments", profiles)
	}
}
