// SPDX-License-Identifier: Apache-2.0

// A server of grpc-go that takes any Export call as bytes, and fails where its flags say so. Each call that
// succeeds is a line on stdout: method, message in base64.
package main

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

var (
	address    = flag.String("address", "127.0.0.1:0", "where to listen")
	failing    = flag.Int64("fail", 0, "so many calls fail")
	code       = flag.Int("code", int(codes.Unavailable), "their status")
	message    = flag.String("message", "scripted", "their message")
	retryDelay = flag.Duration("retry-delay", -1, "their RetryInfo; negative: none")
	headers    = flag.Bool("headers", false, "headers are sent before they fail")
	hang       = flag.Bool("hang", false, "they are not answered at all")
	maxAge     = flag.Duration("max-age", 0, "of a connection")
	maxStreams = flag.Uint("max-streams", 0, "of a connection")
	maxMessage = flag.Int("max-message", 4<<20, "bytes")
	minPing    = flag.Duration("min-ping", 5*time.Minute, "clients that ping more often are sent away")
)

type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Name() string                  { return "raw" }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

var (
	calls  atomic.Int64
	output sync.Mutex
)

func failure() error {
	answer := status.New(codes.Code(*code), *message)
	if *retryDelay >= 0 {
		detailed, err := answer.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(*retryDelay)})
		if err != nil {
			log.Fatal(err)
		}
		answer = detailed
	}
	return answer.Err()
}

func fail(stream grpc.ServerStream) error {
	if *headers {
		if err := stream.SendHeader(metadata.Pairs("x-early", "1")); err != nil {
			return err
		}
	}
	if *hang {
		<-stream.Context().Done()
		return context.Cause(stream.Context())
	}
	return failure()
}

func handle(_ any, stream grpc.ServerStream) error {
	var body []byte
	method, _ := grpc.MethodFromServerStream(stream)
	if err := stream.RecvMsg(&body); err != nil {
		return err
	}
	if calls.Add(1) <= *failing {
		return fail(stream)
	}
	output.Lock()
	fmt.Println(method, base64.StdEncoding.EncodeToString(body))
	output.Unlock()
	return stream.SendMsg(new([]byte))
}

func main() {
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(handle), grpc.MaxRecvMsgSize(*maxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: *maxAge}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: *minPing}),
	}
	if *maxStreams > 0 {
		options = append(options, grpc.MaxConcurrentStreams(uint32(*maxStreams)))
	}
	fmt.Fprintln(os.Stdout, "listening", listener.Addr())
	log.Fatal(grpc.NewServer(options...).Serve(listener))
}
