#!/usr/bin/env bash
# Kills or stops a rank of a training at a random moment, with mpirun at work or stopped itself, so that it cannot clean
# up. All ranks must end within the deadline, each survivor that nobody ended saying what it waited for, and leave no
# process; the resumed training must end with the weights of one that nobody disturbed, bit for bit.
#   tests/dist/kill_ranks_test.sh RUNS BIN_DIR MPIRUN [ARGUMENTS OF MPIRUN...]      SEED=N repeats a course
set -uo pipefail
runs=$1
bin=$(realpath "$2")
shift 2
mpirun=("$@")
RANDOM=${SEED:-$$}
work=$(mktemp -d)
cp "$bin/regression" "$work/" # a name of its own, by which its processes are found
trap 'pkill -KILL -f "^$work/regression"; rm -rf "$work"' EXIT
cd "$work" || exit 1

ranks=3
timeout=3 # of every operation, in seconds
export OMP_NUM_THREADS=1
training=(--device cpu --epochs 4 --hidden "64,64" --optimizer adamw --batch-size 300
  --comm-timeout "$timeout")

fail() {
  printf 'FAILED: run %s (%s): %s\n' "$run" "$way" "$*"
  head -c 3000 "$work/out"
  exit 1
}
processes() { pgrep -f "^$work/regression"; }

# rank_of PID: its number; nothing before it has one.
rank_of() { tr '\0' '\n' <"/proc/$1/environ" 2>/dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p'; }

# ended PID: it does not run. (A stopped launcher does not bury the ranks.)
ended() { [ ! -e "/proc/$1/stat" ] || grep -qE '^[0-9]+ \(.*\) Z' "/proc/$1/stat" 2>/dev/null; }

# Starts the ranks: $launcher. Waits until it has seen all of their processes, or their end: the array $pids, by rank.
start() {
  local pid rank
  "${mpirun[@]}" -n $ranks "$work/regression" "${training[@]}" --checkpoint run --resume --checkpoint-every 9 \
    --save killed.safetensors >out 2>&1 </dev/null &
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

# ends_within TENTHS PIDS...: all of them do.
ends_within() {
  local left=$1 pid
  shift
  for pid in "$@"; do
    until ended "$pid"; do
      sleep 0.1
      left=$((left - 1))
      if [ $left -le 0 ]; then return 1; fi
    done
  done
}

# disturb SIGNAL LAUNCHER: does it to a running training, after a random time; false if that had ended by then.
disturb() {
  local moment=$((length * (RANDOM * 32768 + RANDOM) / (1 << 30))) victim=$((RANDOM % ranks)) survivors status=0 rank
  start
  if ended $launcher; then fail "the ranks did not start"; fi
  # An mpirun that is stopped while it still connects the ranks does not get over it.
  until [ "$2" = running ] || grep -q 'connected by MPI' out || ended $launcher; do sleep 0.02; done
  sleep "$(printf '%d.%06d' $((moment / 1000000)) $((moment % 1000000)))"
  if [ "$2" = stopped ]; then kill -STOP $launcher 2>/dev/null || return 1; fi
  survivors=("${pids[@]}")
  unset "survivors[$victim]"
  way="SIG$1 to rank $victim, mpirun $2, after $moment us"
  ended "${pids[victim]}" || kill "-$1" "${pids[victim]}" 2>/dev/null || status=1
  # Half a second for the others to tell; the rest for a busy machine.
  ends_within $(((timeout + 8) * 10)) "${survivors[@]}" || fail "ranks go on"
  if [ "$2" = stopped ]; then kill -CONT $launcher; fi
  ends_within 100 $launcher || fail "mpirun goes on"
  if wait $launcher; then status=1; fi
  if [ -n "$(processes)" ]; then fail "processes are left: $(processes)"; fi
  if [ $status -ne 0 ] || [ -e killed.safetensors ]; then return 1; fi # too late
  # Where mpirun saw a rank die, it has ended the others itself.
  if [ "$1 $2" = "KILL running" ]; then return; fi
  for rank in "${!survivors[@]}"; do
    grep -qE "error: (rank $rank of $ranks|this process): .* did not finish within $timeout s" out ||
      fail "rank $rank did not say what it waited for"
  done
}

run=0 way=undisturbed
before=$(date +%s%N)
start
wait $launcher || fail "ended with an error"
length=$((($(date +%s%N) - before) / 1000)) # microseconds
mv killed.safetensors reference.safetensors

ways=("KILL stopped" "STOP running" "STOP stopped" "KILL running")
for ((run = 1; run <= runs; ++run)); do
  read -ra now <<<"${ways[run % 4]}"
  for ((late = 0; late < 20; ++late)); do
    rm -rf run killed.safetensors
    if disturb "${now[@]}"; then break; fi
  done
  [ $late -lt 20 ] || fail "ended 20 times before it could be disturbed"
  start
  wait $launcher || fail "resuming ended with an error"
  cmp reference.safetensors killed.safetensors || fail "other weights"
done
echo "$runs passed, 0 failed"
