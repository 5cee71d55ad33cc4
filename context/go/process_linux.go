// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package spanprofotel

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// The process context's mapping (OTEP 4719; context/context_layout.h): a header, then the message.
const (
	processName    = "OTEL_CTX"
	processVersion = 2
	mappingBytes   = 65536
	payloadAt      = 64

	mfdCloexec, mfdAllowSealing, mfdNoexecSeal = 1, 2, 8
	prSetVMA, prSetVMAAnonName                 = 0x53564d41, 0
	madvDontfork                               = 10
	clockBoottime                              = 7
)

type processHeader struct {
	signature     [8]byte
	version       uint32
	payloadSize   uint32
	publishedAtNs uint64 // 0: being changed
	payload       uint64
}

var errExists = errors.New("another library has published a process context")

// publishProcess makes and names the mapping; it stays for as long as the process lives.
func publishProcess(message []byte) error {
	if len(message) > mappingBytes-payloadAt {
		return syscall.ENOSPC
	}
	if processIsPublished() {
		return errExists
	}
	memory, named, err := openMapping()
	if err != nil {
		return err
	}
	// A child must not seem to be its parent. Where there is neither way to name it no reader would find the mapping.
	if err = syscall.Madvise(memory, madvDontfork); err == nil && !named {
		err = nameMapping(memory)
	}
	if err != nil {
		_ = syscall.Munmap(memory)
		return err
	}
	copy(memory[payloadAt:], message)
	header := (*processHeader)(unsafe.Pointer(&memory[0]))
	atomic.StoreUint64(&header.publishedAtNs, 0)
	copy(header.signature[:], processName)
	header.version = processVersion
	header.payloadSize = uint32(len(message))
	header.payload = uint64(uintptr(unsafe.Pointer(&memory[payloadAt])))
	atomic.StoreUint64(&header.publishedAtNs, boottimeNs())
	_ = nameMapping(memory) // again: a reader may watch for the call
	return nil
}

func processIsPublished() bool {
	file, err := os.Open("/proc/self/maps")
	if err != nil {
		return false
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			continue
		}
		for _, name := range []string{"[anon_shmem:" + processName + "]", "/memfd:" + processName, "[anon:" + processName + "]"} {
			if strings.HasPrefix(fields[5], name) {
				return true
			}
		}
	}
	return false
}

// openMapping tells whether the mapping has its name already.
func openMapping() (memory []byte, named bool, err error) {
	if file, err := openMemfd(processName, mappingBytes); err == nil {
		memory, err = syscall.Mmap(file, 0, mappingBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
		_ = syscall.Close(file)
		if err == nil {
			return memory, true, nil
		}
	}
	memory, err = syscall.Mmap(-1, 0, mappingBytes, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	return memory, false, err
}

// showRefusal maps a memfd whose name says it. It stays for as long as the process lives.
func showRefusal(state string) error {
	size := os.Getpagesize()
	file, err := openMemfd("spanprof-refused-"+state, size)
	if err != nil {
		return err
	}
	defer syscall.Close(file)
	_, err = syscall.Mmap(file, 0, size, syscall.PROT_READ, syscall.MAP_PRIVATE)
	return err
}

func openMemfd(called string, size int) (int, error) {
	name := append([]byte(called), 0)
	const flags = mfdCloexec | mfdAllowSealing
	file, _, number := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), flags|mfdNoexecSeal, 0)
	if number != 0 { // before Linux 6.3
		file, _, number = syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), flags, 0)
	}
	if number != 0 {
		return -1, number
	}
	if err := syscall.Ftruncate(int(file), int64(size)); err != nil {
		_ = syscall.Close(int(file))
		return -1, err
	}
	return int(file), nil
}

func nameMapping(memory []byte) error {
	name := append([]byte(processName), 0)
	_, _, number := syscall.Syscall6(syscall.SYS_PRCTL, prSetVMA, prSetVMAAnonName, uintptr(unsafe.Pointer(&memory[0])),
		mappingBytes, uintptr(unsafe.Pointer(&name[0])), 0)
	if number != 0 {
		return number
	}
	return nil
}

func boottimeNs() uint64 {
	var now syscall.Timespec
	_, _, number := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&now)), 0)
	if number != 0 {
		return 1
	}
	return uint64(now.Nano())
}
