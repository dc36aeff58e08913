#!/usr/bin/env bash
# Everything that needs a GPU, in one call of under ten minutes: builds for the GPU at hand, runs all tests on it, the
# CUDA Toolkit's memory and race checkers over the kernel tests, MNIST, the profiler and the timeline with the GPU's own
# times, several ranks that share the GPU, the kernel ladders, the benchmarks beside PyTorch, Nsight Compute over the
# kernels of a training step, and the docs' commands for Nsight.
#
#   tests/gpu_check.sh OUTDIR
#
# Writes one text file for each stage and summary.txt, which begins with the machine's description and ends with a
# table of the stages: passed, FAILED, or skipped with the reason. Ends with 0 only when no stage failed. Installs
# nothing.
set -uo pipefail
[ $# -eq 1 ] || { echo "usage: tests/gpu_check.sh OUTDIR" >&2; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." || exit 2
root=$PWD
build=$root/build/gpu
deadline=$((SECONDS + 570))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
table=""
failures=0
PATH=$PATH:/usr/local/cuda/bin

# ---- running stages ---------------------------------------------------------------------------------------

row() { # NAME RESULT SECONDS NOTE
  local line
  line=$(printf '%-16s %-8s %4s s  %s' "$@")
  table+="$line"$'\n'
  printf '%s\n' "$line"
}

skip() { row "$1" skipped 0 "$2"; } # NAME REASON

# stage NAME SECONDS COMMAND...: the output goes to OUTDIR/NAME.txt; what the command writes to $work/note goes into
# the table. COMMAND is a function: it runs in a subshell with this script's variables.
stage() {
  local name=$1 limit=$2 start=$SECONDS status
  shift 2
  if [ $((deadline - SECONDS)) -lt "$limit" ]; then limit=$((deadline - SECONDS)); fi
  if [ "$limit" -lt 5 ]; then
    failures=$((failures + 1))
    row "$name" FAILED 0 "no time was left for it"
    return 1
  fi
  : >"$work/note"
  timeout --kill-after=5 "$limit" bash -uo pipefail -c '"$@"' - "$@" >"$out/$name.txt" 2>&1
  status=$?
  if [ $status -eq 77 ]; then
    skip "$name" "$(tee -a "$out/$name.txt" <"$work/note")"
  elif [ $status -eq 0 ]; then
    row "$name" passed $((SECONDS - start)) "$(cat "$work/note")"
  else
    failures=$((failures + 1))
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then echo "stopped at its limit of $limit s" >"$work/note"; fi
    row "$name" FAILED $((SECONDS - start)) "$(cat "$work/note")"
    return 1
  fi
}

# The end of the script: the table goes to the summary last.
finish() {
  {
    echo
    printf '%s' "$table"
    echo "$failures failed, $SECONDS s in all"
  } >>"$out/summary.txt"
  echo "$failures failed, $SECONDS s in all; results in $out"
  [ $failures -eq 0 ]
  exit
}

# ---- the stages -------------------------------------------------------------------------------------------

describe_machine() {
  date -u '+%Y-%m-%d %H:%M UTC'
  git -C "$root" log -1 --format='commit %h %s' 2>/dev/null
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv 2>&1
  nvidia-smi 2>&1
  nvcc --version 2>&1 | tail -n 2
  lscpu | grep -E '^(Model name|CPU\(s\)|Thread|L2|L3)'
  grep MemTotal /proc/meminfo
  . /etc/os-release && echo "$PRETTY_NAME, $(g++ --version | head -n 1), $(cmake --version | head -n 1)"
}

build_all() {
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRINGTAPE_CUDA=ON -DRINGTAPE_WERROR=OFF &&
    cmake --build "$build" --parallel "$(nproc)" || return 1
  grep -h '^-- Ringtape: ' "$out/build.txt" | sed 's/^-- Ringtape: //' | paste -sd ';' >"$work/note"
}

run_tests() {
  ctest --test-dir "$build" --no-tests=error --output-on-failure
  local status=$?
  local log=$build/Testing/Temporary/LastTest.log
  grep -hE '^(All tests passed|test cases:|skipped)' "$log"
  grep -hE '^(All tests passed|test cases:|skipped)' "$log" | head -n 1 >"$work/note"
  if grep -q '^skipped .* need a GPU' "$log"; then
    echo "the tests did not see the GPU" >"$work/note"
    return 1
  fi
  return $status
}

# The four checkers side by side over the tests of kernels, each to a file of its own first.
run_sanitizers() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer was not found" >"$work/note"
    return 77
  fi
  local tool status=0 notes=""
  local kernel_tests='[elementwise],[golden],[relu],[mse],[cross_entropy],[bias],[gemm],[reduce],[random],[optimizer]'
  kernel_tests+=',[words],[clip],[scaler],[mixed],[compress],[graph],[checkpoint],[resume][gpu]'
  for tool in memcheck racecheck initcheck synccheck; do
    (
      timeout 120 compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 20 "$build/bin/ringtape_tests" \
        "$kernel_tests" \
        >"$work/$tool.txt" 2>&1
      echo $? >"$work/$tool.status"
    ) &
  done
  wait
  for tool in memcheck racecheck initcheck synccheck; do
    echo "==== $tool"
    tail -n 60 "$work/$tool.txt"
    case $(cat "$work/$tool.status") in
      0) notes+="$tool clean; " ;;
      124) notes+="$tool stopped after 120 s; " && status=1 ;;
      *) notes+="$tool FAILED; " && status=1 ;;
    esac
  done
  echo "${notes%; }" >"$work/note"
  return $status
}

# Accuracy of five seeds, and two runs with one seed, which must agree but for times.
run_mnist() {
  local seed
  for seed in 0 1 2 3 4; do
    "$build/bin/mnist" --device cuda --seed $seed --metrics "$work/$seed.jsonl" | tail -n 1 || return 1
  done
  "$build/bin/mnist" --device cuda --seed 0 --metrics "$work/again.jsonl" || return 1
  echo
  echo "own GEMM:"
  "$build/bin/mnist" --device cuda --seed 0 --gemm own --metrics "$work/own.jsonl" | tail -n 1 || return 1
  for seed in 0 again; do
    sed -E 's/"(samples_per_s|seconds)":[^,}]+//g' "$work/$seed.jsonl" >"$work/$seed.without-times"
  done
  if ! cmp "$work/0.without-times" "$work/again.without-times"; then
    echo "two runs with seed 0 differ" >"$work/note"
    return 1
  fi
  "$build/bin/mnist" --device cuda --seed 0 --graph --metrics "$work/graph.jsonl" | tail -n 1 || return 1
  sed -E 's/"(samples_per_s|seconds)":[^,}]+//g' "$work/graph.jsonl" >"$work/graph.without-times"
  if ! cmp "$work/0.without-times" "$work/graph.without-times"; then
    echo "the run with --graph differs from the one without" >"$work/note"
    return 1
  fi
  cat "$work"/[0-4].jsonl | grep -oE '"test_accuracy":[0-9.]+' | cut -d: -f2 | sort -n |
    awk '{ a[NR] = $1 } END {
      printf "accuracy of 5 seeds: lowest %.4f, median %.4f; two runs with one seed agree\n", a[1], a[3]
      exit !(NR == 5 && a[1] >= 0.972 && a[3] >= 0.975) }' | tee "$work/note"
}

# The table of --profile and the trace of --timeline have the GPU's activities: the kernels' times fill a part of the steps,
# and at most all of them. Under --graph the kernels are those of the graph.
run_profile() {
  local flags found status notes=""
  for flags in --profile --graph; do
    "$build/bin/mnist" --device cuda --hidden 1024,1024 --batch-size 512 --max-steps 40 $flags \
      --timeline "$work/trace.json" | tee "$work/profile.txt" || return 1
    if grep '^device times: not' "$work/profile.txt" >"$work/note"; then
      if grep -q 'built without CUPTI' "$work/note"; then return 77; fi
      return 1
    fi
    found=$(python3 "$root/tests/trace/check_gpu_trace.py" "$work/trace.json" 2>&1 | paste -sd " ")
    status=$?
    notes+="$flags: $found; "
    echo "${notes%; }" >"$work/note"
    [ $status -eq 0 ] || return 1
  done
}

# on_one_gpu RANKS COMMAND...: RANKS processes on the first GPU, with torchrun's environment variables, so that no MPI is
# needed. NCCL refuses two ranks on one GPU of one machine; here each has a host id of its own, and they communicate over
# sockets. Shows the ranks' output; fails if one of them fails.
on_one_gpu() {
  local ranks=$1 rank status=0 port=$((20000 + RANDOM % 20000)) pids=()
  shift
  printf '\n==== %s ranks: %s\n' "$ranks" "$*"
  for ((rank = 0; rank < ranks; ++rank)); do
    env RANK=$rank WORLD_SIZE="$ranks" LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      NCCL_HOSTID=ringtape-$rank NCCL_SOCKET_IFNAME=lo NCCL_MNNVL_ENABLE=0 RINGTAPE_DIST_DEVICE=cuda:0 \
      timeout --kill-after=5 60 "$@" >"$work/rank$rank.txt" 2>&1 &
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

# same_losses FILE OTHER: two metrics files of 10 steps, whose losses differ by 1e-5 of their value at most.
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
  local ranks train=("$build/bin/mnist" --device cuda:0 --optimizer sgd --hidden 64 --batch-size 96 --max-steps 10)
  "${train[@]}" --metrics "$work/alone.jsonl" | tail -n 1 || return 1
  for ranks in 2 4; do
    on_one_gpu $ranks "$build/bin/dist_tests" || return 1
    on_one_gpu $ranks "$build/bin/collectives" --device cuda:0 --max-bytes 4194304 --iterations 3 || return 1
    on_one_gpu $ranks "${train[@]}" --metrics "$work/ranks.jsonl" || return 1
    if ! same_losses "$work/ranks.jsonl" "$work/alone.jsonl"; then
      echo "MNIST on $ranks ranks differs from one rank" >"$work/note"
      return 1
    fi
  done
  echo "2 and 4 ranks on one GPU: tests, every collective, MNIST as on one rank" >"$work/note"
}

# Every version of every ladder, checked and timed.
run_ladders() {
  local ladder status=0 notes=""
  for ladder in transpose reduce norm softmax gemm; do
    echo
    echo "==== ladder $ladder --device cuda"
    if timeout 40 "$build/bin/ladder" $ladder --device cuda --json "$out/ladder_$ladder.json"; then
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
  for name in bench_kernels bench_gemm bench_step bench_accumulation; do
    echo
    echo "==== $name --device cuda"
    if timeout 60 "$build/bin/$name" --device cuda --json "$out/$name.json"; then
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
  if [ $status -ne 0 ] && grep -q ERR_NVGPUCTRPERM "$out/ncu.txt"; then
    echo "the driver keeps the performance counters to administrators here" >"$work/note"
    return 77
  fi
  return $status
}

# The commands of the docs that need a profiler, unchanged.
run_docs() {
  if ! command -v nsys >/dev/null || ! command -v ncu >/dev/null; then
    echo "nsys or ncu was not found" >"$work/note"
    return 77
  fi
  python3 "$root/tests/docs/docs_commands.py" "$build" --gpu
  local status=$?
  if [ $status -ne 0 ] && grep -q ERR_NVGPUCTRPERM "$out/docs.txt"; then
    echo "the driver keeps the performance counters to administrators here" >"$work/note"
    return 77
  fi
  return $status
}

# ---- main --------------------------------------------------------------------------------------------

export build root out work
export -f build_all run_tests run_sanitizers run_mnist run_profile on_one_gpu same_losses run_ranks run_ladders
export -f run_benchmarks run_torch run_ncu run_docs

describe_machine >"$out/summary.txt"
if ! nvidia-smi -L 2>/dev/null | grep -q '^GPU 0'; then
  failures=1
  row machine FAILED 0 "no GPU: nvidia-smi finds none, so nothing was run"
  finish
fi
row machine passed 0 "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)"

stage build 260 build_all || finish
stage tests 150 run_tests
stage sanitizers 135 run_sanitizers
stage mnist 60 run_mnist
stage profile 40 run_profile
stage ranks 120 run_ranks
stage ladders 60 run_ladders
stage benchmarks 130 run_benchmarks
stage ncu 60 run_ncu
stage docs 60 run_docs
stage torch 180 run_torch
finish
