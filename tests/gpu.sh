#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Proves a build on a machine with an NVIDIA GPU that need not be able to build anything.
#
# usage: tests/gpu.sh pack BUILD FOLDER     gathers the programs of a build (build/release) with the libraries
#                                           that another machine may lack, and the demo model
#        tests/gpu.sh run FOLDER [STEP...]  runs the steps there: check sanitize engine bench (default: check)
#
# Results go to $OUT (default: ./gpu-results): one JSON row a line in *.jsonl, the rest as text. CASES is the
# number of random problems per kernel (default 300), CHECK_SECONDS the time that checking may take.
set -uo pipefail

usage() { sed -n '5,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }

pack() {
    local build=$1 folder=$2 library
    mkdir -p "$folder/bin" "$folder/lib"
    cp "$build/weft" "$build/weft-check" "$folder/bin/" || exit 1
    strip "$folder"/bin/*
    ldd "$build/weft" "$build/weft-check" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | while read -r library; do
        cp -L "$library" "$folder/lib/"
    done
    cp models/demo.gguf "$folder/"
    du -sh "$folder"
}

# Where NVRTC is, if the loader does not know.
find_nvrtc() {
    ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so' && return
    local found
    found=$(find /usr/local/cuda*/ /opt /usr/lib -name 'libnvrtc.so.1*' 2>/dev/null | head -n 1)
    [ -z "$found" ] || export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$(dirname "$found")"
}

# Every kernel against the reference, an operation a process, several at a time.
step_check() {
    local op failed=0
    local ops="norm rope activation softmax embedding sample kv round linear attention"
    for op in $ops; do
        timeout "${CHECK_SECONDS:-240}" "$bin/weft-check" --backend cuda --op "$op" \
            --cases "${CASES:-300}" --seed "${SEED:-1}" >"$OUT/check-$op.txt" 2>&1 &
    done
    wait
    for op in $ops; do
        local last
        last=$(tail -n 1 "$OUT/check-$op.txt")
        printf 'check %-11s %s\n' "$op" "$last"
        grep -qE ' 0 failed$' <<<"$last" || {
            failed=1
            grep -A 2 FAILED "$OUT/check-$op.txt" | head -n "${SHOW:-12}"
        }
    done
    return $failed
}

# The same under compute-sanitizer, fewer cases.
step_sanitize() {
    local tool op failed=0
    command -v compute-sanitizer >/dev/null || { echo "sanitize: no compute-sanitizer here"; return 0; }
    for tool in ${TOOLS:-memcheck racecheck}; do
        for op in norm rope activation softmax embedding sample kv round linear attention; do
            timeout 120 compute-sanitizer --tool "$tool" "$bin/weft-check" --backend cuda --op "$op" \
                --cases 3 --seed 1 >"$OUT/$tool-$op.txt" 2>&1 &
        done
        wait
        for op in norm rope activation softmax embedding sample kv round linear attention; do
            local last
            last=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$OUT/$tool-$op.txt" | tail -n 1)
            printf '%-10s %-11s %s\n' "$tool" "$op" "${last:-no summary}"
            grep -qE '(ERROR SUMMARY: 0 errors|0 hazards)' <<<"$last" || failed=1
        done
    done
    return $failed
}

# 256 greedy tokens of the demo model on the exact path: the GPU's are the CPU's.
step_engine() {
    local device
    for device in cpu cuda; do
        timeout 120 "$bin/weft" run "$folder/demo.gguf" -p "Once upon a time" -n 256 --temp 0 --exact \
            --device $device --json >"$OUT/engine-$device.jsonl" 2>"$OUT/engine-$device.err" ||
            { echo "engine: $device: $(tail -n 1 "$OUT/engine-$device.err")"; return 1; }
    done
    if cmp <(grep -v '"us\|seconds\|speed' "$OUT/engine-cpu.jsonl") \
        <(grep -v '"us\|seconds\|speed' "$OUT/engine-cuda.jsonl"); then
        echo "engine: 256 tokens equal"
    else
        echo "engine: the tokens differ"
        return 1
    fi
}

step_bench() {
    local format batch failed=0
    for format in q4_0 q4_k q6_k q8_0 bf16; do
        for batch in 1 8; do
            timeout 60 "$bin/weft" bench linear --device cuda --format $format --rows 14336 --cols 4096 \
                --batch $batch --json >>"$OUT/bench.jsonl" 2>>"$OUT/bench.err" || failed=1
        done
    done
    wc -l "$OUT/bench.jsonl"
    [ $failed = 0 ] || tail -n 1 "$OUT/bench.err"
    return $failed
}

[ $# -ge 2 ] || usage
case $1 in
pack)
    [ $# = 3 ] || usage
    cd "$(dirname "$0")/.." && pack "$2" "$3"
    ;;
run)
    folder=$(realpath "$2")
    bin=$folder/bin
    shift 2
    export LD_LIBRARY_PATH="$folder/lib:${LD_LIBRARY_PATH:-}"
    export OUT=${OUT:-$PWD/gpu-results} WEFT_CACHE_DIR=${WEFT_CACHE_DIR:-/tmp/weft-kernels}
    mkdir -p "$OUT"
    chmod +x "$bin"/* 2>/dev/null
    find_nvrtc
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    bad=
    for step in "${@:-check}"; do
        start=$SECONDS
        "step_$step" || bad="$bad $step"
        echo "-- $step: $((SECONDS - start)) s"
    done
    if [ -n "$bad" ]; then echo "failed:$bad"; else echo "all passed"; fi
    [ -z "$bad" ]
    ;;
*) usage ;;
esac
