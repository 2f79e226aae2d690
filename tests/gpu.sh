#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Proves a build on a machine with an NVIDIA GPU that need not be able to build anything.
#
# usage: tests/gpu.sh pack BUILD FOLDER     gathers the programs of a build (build/release) with the libraries
#                                           that another machine may lack, and the demo model
#        tests/gpu.sh run FOLDER [STEP...]  runs the steps there: check sanitize engine golden tests bench (default: check)
#
# Results go to $OUT (default: ./gpu-results): one JSON row a line in *.jsonl, the rest as text. CASES is the
# number of random problems per kernel (default 300), CHECK_SECONDS the time that checking may take.
set -uo pipefail

usage() { sed -n '5,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# Tests of tests/engine/ that hold models on the GPU against golden vectors.
golden_tests="logits latent encoders adapters"
# Those that hold what is made of models: sessions, schedules, drafts, grammars, caches.
session_tests="cache_formats constrained demo generate invariant keep passes prefixes refuse scheduler session shaping speculation speculation_draws trees"

pack() {
    local build=$1 folder=$2 library
    mkdir -p "$folder/bin" "$folder/lib"
    cp "$build/weft" "$build/weft-check" "$folder/bin/" || exit 1
    for test in $golden_tests $session_tests; do
        cp "$build/test_engine_$test" "$folder/bin/" 2>/dev/null || echo "pack: $build has no test_engine_$test"
    done
    pwd >"$folder/root"
    strip "$folder"/bin/*
    ldd "$folder"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
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
    local ops="${OPS:-norm rope activation softmax embedding sample kv pages merge probe round route experts linear attention}"
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
        for op in ${OPS:-norm rope activation softmax embedding sample kv pages merge probe route experts linear attention}; do
            timeout 120 compute-sanitizer --tool "$tool" "$bin/weft-check" --backend cuda --op "$op" \
                --cases 3 --seed 1 >"$OUT/$tool-$op.txt" 2>&1 &
        done
        wait
        for op in ${OPS:-norm rope activation softmax embedding sample kv pages merge probe route experts linear attention}; do
            local last
            last=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$OUT/$tool-$op.txt" | tail -n 1)
            printf '%-10s %-11s %s\n' "$tool" "$op" "${last:-no summary}"
            grep -qE '(ERROR SUMMARY: 0 errors|0 hazards)' <<<"$last" || failed=1
        done
    done
    return $failed
}

# 256 tokens of the demo model on the exact path, the likeliest ones and drawn ones: the GPU's are the CPU's.
step_engine() {
    local device how failed=0
    for how in "--temp 0" "--temp 0.8 --seed 7"; do
        for device in cpu cuda; do
            # shellcheck disable=SC2086
            timeout 100 "$bin/weft" run "$folder/demo.gguf" -p "Tell me a story." -n 256 --ignore-end --exact \
                $how --device $device >"$OUT/engine-$device.txt" 2>"$OUT/engine-$device.err" || {
                echo "engine: $how: $device: $(grep -v '^$' "$OUT/engine-$device.err" | tail -n 1)"
                failed=1
            }
        done
        if cmp -s "$OUT/engine-cpu.txt" "$OUT/engine-cuda.txt"; then
            echo "engine: $how: $(wc -c <"$OUT/engine-cuda.txt") bytes equal; $(tail -n 1 "$OUT/engine-cuda.err")"
        else
            echo "engine: $how: the texts differ"
            cmp "$OUT/engine-cpu.txt" "$OUT/engine-cuda.txt"
            head -c 200 "$OUT/engine-cuda.txt"
            failed=1
        fi
    done
    return $failed
}

# Tests find their vectors where the tree was that built them.
as_the_root() {
    local root
    root=$(cat "$folder/root")
    [ -e "$root" ] || { mkdir -p "$(dirname "$root")" && ln -s "$PWD" "$root"; }
}

# Models against what other programs computed, on the GPU, a model or a test a process.
step_golden() {
    local one failed=0
    as_the_root
    mkdir -p "$OUT/golden"
    {
        printf '%s\n' latent encoders adapters
        ls tests/golden/models | sed -n 's/\.safetensors$//p' | grep -v _lora | sed 's/^/logits /'
    } | WEFT_TEST_DEVICE=cuda xargs -P "$(nproc)" -L 1 bash -c \
        'timeout 200 "$0/test_engine_$1" ${2:+"$2"} >"$OUT/golden/$1-$2" 2>&1; echo "exit $?" >>"$OUT/golden/$1-$2"' "$bin"
    for one in "$OUT"/golden/*; do
        [ "$(tail -n 1 "$one")" = "exit 0" ] && grep -q '\[       OK' "$one" && continue
        failed=$((failed + 1))
        echo "golden: $(basename "$one"): $(grep -E 'rror|FAILED|off by|exit' "$one" | head -n 3 | tr '\n' ' ')"
    done
    echo "golden: $(ls "$OUT/golden" | wc -l) runs, $failed failed"
    return "$((failed > 0))"
}

# What the engine and the server make of models, with the models on the GPU: the tests that a CPU has, a test a process.
step_tests() {
    local one failed=0
    as_the_root
    mkdir -p "$OUT/tests"
    {
        for one in ${SESSION_TESTS:-$session_tests}; do echo "$one $bin/test_engine_$one"; done
        for one in ${SERVER_TESTS:-endpoints features forms models soak}; do
            echo "server_$one python3 tests/server/${one}_test.py $bin/weft $folder/demo.gguf $OUT/tests/of_$one"
        done
    } | WEFT_TEST_DEVICE=cuda WEFT_TUNING=off xargs -P "$(nproc)" -L 1 bash -c \
        'timeout "${TEST_SECONDS:-120}" "${@:2}" >"$OUT/tests/$1.txt" 2>&1; echo "exit $?" >>"$OUT/tests/$1.txt"' _
    for one in "$OUT"/tests/*.txt; do
        [ "$(tail -n 1 "$one")" = "exit 0" ] && continue
        failed=$((failed + 1))
        echo "tests: $(basename "$one" .txt): $(tail -n 1 "$one")"
        grep -vE '\[ +(OK|RUN|PASSED) +\]' "$one" | tail -n "${SHOW:-12}" | cut -c1-300
    done
    echo "tests: $(ls "$OUT"/tests/*.txt | wc -l) runs, $failed failed"
    return "$((failed > 0))"
}

step_bench() {
    local failed=0 model
    for model in "--model $folder/demo.gguf" "--shape llama-3.2-1b --format q4_0" \
        "--shape llama-3.1-8b --format q4_0"; do
        # shellcheck disable=SC2086
        timeout "${BENCH_SECONDS:-120}" "$bin/weft" bench model --device cuda $model --prompt 64 --generate 128 \
            --json >>"$OUT/bench.jsonl" 2>"$OUT/bench.err" || {
            echo "bench: $model: $(grep -v '^$' "$OUT/bench.err" | tail -n 1)"
            failed=1
        }
    done
    cat "$OUT/bench.jsonl"
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
    export OUT=${OUT:-$PWD/gpu-results} WEFT_CACHE_DIR=${WEFT_CACHE_DIR:-$PWD/weft-kernels}
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
