#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# usage: emulated_model.sh WEFT MODEL     the next words on an emulated GPU are those of the CPU, on the exact path of both
set -euo pipefail

say() { "$weft" run "$model" -p "Tell me a" -n 6 --ignore-end --exact --temp 0 --device "$1" 2>/dev/null; }

weft=$1 model=$2
of_cpu=$(say cpu)
of_gpu=$(say cuda)
echo "cpu:  $of_cpu"
echo "cuda: $of_gpu"
[ -n "$of_cpu" ] && [ "$of_cpu" = "$of_gpu" ]
