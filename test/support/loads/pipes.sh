# SPDX-License-Identifier: Apache-2.0
# Load without end: arithmetic, and short-lived processes in a pipe.
x=0
while :; do
    for ((i = 0; i < 20000; i++)); do x=$(((x * 31 + i) % 65537)); done
    y=$(echo "$x" | tr 0-9 a-j)
done
