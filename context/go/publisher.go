// SPDX-License-Identifier: Apache-2.0

package spanprofotel

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
)

const (
	publisherNew  = iota // not asked for
	publisherMeet        // waits for a span that has a Resource
	publisherOn
	publisherOff
)

type publisherState struct {
	state atomic.Int32
	lock  sync.Mutex
}

var publisher publisherState

// configure tells whether spans are to be wrapped.
func (p *publisherState) configure() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.state.Load() != publisherNew {
		return p.state.Load() != publisherOff
	}
	switch {
	case os.Getenv("SPANPROF_CONTEXT") == "off":
		p.turnOff("SPANPROF_CONTEXT=off")
	case !supported:
		p.refuse("unknown_version", "not supported with this platform or version of Go")
	default:
		p.state.Store(publisherMeet)
	}
	return p.state.Load() != publisherOff
}

// meet tells whether this span is published. The first one with a Resource brings the process context.
func (p *publisherState) meet(span trace.Span) bool {
	state := p.state.Load()
	if state == publisherMeet {
		if described, ok := span.(interface{ Resource() *resource.Resource }); ok {
			p.publish(described.Resource())
			state = p.state.Load()
		}
	}
	return state != publisherOff
}

func (p *publisherState) publish(described *resource.Resource) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.state.Load() != publisherMeet {
		return
	}
	switch err := publishProcess(payload(described.Attributes())); err {
	case nil:
		p.state.Store(publisherOn)
		debug("the process context is published")
	case errExists:
		p.refuse("taken", err.Error())
	default:
		p.refuse("failed", err.Error())
	}
}

// refuse turns off, and shows the node why by one of four words (context/publisher_state.h).
func (p *publisherState) refuse(state, reason string) {
	p.turnOff(reason)
	if err := showRefusal(state); err != nil {
		debug("the node cannot see it: " + err.Error())
	}
}

func (p *publisherState) turnOff(reason string) {
	p.state.Store(publisherOff)
	debug("nothing is published: " + reason)
}

func debug(text string) {
	if os.Getenv("SPANPROF_CONTEXT_DEBUG") == "1" {
		fmt.Fprintln(os.Stderr, "spanprofotel: "+text)
	}
}
