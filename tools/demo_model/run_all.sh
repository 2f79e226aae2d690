#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Makes models/demo.gguf again: tokenizer, training (a GPU, 7.6 minutes), export, evaluation.
#
# usage: tools/demo_model/run_all.sh [WORK_FOLDER]
# needs: python3 with torch, numpy, tokenizers and gguf
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${1:-$root/build/demo_model}
mkdir -p "$work" "$root/models"
cd "$here"

python3 tokenizer.py --out "$work/tokenizer.json"
python3 train.py --tokenizer "$work/tokenizer.json" --out "$work" --minutes "${MINUTES:-7.6}"
python3 export.py --weights "$work" --tokenizer "$work/tokenizer.json" --out "$work/demo.gguf"
python3 evaluate.py "$work/demo.gguf" --samples
cp "$work/demo.gguf" "$root/models/demo.gguf"
