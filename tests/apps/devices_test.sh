#!/usr/bin/env bash
# The programs on two devices: each tensor of the tapes of a short training run (within 1e-5), the evaluation of a model and
# the text that it generates must agree.
#   tests/apps/devices_test.sh BIN_DIR [DEVICE [OTHER]]      default: cuda and cpu
set -uo pipefail
bin=$(cd "$1" && pwd)
plays=$(cd "$(dirname "$0")/../.." && pwd)/text/tinyshakespeare/input.txt
devices=("${2:-cuda}" "${3:-cpu}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# same_tapes PROGRAM ARGUMENTS...: trains on both devices and compares every output and gradient.
same_tapes() {
  local device
  for device in "${devices[@]}"; do
    "$bin/$1" "${@:2}" --device "$device" --max-steps 5 --record-values "$device.jsonl" >log 2>&1 || { cat log; fail "$* on $device"; }
  done
  "$bin/compare_runs" "${devices[0]}.jsonl" "${devices[1]}.jsonl" --tolerance 1e-5 >compared || { cat compared; fail "$* differs between ${devices[*]}"; }
  cat compared
  if grep -q "left out" compared; then fail "$*: some tensors were not compared"; fi
  echo "same: $*"
}

# same_output PROGRAM ARGUMENTS...: prints the same on both devices.
same_output() {
  local device
  for device in "${devices[@]}"; do
    "$bin/$1" "${@:2}" --device "$device" >"$device.txt" || fail "$* on $device"
  done
  cat "${devices[0]}.txt"
  diff "${devices[@]/%/.txt}" || fail "$* differs between ${devices[*]}"
  echo "same: $*"
}

head -c 3000 "$plays" >text  # the GPU model takes seconds for a kilobyte
small=(--text text --layers 2 --heads 2 --width 32 --context 32 --batch-size 8 --dropout 0.1 --warmup 0 --sample-tokens 0)
same_tapes mnist --hidden 32 --optimizer sgd --batch-size 128 --micro-batch 64
same_tapes regression --optimizer sgd
same_tapes gpt train "${small[@]}" --optimizer sgd
same_tapes gpt train "${small[@]}" --optimizer sgd --architecture llama --kv-heads 1 --recompute 1
"$bin/gpt" train "${small[@]}" --device "${devices[0]}" --max-steps 100 --lr 0.01 --save-model model >log 2>&1 || { cat log; fail "a model is trained"; }
same_output gpt generate --model model --temperature 0 --prompt "First" --tokens 20
same_output gpt evaluate --model model --text text
"$bin/accumulate" --device "${devices[0]}" || fail "accumulate on ${devices[0]}"
