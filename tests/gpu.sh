#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Proves a build on a machine with an NVIDIA GPU that need not be able to build anything.
#
# usage: tests/gpu.sh pack BUILD FOLDER     gathers the programs of a build (build/release) with the libraries
#                                           that another machine may lack, and the demo model
#        tests/gpu.sh run FOLDER [STEP...]  runs the steps there: check sanitize engine golden tests token bench (default: check)
#
# Results go to $OUT (default: ./gpu-results): one JSON row a line in *.jsonl, the rest as text. CHECK_SECONDS is the
# time that random problems take (default 240), SEED where they begin, CHECK_OP one operation alone, SANITIZE_SECONDS what
# one run under compute-sanitizer may, TEST_SECONDS what one test or golden run may (default 300: the longest two compile
# for 230 s on 16 cores).
set -uo pipefail

usage() { sed -n '5,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# Tests of tests/engine/ that hold models on the GPU against golden vectors.
golden_tests="logits latent encoders adapters checkpoint"
# Those that hold what is made of models: sessions, schedules, drafts, grammars, caches.
session_tests="cache_formats constrained demo generate invariant keep one_launch passes prefixes refuse scheduler session shaping speculation speculation_draws trees"
# Those that hold attention: lists of cases, every switch both ways, long contexts and large pools; and contexts side by side.
kernel_tests="attention_device attention_lists attention_switches side_by_side"

pack() {
    local build=$1 folder=$2 library
    mkdir -p "$folder/bin" "$folder/lib"
    cp "$build/weft" "$build/weft-check" "$folder/bin/" || exit 1
    for test in $golden_tests $session_tests; do
        cp "$build/test_engine_$test" "$folder/bin/" 2>/dev/null || echo "pack: $build has no test_engine_$test"
    done
    for test in $kernel_tests; do
        cp "$build/test_kernels_$test" "$folder/bin/" 2>/dev/null || echo "pack: $build has no test_kernels_$test"
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
    [ -n "$found" ] || return 0
    LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$(dirname "$found")"
    export LD_LIBRARY_PATH
}

# Problems of an operation for some seconds, process number $2 of them. A shape of attention costs seconds of compiling, more so
# with several modes; its problems are 10 to 30 ms each.
check_some() {
    local -a of_shape=(--lengths "${LENGTHS:-64}")
    [ "$1" != attention ] || of_shape=(--lengths "${MODES:-1}" --each "${EACH:-256}")
    timeout $(($3 + 90)) "$bin/weft-check" --backend cuda --op "$1" --seconds "$3" "${of_shape[@]}" \
        --seed $((${SEED:-1} * 1000000 + $2 * 20000)) >"$OUT/check-$1-$2.txt" 2>&1
}

# Every kernel against the reference: of the processes half for attention, one for all other operations one after the
# other, the rest for linear.
step_check() {
    local seconds=${CHECK_SECONDS:-240} processes=${PROCESSES:-$(nproc)} i op failed=0
    local -a others
    mapfile -t others < <("$bin/weft-check" --backend cuda --list | awk '$1 != "attention" && $1 != "linear" { print $1 }' | sort -u)
    [ "$processes" -ge 3 ] || processes=3
    rm -f "$OUT"/check-*.txt
    for ((i = 1; i < processes; i++)); do
        if [ $((i * 2)) -le "$processes" ]; then op=attention; else op=linear; fi
        check_some "${CHECK_OP:-$op}" $i "$seconds" &
    done
    [ -z "${CHECK_OP:-}" ] || others=("$CHECK_OP")
    for op in "${others[@]}"; do check_some "$op" 0 $((seconds / ${#others[@]} + 1)); done
    wait
    awk '$5 == "cases" { n[$1] += $4; worst[$1] = $7 > worst[$1] ? $7 : worst[$1]; kernels[$1 " " $2] = 1 }
        END { for (k in kernels) { split(k, words); rows[words[1]]++ }
              for (op in n) printf "check %-11s %3d kernels %7d problems, worst %.4f\n", op, rows[op], n[op], worst[op] }' "$OUT"/check-*.txt | sort
    for i in "$OUT"/check-*.txt; do
        grep -qE '^[0-9]+ passed, 0 failed$' "$i" && continue
        failed=1
        echo "check: $(basename "$i"): $(tail -n 1 "$i")"
        grep -A 2 FAILED "$i" | head -n "${SHOW:-12}"
    done
    return $failed
}

# Kernels that stand for their kin, under compute-sanitizer: formats of each way to unpack, 16-bit and plain weights.
sanitized='^linear_(q4_k|q8_0|q2_k|iq3_s|mlx_q4_g64|bf16|f16|f32|fp8_e4m3)_'

# A tool of compute-sanitizer on a command; the results of all in $OUT/sanitize.txt.
sanitize_one() {
    local tool=$1 label=$2
    shift 2
    timeout "${SANITIZE_SECONDS:-150}" compute-sanitizer --tool "$tool" --print-limit 5 "$@" >"$OUT/$tool-$label.txt" 2>&1
    echo "$tool $label $? $(grep -hoE '(ERROR|RACECHECK) SUMMARY: .*' "$OUT/$tool-$label.txt" | tail -n 1)" >>"$OUT/sanitize.txt"
}

# Some problems of every kernel and a short answer of the demo model, which launches what no check does, under compute-sanitizer.
# Fourteen seeds of linear meet all aims of its problems but the long ones, attention's all its texts.
step_sanitize() {
    local tool op name seed cases processes=${PROCESSES:-$(nproc)}
    command -v compute-sanitizer >/dev/null || { echo "sanitize: no compute-sanitizer here"; return 0; }
    rm -f "$OUT/sanitize.txt"
    for tool in ${TOOLS:-memcheck racecheck initcheck}; do
        sanitize_one "$tool" demo "$bin/weft" run "$folder/demo.gguf" -p "Tell me a story." -n 12 --ignore-end --device cuda &
        while read -r op name; do
            seed=${SEED:-1} cases=3
            case $op in
            attention) cases=25 ;;
            linear | experts) seed=202 cases=6 ;; # many rows, layers, tiny X, slices
            esac
            [ "$op" != linear ] || [[ $name =~ $sanitized ]] || continue
            while [ "$(jobs -rp | wc -l)" -ge "$processes" ]; do sleep 0.1; done
            sanitize_one "$tool" "$name" "$bin/weft-check" --backend cuda --variant "$name" --seed "$seed" --cases "$cases" --lengths 1 &
        done < <("$bin/weft-check" --backend cuda --list)
        wait
        echo "$tool: $(grep -c "^$tool " "$OUT/sanitize.txt") runs, $(grep "^$tool " "$OUT/sanitize.txt" | grep -cE ' 0 (ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)') clean"
    done
    grep -vE ' 0 (ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)' "$OUT/sanitize.txt" || return 0
    return 1
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
        ls tests/golden/checkpoints | grep -vE '\.(py|safetensors)$|^(gptq|awq|int8)' | sed 's/^/checkpoint /'
    } | WEFT_TEST_DEVICE=cuda xargs -P "$(nproc)" -L 1 bash -c \
        'timeout "${TEST_SECONDS:-300}" "$0/test_engine_$1" ${2:+"$2"} >"$OUT/golden/$1-$2" 2>&1; echo "exit $?" >>"$OUT/golden/$1-$2"' "$bin"
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
        for one in ${KERNEL_TESTS:-$kernel_tests}; do echo "$one $bin/test_kernels_$one"; done
        for one in ${SERVER_TESTS:-endpoints features forms models soak}; do
            echo "server_$one python3 tests/server/${one}_test.py $bin/weft $folder/demo.gguf $OUT/tests/of_$one"
        done
    } | WEFT_TEST_DEVICE=cuda WEFT_TUNING=off xargs -P "$(nproc)" -L 1 bash -c \
        'timeout "${TEST_SECONDS:-300}" "${@:2}" >"$OUT/tests/$1.txt" 2>&1; echo "exit $?" >>"$OUT/tests/$1.txt"' _
    for one in "$OUT"/tests/*.txt; do
        [[ $(tail -n 1 "$one") =~ ^exit\ (0|77)$ ]] && continue # 77: a package of Python is missing
        failed=$((failed + 1))
        echo "tests: $(basename "$one" .txt): $(tail -n 1 "$one")"
        grep -vE '\[ +(OK|RUN|PASSED) +\]' "$one" | tail -n "${SHOW:-12}" | cut -c1-300
    done
    echo "tests: $(ls "$OUT"/tests/*.txt | wc -l) runs, $failed failed"
    return "$((failed > 0))"
}

# Layers as one launch: logits of 600 tokens, one by one, are those of the launches that it takes the place of. (More than two tiles of
# keys an SM from token 257 on: what is read too late shows there.)
step_token() {
    local format how ids failed=0
    ids=$(seq 11 37 22174 | paste -sd, -)
    for format in q4_0 q8_0 bf16 q4_k_m; do # of q4_k_m: two layers of four have q6_k for V and down
        timeout 100 "$bin/weft" quantize --shape mistral-7b/4 "$OUT/token.gguf" --format $format >/dev/null || return 1
        for how in graph persistent; do
            WEFT_PROGRAM=$how WEFT_CACHE_DIR="$OUT/token-kernels" timeout 100 "$bin/weft" logits "$OUT/token.gguf" --device cuda --tokens "$ids" --step \
                --kv-dtype f16 -c 1024 --out "$OUT/token-$how" 2>"$OUT/token.err" || { tail -n 1 "$OUT/token.err"; failed=1; }
        done
        if ! grep -rqs weft_token "$OUT/token-kernels"; then
            echo "token: $format: the layers stayed launches"
            failed=1
        elif cmp "$OUT/token-graph" "$OUT/token-persistent"; then
            echo "token: $format: 600 rows of logits are equal"
        else
            failed=1
        fi
        rm -rf "$OUT/token.gguf" "$OUT"/token-*
    done
    return $failed
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
