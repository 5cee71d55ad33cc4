// SPDX-License-Identifier: Apache-2.0

//go:build cgo
// +build cgo

package main

/*
#include <stdint.h>
#include <time.h>

static __thread uint32_t beside; // so that g is not the only thread-local variable

static void burn_in_c(int64_t until)
{
	struct timespec now;
	do {
		for (int i = 0; i < 20000; i++)
			__asm__ volatile("" : : : "memory");
		beside++;
		clock_gettime(CLOCK_REALTIME, &now);
	} while (now.tv_sec * INT64_C(1000000000) + now.tv_nsec < until);
}
*/
import "C"

const haveC = true

func burnInC(until int64) { C.burn_in_c(C.int64_t(until)) }
