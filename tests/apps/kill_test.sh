#!/usr/bin/env bash
# Kills training with SIGKILL at random moments, resumes it, and compares the weights and the metrics with those of an
# undisturbed run, bit for bit.
#   tests/apps/kill_test.sh BIN_DIR [KILLS [SEED]]
set -uo pipefail
bin=$(cd "$1" && pwd)
kills=${2:-4}
seed=${3:-1}
RANDOM=$seed
echo "seed $seed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# The line of the last epoch: its training loss and its test.
last_epoch() { grep '^epoch ' log | tail -n 1 | sed -E 's/ [0-9.]+ s$//'; }
without_times() { sed -E 's/"(samples_per_s|tokens_per_s|mfu|seconds)":[^,}]+//g' "$1"; }

# start PROGRAM ARGUMENTS...: in the background, as process $child.
start() {
  "$bin/$1" "${@:2}" >>log 2>&1 &
  child=$!
}

# kill_after SECONDS: kills $child then; fails if it had already ended by itself.
kill_after() {
  sleep "$1"
  kill -KILL "$child" 2>/dev/null
  wait "$child" 2>/dev/null
  [ $? -eq 137 ]
}

# resumed FOLDER PROGRAM ARGUMENTS...: runs the program to its end, from the newest checkpoint of the folder if it has one.
resumed() {
  local has_one=""
  if compgen -G "$1/step-*.json" >/dev/null; then has_one=1; fi
  "$bin/$2" "${@:3}" --checkpoint "$1" --resume >log 2>&1 || fail "resuming ended with $?: $(cat log)"
  [ -z "$has_one" ] || grep -q '^resumed after step ' log || fail "the checkpoint was not read: $(cat log)"
}

# same WHAT: the current files equal those of the undisturbed run.
same() {
  cmp reference.safetensors killed.safetensors || fail "$1: other weights"
  # A run that was killed after its last update prints no further epoch.
  [ -z "$(last_epoch)" ] || cmp <(last_epoch) reference.epoch || fail "$1: another last epoch: $(cat log)"
  [ "$(without_times reference.jsonl)" = "$(without_times killed.jsonl)" ] || fail "$1: other metrics"
}

# ---- at any moment ----------------------------------------------------------------------------------------

reference() {
  "$bin/${training[0]}" "${training[@]:1}" --metrics reference.jsonl --save reference.safetensors >log 2>&1 ||
    fail "$(cat log)"
  last_epoch >reference.epoch
}
checkpointed() { resumed run "${training[@]}" "${files[@]}"; }

# random_moment [TWENTIETHS]: a random time within a run, or within the first TWENTIETHS / 20 of it, in seconds.
random_moment() {
  local moment=$((length * ${1:-20} / 20 * (RANDOM * 32768 + RANDOM) / (1 << 30)))
  printf '%d.%06d' $((moment / 1000000)) $((moment % 1000000))
}

# killed_at_random_moments RUNS: of $training with $files.
killed_at_random_moments() {
  rm -rf run killed.*
  reference
  local before
  before=$(date +%s%N)
  checkpointed
  length=$((($(date +%s%N) - before) / 1000))  # microseconds
  same "a run with checkpoints"
  checkpointed
  cmp reference.safetensors killed.safetensors || fail "resumed after its end: other weights"

  local i late again hits=0
  for ((i = 1; i <= $1; ++i)); do
    # Kills earlier and earlier until one comes before the end of training; then kills the resumed run up to twice more.
    for ((late = 0; late < 20; ++late)); do
      rm -rf run killed.*
      start "${training[@]}" --checkpoint run --resume "${files[@]}"
      if kill_after "$(random_moment $((20 - late)))"; then break; fi
    done
    [ $late -lt 20 ] || fail "run $i ended 20 times before it could be killed"
    hits=$((hits + 1))
    for ((again = 0; again < RANDOM % 3; ++again)); do
      start "${training[@]}" --checkpoint run --resume "${files[@]}"
      if kill_after "$(random_moment)"; then hits=$((hits + 1)); fi
    done
    checkpointed
    same "run $i"
  done
  echo "${training[0]}: $1 runs killed at $hits random moments ended with the same weights and metrics"
}

training=(regression --device cpu --epochs 4 --hidden 16 --optimizer adamw --batch-size 100 --micro-batch 30
  --clip-norm 1)
files=(--metrics killed.jsonl --save killed.safetensors --checkpoint-every 17)
killed_at_random_moments "$kills"

# Dropout's masks and the windows of the text go on where they stopped, too.
training=(gpt train --device cpu --max-steps 60 --steps-per-epoch 20 --layers 2 --heads 2 --width 32 --context 16
  --dropout 0.1 --batch-size 6 --micro-batch 4 --sample-tokens 0)
files=(--metrics killed.jsonl --save killed.safetensors --checkpoint-every 7)
killed_at_random_moments $(((kills + 1) / 2))

# ---- while a checkpoint is written ------------------------------------------------------------------------

# A model so large that most of the time is spent on checkpoints.
training=(regression --device cpu --max-steps 6 --hidden "1500,1500" --optimizer adam)
files=(--metrics killed.jsonl --save killed.safetensors --checkpoint-every 1 --keep 2)
reference
half_written=0
for ((i = 1; i <= 20 && half_written == 0; ++i)); do
  rm -rf run killed.*
  start "${training[@]}" --checkpoint run --resume "${files[@]}"
  # Stopped for each check of its files, so that they do not change before the kill.
  while [ $half_written -eq 0 ] && kill -0 "$child" 2>/dev/null; do
    if ! compgen -G 'run/*.tmp-*' >/dev/null; then continue; fi
    kill -STOP "$child" 2>/dev/null
    until grep -qsE '^[0-9]+ \(.*\) [TZ]' "/proc/$child/stat" || [ ! -e "/proc/$child" ]; do :; done
    if compgen -G 'run/*.tmp-*' >/dev/null; then half_written=1; else kill -CONT "$child" 2>/dev/null; fi
  done
  kill -KILL "$child" 2>/dev/null
  wait "$child" 2>/dev/null
done
[ $half_written -eq 1 ] || fail "no kill came while a checkpoint was written"
checkpointed
same "killed while a checkpoint was written"
! compgen -G 'run/*.tmp-*' >/dev/null || fail "a half-written file was left: $(ls run)"
echo "killed while a checkpoint was written: the same weights and metrics"
