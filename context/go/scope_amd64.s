// SPDX-License-Identifier: Apache-2.0

//go:build linux && !go1.28

#include "textflag.h"

TEXT ·goroutine(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET
