// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64) && go1.24 && !go1.28

package spanprofotel

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// again runs one test in a process of its own, in which nothing is published yet.
func again(t *testing.T, mode string, environment ...string) string {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestInProcess$", "-test.v")
	command.Env = append(os.Environ(), append(environment, "SPANPROFOTEL_TEST="+mode)...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

func TestProcessContext(t *testing.T) { again(t, "publish") }

func TestOff(t *testing.T) {
	if output := again(t, "off", "SPANPROF_CONTEXT=off"); strings.Contains(output, "spanprofotel:") {
		t.Error("not silent: " + output)
	}
	if output := again(t, "off", "SPANPROF_CONTEXT=off", "SPANPROF_CONTEXT_DEBUG=1"); !strings.Contains(output, "spanprofotel:") {
		t.Error("silent though it was asked to say why")
	}
}

func TestAnotherPublishes(t *testing.T) { again(t, "exists") }

// TestInProcess is the process of again.
func TestInProcess(t *testing.T) {
	switch os.Getenv("SPANPROFOTEL_TEST") {
	case "publish":
		inProcessPublish(t)
	case "off":
		if Wrap(sdktrace.NewTracerProvider()) == nil || len(mappings(t, processName))+len(mappings(t, "spanprof-refused-")) != 0 {
			t.Error("not off")
		}
		if _, wrapped := Wrap(sdktrace.NewTracerProvider()).(*provider); wrapped {
			t.Error("wrapped though it is off")
		}
	case "exists":
		inProcessExists(t)
	default:
		t.Skip("run by the other tests")
	}
}

func inProcessPublish(t *testing.T) {
	described := resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.Int("process.pid", 7),
		attribute.StringSlice("list", []string{"a", "b"}), attribute.String("empty", ""),
		attribute.String("long", strings.Repeat("x", valueMax+1)), attribute.String("bad", "\xff"))
	tracer, _ := setUp(t, sdktrace.WithResource(described))
	if len(mappings(t, processName)) != 0 {
		t.Error("published before the first span")
	}
	_, span := tracer.Start(context.Background(), "first")
	span.End()
	found := mappings(t, processName)
	if len(found) != 1 {
		t.Fatalf("mappings: %v", found)
	}
	address, _ := strconv.ParseUint(strings.Split(found[0], "-")[0], 16, 64)
	header := bytesAt(address, 32)
	if string(header[:8]) != "OTEL_CTX" || binary.NativeEndian.Uint32(header[8:]) != 2 ||
		binary.NativeEndian.Uint64(header[16:]) == 0 {
		t.Errorf("header: %x", header)
	}
	message := bytesAt(binary.NativeEndian.Uint64(header[24:]), int(binary.NativeEndian.Uint32(header[12:])))
	want := payload(described.Attributes())
	if !bytes.Equal(message, want) || bytes.Contains(message, []byte("long")) || bytes.Contains(message, []byte("bad")) ||
		!bytes.Contains(message, []byte(`["a","b"]`)) || !bytes.Contains(message, []byte("go_pprof_labels_v1")) {
		t.Errorf("message: %q", message)
	}
}

func inProcessExists(t *testing.T) {
	memory, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err == nil {
		memory, _, err = openMapping()
	}
	if err != nil {
		t.Fatal(err)
	}
	tracer, recorder := setUp(t)
	_, span := tracer.Start(context.Background(), "first")
	expect(t, "another publishes", "")
	span.End()
	if len(mappings(t, processName)) != 1 || len(recorder.Ended()) != 1 {
		t.Error("a second context, or no span")
	}
	if refusals := mappings(t, "/memfd:spanprof-refused-"); len(refusals) != 1 || !strings.Contains(refusals[0], "-taken (") {
		t.Errorf("the node is told %q", refusals)
	}
	_ = syscall.Munmap(memory)
}

func TestPayloadLimits(t *testing.T) {
	var many []attribute.KeyValue
	for i := 0; i < 300; i++ {
		many = append(many, attribute.String("key."+strconv.Itoa(i), strings.Repeat("v", 100)))
	}
	message := payload(many)
	if n := bytes.Count(message, []byte("key.")); n != attributesMax || len(message) > mappingBytes-payloadAt {
		t.Errorf("%d attributes, %d bytes", n, len(message))
	}
	for i := range many {
		many[i] = attribute.String("key."+strconv.Itoa(i), strings.Repeat("v", 4000))
	}
	if n := bytes.Count(payload(many), []byte("key.")); n != 4 {
		t.Errorf("%d large attributes", n)
	}
}
