# SPDX-License-Identifier: Apache-2.0
# Load without end: sorting with a block, joining, hashing.
while (1) {
    my %words;
    $words{$_ % 97} .= join(',', sort { $a <=> $b } map { $_ * 7 % 13 } 1 .. 20) for 1 .. 1000;
}
