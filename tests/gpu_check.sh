#!/usr/bin/env bash
# Everything that needs a GPU, in stages: the tests, several ranks that share the GPU, MNIST, every program compared with the
# CPU, the CUDA Toolkit's memory and race checkers, the profiler and the timeline with the GPU's own times, the kernel ladders,
# the benchmarks, also against PyTorch, Nsight Compute on the kernels of a training step, and the docs' commands for Nsight.
#
#   tests/gpu_check.sh [--gpu-model] [--seconds N] OUTDIR [STAGE...]
#
# STAGE: one or more of the stages at the end of this file; default: all. Each is stopped after nine minutes on a GPU, and
# `build` runs before the others. --seconds: the time for all stages, for a machine that is lent; a stage that may not end in
# time is not started. --gpu-model: the stages that need no tool of NVIDIA's, on the GPU model (docs/gpu-model.md).
#
# Writes one text file for each stage and summary.txt, which begins with the machine's description and ends with a
# table of the stages: passed, FAILED, not run, or skipped with the reason. Ends with 0 only if no stage failed and none
# was left out for lack of time. Installs nothing.
set -uo pipefail
usage() { echo "usage: tests/gpu_check.sh [--gpu-model] [--seconds N] OUTDIR [STAGE...]${1:+: $1}" >&2; exit 2; }
model=
deadline=
while [ $# -gt 0 ]; do
  case $1 in
    --gpu-model) model=1 ;;
    --seconds)
      [[ ${2:-} =~ ^[0-9]+$ ]] || usage "--seconds: found '${2:-}', expected a whole number"
      deadline=$((SECONDS + $2))
      shift
      ;;
    -*) usage "found '$1'" ;;
    *) break ;;
  esac
  shift
done
[ $# -ge 1 ] || usage "found no OUTDIR"
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.." || exit 2
root=$PWD
if [ "$model" ]; then build=$root/build/model; else build=$root/build/gpu; fi
work=$(mktemp -d)
running=
trap 'rm -rf "$work"' EXIT
trap 'kill $running 2>/dev/null; exit 130' INT TERM  # no test may go on using the GPU
table=""
failures=0
not_run=0
PATH=$PATH:/usr/local/cuda/bin

# ---- running stages ---------------------------------------------------------------------------------------

row() { # NAME RESULT SECONDS NOTE
  local line
  line=$(printf '%-16s %-8s %4s s  %s' "$@")
  table+="$line"$'\n'
  printf '%s\n' "$line"
}

skip() { row "$1" skipped 0 "$2"; } # NAME REASON

# stage NAME SECONDS COMMAND...: runs the command for at most SECONDS (on the model five times that). Its output goes to
# OUTDIR/NAME.txt, whose end is shown if it fails, and the text that it writes to $work/note goes into the table. COMMAND is
# a function: it runs in a subshell with this script's variables.
stage() {
  local name=$1 limit=$2 start=$SECONDS status
  shift 2
  if [ "$model" ]; then limit=$((limit * 5)); fi
  if [ "$deadline" ] && [ $((deadline - SECONDS)) -lt "$limit" ]; then
    not_run=$((not_run + 1))
    row "$name" "not run" 0 "$((deadline - SECONDS)) s were left, and it may take $limit"
    return 1
  fi
  : >"$work/note"
  timeout --kill-after=5 "$limit" bash -uo pipefail -c '"$@"' - "$@" >"$out/$name.txt" 2>&1 &
  running=$!
  wait $running
  status=$?
  running=
  if [ $status -eq 77 ]; then
    skip "$name" "$(tee -a "$out/$name.txt" <"$work/note")"
  elif [ $status -eq 0 ]; then
    row "$name" passed $((SECONDS - start)) "$(cat "$work/note")"
  else
    failures=$((failures + 1))
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then echo "stopped at its limit of $limit s" >"$work/note"; fi
    row "$name" FAILED $((SECONDS - start)) "$(cat "$work/note")"
    tail -n 60 "$out/$name.txt"
    return 1
  fi
}

# The end of the script: the table goes to the summary last.
finish() {
  {
    echo
    printf '%s' "$table"
    echo "$failures failed, $not_run not run, $SECONDS s in all"
  } >>"$out/summary.txt"
  echo "$failures failed, $not_run not run, $SECONDS s in all; results in $out"
  [ $((failures + not_run)) -eq 0 ]
  exit
}

# ---- the stages -------------------------------------------------------------------------------------------

describe_machine() {
  date -u '+%Y-%m-%d %H:%M UTC'
  git -C "$root" log -1 --format='commit %h %s' 2>/dev/null
  if [ "$model" ]; then
    echo "the GPU model (docs/gpu-model.md), schedule ${RINGTAPE_MODEL_SCHEDULE:-order}"
  else
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv 2>&1
    nvidia-smi 2>&1
    nvcc --version 2>&1 | tail -n 2
  fi
  lscpu | grep -E '^(Model name|CPU\(s\)|Thread|L2|L3)'
  grep MemTotal /proc/meminfo
  . /etc/os-release && echo "$PRETTY_NAME, $(g++ --version | head -n 1), $(cmake --version | head -n 1)"
}

build_all() {
  local options=(--preset cuda -DRINGTAPE_WERROR=OFF) targets=()
  if [ "$model" ]; then
    options=(--preset model)
    targets=(--target ringtape_tests dist_tests collectives mnist regression accumulate gpt compare_runs)
  fi
  cmake "${options[@]}" -B "$build" && cmake --build "$build" --parallel "$(nproc)" "${targets[@]}" || return 1
  grep -h '^-- Ringtape: ' "$out/build.txt" | sed 's/^-- Ringtape: //' | paste -sd ';' >"$work/note"
}

# The tests of one process: the operations' table on the GPU, training, graphs, resuming, and those that need a GPU.
run_tests() {
  "$build/bin/ringtape_tests" | tee "$work/tests.txt"
  local status=$?
  grep -hE '^(All tests passed|test cases:)' "$work/tests.txt" >"$work/note"
  if grep -q '^skipped .* need a GPU' "$work/tests.txt"; then
    echo "the tests did not see the GPU" >"$work/note"
    return 1
  fi
  [ $status -eq 0 ] || return 1  # not $status: it is the number of failures, which may be 77
}

# checker TOOL: runs the tests of kernels under one of compute-sanitizer's tools; every group must have a test.
# tests/scripts/checker_groups_test.py compares the groups with the tests.
checker() {
  local groups='[elementwise],[golden],[relu],[mse],[cross_entropy],[attention],[bias],[gemm],[reduce],[random],[optimizer]'
  groups+=',[clip],[scaler],[mixed],[compress],[graph],[checkpoint],[ladders],[embedding],[math],[limits]'
  groups+=',[ops][gpu],[resume][gpu],built-ins:*'
  local group missing=""
  while read -r group; do
    # Not the status: with Catch2 2 it is the number of tests.
    if ! grep -qE '^[1-9][0-9]* matching' < <("$build/bin/ringtape_tests" --list-tests "$group"); then missing+=" $group"; fi
  done < <(tr ',' '\n' <<<"$groups")
  if [ "$missing" ]; then
    echo "no test is in$missing" >"$work/note"
    return 1
  fi
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer was not found" >"$work/note"
    return 77
  fi
  local own=()
  # Races in the vendor's kernels are not ours, and checking for them takes long.
  if [ "$1" = racecheck ] && compute-sanitizer --help | grep -q -- --kernel-name; then own=(--kernel-name kernel_substring=ringtape); fi
  compute-sanitizer --tool "$1" "${own[@]}" --error-exitcode 9 --print-limit 20 "$build/bin/ringtape_tests" "$groups" || return 1
}

# accuracies FILE...: the final test accuracy of each of these metrics files.
accuracies() { grep -hoE '"event":"done","test_accuracy":[0-9.]+' "$@" | sed 's/.*://'; }

# Two runs with one seed and a run with --graph, which must agree except for times, a run with our own GEMM, and the accuracy
# of five seeds. On the model, which is slow, 40 steps and no accuracy.
run_mnist() {
  local seed train=("$build/bin/mnist" --device cuda)
  if [ "$model" ]; then train+=(--max-steps 40); fi
  for seed in 0 again; do
    "${train[@]}" --seed 0 --metrics "$work/$seed.jsonl" || return 1
  done
  echo
  echo "own GEMM:"
  "${train[@]}" --seed 0 --gemm own --metrics "$work/own.jsonl" | tail -n 1 || return 1
  for seed in 0 again; do
    sed -E 's/"(samples_per_s|seconds)":[^,}]+//g' "$work/$seed.jsonl" >"$work/$seed.without-times"
  done
  if ! cmp "$work/0.without-times" "$work/again.without-times"; then
    echo "two runs with seed 0 differ" >"$work/note"
    return 1
  fi
  "${train[@]}" --seed 0 --graph --print-graph --metrics "$work/graph.jsonl" >"$work/graph.txt" || { cat "$work/graph.txt"; return 1; }
  grep -E '^(test accuracy|CUDA graph| +[0-9]+  [a-z])' "$work/graph.txt"
  if ! grep -q '^CUDA graph' "$work/graph.txt"; then
    echo "the run with --graph has printed no graph" >"$work/note"
    return 1
  fi
  sed -E 's/"(samples_per_s|seconds)":[^,}]+//g' "$work/graph.jsonl" >"$work/graph.without-times"
  if ! cmp "$work/0.without-times" "$work/graph.without-times"; then
    echo "the run with --graph differs from the one without" >"$work/note"
    return 1
  fi
  echo "two runs with one seed agree, and one with --graph" >"$work/note"
  if [ "$model" ]; then return; fi
  for seed in 1 2 3 4; do
    "${train[@]}" --seed $seed --metrics "$work/$seed.jsonl" | tail -n 1 || return 1
  done
  if ! accuracies "$work/own.jsonl" | awk '$1 >= 0.972 { high = 1 } END { exit !(NR == 1 && high) }'; then
    echo "own GEMM: accuracy $(accuracies "$work/own.jsonl"), expected 0.972 or more" >"$work/note"
    return 1
  fi
  accuracies "$work"/[0-4].jsonl | sort -n |
    awk '{ a[NR] = $1 } END {
      printf "accuracy of 5 seeds: lowest %.4f, median %.4f; the rest agrees\n", a[1], a[3]
      exit !(NR == 5 && a[1] >= 0.972 && a[3] >= 0.975) }' | tee "$work/note"
}

# Short runs of every program, on the GPU and on the CPU.
run_programs() {
  "$root/tests/apps/devices_test.sh" "$build/bin" cuda cpu || return 1
  grep -c '^same: ' "$out/programs.txt" | sed 's/$/ comparisons with the CPU agree/' >"$work/note"
}

# Checks that the table of --profile and the trace of --timeline have the GPU's activities: the kernels' times fill a part of
# the steps, and at most all of their time. With --graph the kernels are the graph's. On the model a small run.
run_profile() {
  local flag found status notes="" sizes=(--hidden "1024,1024" --batch-size 512 --max-steps 40)
  if [ "$model" ]; then sizes=(--max-steps 10); fi
  for flag in --profile --graph; do
    "$build/bin/mnist" --device cuda "${sizes[@]}" $flag --timeline "$work/trace.json" | tee "$work/profile.txt" || return 1
    if grep '^device times: not' "$work/profile.txt" >"$work/note"; then
      if grep -q 'built without CUPTI' "$work/note"; then return 77; fi
      return 1
    fi
    found=$(python3 "$root/tests/trace/check_gpu_trace.py" "$work/trace.json" 2>&1 | paste -sd " ")
    status=$?
    notes+="$flag: $found; "
    echo "${notes%; }" >"$work/note"
    [ $status -eq 0 ] || return 1
  done
}

# on_one_gpu RANKS COMMAND...: RANKS processes on the first GPU, with torchrun's environment variables, so that no MPI is
# needed. NCCL refuses two ranks on one GPU of one machine; here each has a different host id, and they communicate over
# sockets. Shows the ranks' output; fails if one of them fails.
on_one_gpu() {
  local ranks=$1 rank status=0 port=$((20000 + RANDOM % 20000)) pids=()
  shift
  printf '\n==== %s ranks: %s\n' "$ranks" "$*"
  for ((rank = 0; rank < ranks; ++rank)); do
    env RANK=$rank WORLD_SIZE="$ranks" LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      NCCL_HOSTID=ringtape-$rank NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_MNNVL_ENABLE=0 \
      RINGTAPE_DIST_DEVICE=cuda:0 timeout --foreground --kill-after=5 360 "$@" >"$work/rank$rank.txt" 2>&1 &
    pids+=($!)
  done
  for ((rank = 0; rank < ranks; ++rank)); do
    if ! wait "${pids[rank]}"; then
      echo "rank $rank failed"
      status=1
    fi
  done
  for ((rank = 0; rank < ranks; ++rank)); do
    if [ $rank -eq 0 ] || [ $status -ne 0 ]; then sed "s/^/$rank: /" "$work/rank$rank.txt" | tail -n 60; fi
  done
  return $status
}

# same_losses FILE OTHER: whether two metrics files of 10 steps have losses that differ by at most 1e-5 of their value.
same_losses() {
  paste -d ' ' <(grep -oE '"loss":[0-9.e+-]+' "$1" | cut -d: -f2) <(grep -oE '"loss":[0-9.e+-]+' "$2" | cut -d: -f2) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 1e-5 * $2) bad = 1 } END { exit bad || NR != 10 }'
}

# 2 and 4 ranks on one GPU: the tests of the communicator and of data parallelism, every collective, and MNIST against
# one rank. This checks the numbers, not the speed.
run_ranks() {
  if ! grep -q 'NCCL ON' "$out/build.txt"; then
    echo "NCCL was not found when building" >"$work/note"
    return 77
  fi
  local ranks cases train=("$build/bin/mnist" --device cuda:0 --optimizer sgd --hidden 64 --batch-size 96 --max-steps 10)
  "${train[@]}" --metrics "$work/alone.jsonl" | tail -n 1 || return 1
  for ranks in 2 4; do
    # 4 ranks take turns on the GPU, so they run only the tests of collectives; so do 2 on the model, where ctest runs all tests
    # with a GPU for each rank.
    cases=()
    if [ $ranks -eq 4 ] || [ "$model" ]; then cases=("[collectives],[nccl]"); fi
    on_one_gpu $ranks "$build/bin/dist_tests" "${cases[@]}" || return 1
    on_one_gpu $ranks "$build/bin/collectives" --device cuda:0 --max-bytes 1048576 --iterations 1 || return 1
    on_one_gpu $ranks "${train[@]}" --metrics "$work/ranks.jsonl" || return 1
    if ! same_losses "$work/ranks.jsonl" "$work/alone.jsonl"; then
      echo "MNIST on $ranks ranks differs from one rank" >"$work/note"
      return 1
    fi
  done
  echo "2 and 4 ranks on one GPU: tests, every collective, MNIST as on one rank" >"$work/note"
}

# Checks and times every rung of every ladder.
run_ladders() {
  local ladder status=0 notes=""
  for ladder in transpose reduce norm softmax layer_norm attention gemm; do
    echo
    echo "==== ladder $ladder --device cuda"
    if timeout --foreground 40 "$build/bin/ladder" $ladder --device cuda --json "$out/ladder_$ladder.json"; then
      notes+="$ladder; "
    else
      notes+="$ladder FAILED; "
      status=1
    fi
  done
  echo "${notes%; }" >"$work/note"
  return $status
}

run_benchmarks() {
  local name status=0 notes=""
  for name in bench_kernels bench_gemm bench_attention bench_step bench_accumulation; do
    echo
    echo "==== $name --device cuda"
    if timeout --foreground 60 "$build/bin/$name" --device cuda --json "$out/$name.json"; then
      notes+="$name; "
    else
      notes+="$name FAILED; "
      status=1
    fi
  done
  echo "${notes%; }" >"$work/note"
  return $status
}

run_torch() {
  if ! python3 -c 'import torch' 2>/dev/null; then
    echo "python3 has no torch" >"$work/note"
    return 77
  fi
  python3 "$root/benchmarks/compare_torch.py" all --device cuda --rounds 1 --bin "$build/bin" \
    --json "$out/compare_torch.json"
}

# Clocks are not locked: that would change the measurement, and may not be permitted.
run_ncu() {
  if ! command -v ncu >/dev/null; then
    echo "ncu was not found" >"$work/note"
    return 77
  fi
  ncu --clock-control none --section SpeedOfLight --section LaunchStats --section Occupancy --launch-skip 60 \
    --launch-count 40 --print-summary per-kernel "$build/bin/mnist" --device cuda --gemm own --batch-size 1024 \
    --max-steps 10
  local status=$?
  if grep -q ERR_NVGPUCTRPERM "$out/ncu.txt" && ! grep -q 'application returned an error' "$out/ncu.txt"; then
    echo "the driver keeps the performance counters to administrators here" >"$work/note"
    return 77
  fi
  if [ $status -eq 0 ] && ! grep -q Duration "$out/ncu.txt"; then
    echo "ncu measured no kernel" >"$work/note"
    return 1
  fi
  return $status
}

# lacks_permission FILE: whether it has blocks that begin with "FAILED:", and each says that the performance counters need
# permission.
lacks_permission() {
  awk '/^FAILED:/ { ++n } /ERR_NVGPUCTRPERM/ && n > 0 { told[n] = 1 }
    END { for (i = 1; i <= n; ++i) if (!(i in told)) exit 1; exit n == 0 }' "$1"
}

# Runs the commands of the docs that need a profiler, unchanged.
run_docs() {
  if ! command -v nsys >/dev/null || ! command -v ncu >/dev/null; then
    echo "nsys or ncu was not found" >"$work/note"
    return 77
  fi
  python3 "$root/tests/docs/docs_commands.py" "$build" --gpu
  local status=$?
  if lacks_permission "$out/docs.txt"; then
    echo "the driver keeps the performance counters to administrators here" >"$work/note"
    return 77
  fi
  return $status
}

# ---- main --------------------------------------------------------------------------------------------

# Name, seconds at most, where it runs, function; the most informative first.
stages="
build       300 everywhere build_all
tests       240 everywhere run_tests
ranks       540 everywhere run_ranks
mnist        90 everywhere run_mnist
programs     60 everywhere run_programs
memcheck    540 gpu        checker memcheck
racecheck   540 gpu        checker racecheck
synccheck   540 gpu        checker synccheck
initcheck   540 gpu        checker initcheck
profile      40 everywhere run_profile
ladders     280 gpu        run_ladders
benchmarks  300 gpu        run_benchmarks
ncu          60 gpu        run_ncu
docs        240 gpu        run_docs
torch       180 gpu        run_torch
"
for name in "$@"; do
  grep -q "^$name " <<<"$stages" || usage "found the stage '$name', expected one of $(awk '{ print $1 }' <<<"$stages" | paste -sd ' ')"
done

chosen=${*:-$(awk '{ print $1 }' <<<"$stages" | paste -sd ' ')}
export build root out work model chosen
export -f build_all run_tests checker accuracies run_mnist run_programs run_profile on_one_gpu same_losses run_ranks run_ladders
export -f run_benchmarks run_torch run_ncu lacks_permission run_docs

describe_machine >"$out/summary.txt"
if [ "$model" ]; then
  row machine passed 0 "the GPU model"
elif nvidia-smi -L 2>/dev/null | grep -q '^GPU 0'; then
  row machine passed 0 "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)"
else
  failures=1
  row machine FAILED 0 "no GPU: nvidia-smi finds none, so nothing was run"
  finish
fi

while read -r name limit where function; do
  [ "$name" ] || continue
  if [ "$name" != build ] && [[ " $chosen " != *" $name "* ]]; then continue; fi
  if [ "$model" ] && [ "$where" = gpu ]; then
    skip "$name" "needs a GPU or a tool of NVIDIA's"
    continue
  fi
  # shellcheck disable=SC2086  # a function and its argument
  stage "$name" "$limit" $function </dev/null || [ "$name" != build ] || finish
done <<<"$stages"
finish
