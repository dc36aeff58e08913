#!/usr/bin/env bash
# Checks that the changed program of lesson 3 prints what the trainer prints: change_test.sh CHANGED_PROGRAM MNIST
set -euo pipefail
changed=$1
mnist=$2

expected=$("$mnist" --hidden 256 --epochs 3 --schedule linear --clip-norm 1 --batch-size 64 --micro-batch 16 |
  sed -nE 's|^(epoch [0-9]+)/3  training loss ([0-9.]+) .* test accuracy ([0-9.]+%).*|\1: training loss \2, test accuracy \3|p')
found=$("$changed")
if [ "$(wc -l <<<"$expected")" -ne 3 ] || [ "$found" != "$expected" ]; then
  printf 'expected from the trainer:\n%s\nfound:\n%s\n0 passed, 1 failed\n' "$expected" "$found"
  exit 1
fi
echo "1 passed, 0 failed"
