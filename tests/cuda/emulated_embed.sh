#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# usage: emulated_embed.sh WEFT MODEL     a text's vector on an emulated GPU is that of the CPU, on the exact path of both
set -euo pipefail

weft=$1 model=$2
vector() { "$weft" embed "$model" "the time of it" --exact --device "$1"; }
of_cpu=$(vector cpu)
of_gpu=$(vector cuda)
awk 'NR == 1 { n = split($0, a) }
    NR == 2 { m = split($0, b); for (i = 1; i <= n; i++) { d = a[i] - b[i]; worst = d > worst ? d : -d > worst ? -d : worst } }
    END { print n " numbers, at most " worst " apart"; exit !(n > 1 && n == m && worst < 1e-5) }' <<<"$of_cpu
$of_gpu"
