// SPDX-License-Identifier: Apache-2.0

// Load without end: marshalling, regular expressions, compression, garbage, in three goroutines.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
)

type item struct {
	Name  string
	Value float64
	Kids  []item
}

func tree(n int) item {
	i := item{Name: fmt.Sprint("n", n), Value: float64(n)}
	for k := 0; k < 4 && n > 0; k++ {
		i.Kids = append(i.Kids, tree(n-1))
	}
	return i
}

func work(out chan<- int) {
	pattern := regexp.MustCompile("(n[0-3]+)[^}]*Value")
	for {
		text, _ := json.Marshal(tree(5))
		var back item
		json.Unmarshal(text, &back)
		found := pattern.FindAllIndex(text, 100)
		sort.Slice(back.Kids, func(a, b int) bool { return back.Kids[a].Value < back.Kids[b].Value })
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		writer.Write(text)
		writer.Close()
		out <- len(found) + packed.Len() + inC(len(text))
	}
}

func main() {
	out := make(chan int)
	for i := 0; i < 3; i++ {
		go work(out)
	}
	for range out {
	}
}
