#!/usr/bin/env bash
# Kills or stops a rank of a training run at a random moment, with mpirun running or stopped itself, so that it cannot clean
# up. All ranks must end within the deadline and leave no process, each surviving rank with an error about what it waited for
# (if mpirun does not end it first); the resumed run must end with the weights of an undisturbed one, bit for bit.
#   tests/dist/kill_ranks_test.sh RUNS BIN_DIR MPIRUN [ARGUMENTS OF MPIRUN...]
# Each run trains with the next of the commands below, or of MODES="PROGRAM FLAGS|PROGRAM FLAGS|..."; SEED=N repeats a test.
set -uo pipefail
runs=$1
bin=$(realpath "$2")
shift 2
mpirun=("$@")
seed=${SEED:-$$}
RANDOM=$seed
work=$(mktemp -d) || exit 1
cp "$bin/regression" "$bin/gpt" "$work/" # under a unique path, by which their processes are found
trap 'pkill -KILL -f "^$work/"; rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMPI_MCA_orte_tmpdir_base=$work # see app_test.sh

ranks=4
timeout=20 # of the operations of a disturbed run, in seconds; the other runs have the longer default
peak_timeout=$((timeout + 10)) # of the barrier after rank 0 has measured the peak FLOP/s: kMaxPeakSeconds more
export OMP_NUM_THREADS=1
regression="regression --epochs 4 --hidden 64,64,64 --batch-size 300"
gpt="gpt train --layers 2 --heads 4 --width 32 --context 16 --batch-size 8 --steps-per-epoch 40 --epochs 1 --warmup 5 --sample-tokens 0"
# The first seven cover every way to divide the work; .ci/run tries only these.
default="$regression|$gpt --context-parallel 4|$regression --zero 2"
default+="|$gpt --tensor-parallel 2 --sequence-parallel --zero 3"
default+="|$gpt --context-parallel 2 --pipeline-parallel 2 --micro-batch 2"
default+="|$regression --pipeline-parallel 2 --pipeline-schedule interleaved --pipeline-chunks 2 --micro-batch 75 --zero 1"
default+="|$regression --tensor-parallel 2 --pipeline-parallel 2 --micro-batch 75"
default+="|$regression --zero 1|$regression --zero 3|$regression --tensor-parallel 4"
default+="|$regression --pipeline-parallel 4 --micro-batch 50"
IFS='|' read -ra modes <<<"${MODES:-$default}"

fail() {
  printf 'FAILED: SEED=%s, run %s (%s; %s): %s\n' "$seed" "$run" "$mode" "$way" "$*"
  head -c 3000 "$work/out"
  exit 1
}
processes() { pgrep -f "^$work/"; }

# rank_of PID: the rank's number; empty until the process has one.
rank_of() { tr '\0' '\n' <"/proc/$1/environ" 2>/dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p'; }

# ended PID: the process has ended. (A stopped launcher does not reap the ranks.)
ended() { [ ! -e "/proc/$1/stat" ] || grep -qE '^[0-9]+ \(.*\) Z' "/proc/$1/stat" 2>/dev/null; }

# start FLAGS...: starts the ranks with these flags under mpirun, process $launcher. Waits until all ranks' processes are there
# or mpirun has ended: the array $pids, by rank.
start() {
  local pid rank
  "${mpirun[@]}" -n $ranks "$work/${training[0]}" "${training[@]:1}" --device cpu --optimizer adamw --checkpoint run --resume --checkpoint-every 9 \
    --save killed.safetensors "$@" >out 2>&1 </dev/null &
  launcher=$!
  pids=()
  while [ ${#pids[@]} -lt $ranks ]; do
    if ended $launcher; then return; fi
    sleep 0.02
    for pid in $(processes); do
      rank=$(rank_of "$pid")
      if [ -n "$rank" ]; then pids[rank]=$pid; fi
    done
  done
}

# end PIDS...: whether all of them end within a minute. That allows for a busy machine: a rank that times out ends after
# $timeout s.
end() {
  local deadline=$((SECONDS + 60)) pid
  for pid in "$@"; do
    until ended "$pid"; do
      if [ $SECONDS -gt $deadline ]; then return 1; fi
      sleep 0.1
    done
  done
}

# disturb SIGNAL LAUNCHER LENGTH: sends the signal to a rank of a running training, at a random moment of its first LENGTH
# microseconds; fails if training had ended by then, or before all ranks were seen.
disturb() {
  local moment=$(($3 * (RANDOM * 32768 + RANDOM) / (1 << 30))) victim=$((RANDOM % ranks)) survivors rank
  start --comm-timeout $timeout
  if ended $launcher; then
    [ -e killed.safetensors ] || fail "the ranks did not start"
    wait $launcher
    return 1
  fi
  # If mpirun is stopped while it connects the ranks, it does not recover.
  until [ "$2" = running ] || grep -q 'connected by MPI' out || ended $launcher; do sleep 0.02; done
  sleep "$(printf '%d.%06d' $((moment / 1000000)) $((moment % 1000000)))"
  if [ "$2" = stopped ]; then kill -STOP $launcher 2>/dev/null; fi
  survivors=("${pids[@]}")
  unset "survivors[$victim]"
  way="SIG$1 to rank $victim, mpirun $2, after $moment us"
  kill "-$1" "${pids[victim]}" 2>/dev/null
  end "${survivors[@]}" || fail "ranks go on"
  if [ "$2" = stopped ]; then kill -CONT $launcher 2>/dev/null; fi
  if [ -e killed.safetensors ]; then # training was over: continue a rank that was stopped while it exited
    kill -CONT "${pids[victim]}" 2>/dev/null
    end $launcher || fail "mpirun goes on after the end of training"
    wait $launcher
    return 1
  fi
  end $launcher || fail "mpirun goes on"
  if wait $launcher; then fail "mpirun ended with 0"; fi
  end "${pids[victim]}" || fail "the rank goes on"
  if [ -n "$(processes)" ]; then fail "processes are left: $(processes)"; fi
  # When mpirun sees a rank end, it ends the others: at once after a SIGKILL, before all have printed their errors after a
  # SIGSTOP.
  local untold=0 timed_out="(.* did not finish within $timeout s|barrier .* did not finish within $peak_timeout s)"
  for rank in "${!survivors[@]}"; do
    grep -qE "error: (rank $rank of $ranks( \\([^)]*\\))*|this process): $timed_out" out || untold=$((untold + 1))
  done
  case "$1 $2" in
    "KILL running") ;;
    "STOP running") [ $untold -lt ${#survivors[@]} ] || fail "no rank said what it waited for" ;;
    *) [ $untold -eq 0 ] || fail "$untold ranks did not say what they waited for" ;;
  esac
}

ways=("KILL stopped" "STOP running" "STOP stopped" "KILL running")
declare -A lengths
for ((run = 1; run <= runs; ++run)); do
  number=$(((run - 1) % ${#modes[@]}))
  mode=${modes[number]} way=undisturbed
  read -ra training <<<"$mode"
  if [ -z "${lengths[$number]:-}" ]; then
    rm -rf run
    before=$(date +%s%N)
    start
    wait $launcher || fail "ended with an error"
    lengths[$number]=$((($(date +%s%N) - before) / 1000)) # microseconds
    mv killed.safetensors "reference-$number.safetensors"
  fi
  read -ra now <<<"${ways[(number + (run - 1) / ${#modes[@]}) % 4]}" # each command is disturbed in each way, in turn
  # Each time that training ends before it is disturbed, the next moment is earlier by a quarter.
  for ((late = 0; late < 20; ++late)); do
    rm -rf run killed.safetensors
    if disturb "${now[@]}" $((lengths[$number] * 3 ** late / 4 ** late)); then break; fi
  done
  [ $late -lt 20 ] || fail "ended 20 times before it could be disturbed"
  has_checkpoint=""
  if compgen -G 'run/step-*.json' >/dev/null; then has_checkpoint=1; fi
  start
  wait $launcher || fail "resuming ended with an error"
  [ -z "$has_checkpoint" ] || grep -q 'resumed after step ' out || fail "the checkpoint was not read"
  cmp "reference-$number.safetensors" killed.safetensors || fail "other weights"
  if [ -n "${VERBOSE:-}" ]; then printf 'run %s: %s; %s\n' "$run" "$mode" "$way"; fi
done
echo "$runs passed, 0 failed"
