// SPDX-License-Identifier: Apache-2.0

package spanprofotel

import (
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// What libspanprof-context takes too (context/spanprof_context.h).
const (
	attributesMax    = 128
	keyMax           = 255
	valueMax         = 4096
	resourceBytesMax = 16384
)

// Field numbers with wire type 2.
const (
	processContextResource   = 1<<3 | 2
	processContextAttributes = 2<<3 | 2
	resourceAttributes       = 1<<3 | 2
	keyValueKey              = 1<<3 | 2
	keyValueValue            = 2<<3 | 2
	anyValueString           = 1<<3 | 2
)

// payload is the ProcessContext message, as libspanprof-context writes it: the Resource with its values as text, and how
// the contexts of threads are to be read.
func payload(attributes []attribute.KeyValue) []byte {
	var described []byte
	n, size := 0, 0
	for _, pair := range attributes {
		key, value := string(pair.Key), pair.Value.Emit()
		if !fits(key, value) || n == attributesMax || size+4+len(key)+len(value) > resourceBytesMax {
			continue
		}
		n++
		size += 4 + len(key) + len(value)
		described = appendField(described, resourceAttributes, stringPair(key, value))
	}
	message := appendField(nil, processContextResource, described)
	return appendField(message, processContextAttributes, stringPair("threadlocal.schema_version", "go_pprof_labels_v1"))
}

func fits(key, value string) bool {
	return key != "" && len(key) <= keyMax && len(value) <= valueMax && utf8.ValidString(key) && utf8.ValidString(value)
}

func stringPair(key, value string) []byte {
	pair := appendField(nil, keyValueKey, []byte(key))
	return appendField(pair, keyValueValue, appendField(nil, anyValueString, []byte(value)))
}

func appendField(to []byte, tag byte, data []byte) []byte {
	to = append(to, tag)
	size := len(data)
	for ; size >= 0x80; size >>= 7 {
		to = append(to, byte(size)|0x80)
	}
	return append(append(to, byte(size)), data...)
}
