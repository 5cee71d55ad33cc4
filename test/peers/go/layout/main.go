// SPDX-License-Identifier: Apache-2.0

// Layout prints what the DWARF of each Go executable given says of the runtime's structures, as a JSON
// object a line: byte offsets of g.m, m.curg and g.labels. It is built with the newest Go there is and
// reads the executables of all others.
package main

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/json"
	"fmt"
	"log"
	"os"
)

var wanted = map[string]map[string]string{
	"runtime.g": {"m": "g_m", "labels": "g_labels"},
	"runtime.m": {"curg": "m_curg"},
}

// offsets of the members of one structure, by the names that they have in the output.
func offsets(data *dwarf.Data, entry *dwarf.Entry, members map[string]string, found map[string]int64) error {
	described, err := data.Type(entry.Offset)
	if err != nil {
		return err
	}
	structure, ok := described.(*dwarf.StructType)
	if !ok {
		return nil
	}
	for _, field := range structure.Field {
		if name, ok := members[field.Name]; ok {
			found[name] = field.ByteOffset
		}
	}
	return nil
}

func layout(path string) (map[string]int64, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := file.DWARF()
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	for reader := data.Reader(); ; {
		entry, err := reader.Next()
		if entry == nil || err != nil {
			return found, err
		}
		name, _ := entry.Val(dwarf.AttrName).(string)
		if members := wanted[name]; members != nil && entry.Tag == dwarf.TagStructType {
			if err := offsets(data, entry, members, found); err != nil {
				return nil, err
			}
		}
	}
}

func main() {
	for _, path := range os.Args[1:] {
		found, err := layout(path)
		if err != nil {
			log.Fatalf("%s: %v", path, err)
		}
		line, err := json.Marshal(found)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(line))
	}
}
