// SPDX-License-Identifier: Apache-2.0

//go:build !cgo
// +build !cgo

package main

const haveC = false

func burnInC(until int64) {}
