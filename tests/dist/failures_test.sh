#!/usr/bin/env bash
# Ranks that die, hang, leave or disagree: all ranks must end in time, the run with an error, and leave no process behind.
#   tests/dist/failures_test.sh FAILING_RANKS MPIRUN [ARGUMENTS OF MPIRUN...]
set -uo pipefail
support=$(cd "$(dirname "$0")/../support" && pwd)
work=$(mktemp -d)
cp "$1" "$work/failing_ranks" # under a unique path, by which its processes are found
shift
mpirun=("$@")
trap 'cat "$work"/*.pid 2>/dev/null | xargs -r kill -KILL 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMPI_MCA_orte_tmpdir_base=$work # see app_test.sh

timeout=8 # of every operation, in seconds: connecting four ranks on a busy machine is one
limit=60  # for a whole run: starting and ending ranks takes time on a busy machine; a hanging rank sleeps for an hour

# shellcheck source-path=SCRIPTDIR source=../support/checks.sh
. "$support/checks.sh"
run_failed() {
  failure "$*"
  sed 's/^/    /' "$work/out"
}

processes() { pgrep -f "^$work/failing_ranks" | wc -l; }

# Waits up to $limit s for the launcher's clean-up.
no_process_is_left() {
  for ((i = 0; i < 10 * limit; ++i)); do
    if [ "$(processes)" -eq 0 ]; then return 0; fi
    sleep 0.1
  done
  return 1
}

# judge NAME STATUS SECONDS TEXTS...: checks how a run ended.
judge() {
  local name=$1 status=$2 seconds=$3 text
  shift 3
  if [ "$status" -eq 0 ]; then run_failed "$name: ended with 0, expected an error" && return; fi
  if [ "$seconds" -gt "$limit" ]; then run_failed "$name: took $seconds s, expected at most $limit s" && return; fi
  if ! no_process_is_left; then run_failed "$name: $(processes) processes are left" && return; fi
  for text in "$@"; do
    if ! grep -qE -- "$text" "$work/out"; then run_failed "$name: expected '$text' in" && return; fi
  done
  pass
}

# fails WAY TEXTS...: runs 4 ranks of which rank 1 fails in this way; what they print must match the texts.
fails() {
  local way=$1 start=$SECONDS
  shift
  rm -f ./*.pid
  timeout --kill-after=5 $((2 * limit)) "${mpirun[@]}" -n 4 "$work/failing_ranks" "$way" $timeout >"$work/out" 2>&1 </dev/null
  judge "$way" $? $((SECONDS - start)) "$@"
}

# late RANK: the error of a rank whose all_reduce times out.
late() { echo "error: rank $1 of 4: all_reduce #1 \(sum of 1000 f32, 4000 bytes\) did not finish within $timeout s"; }

# ---- rank 1 is silent -------------------------------------------------------------------------------------

# mpirun ends the others after one has printed its error; below, without mpirun, all must print it.
fails hang "$(late "[023]")"
fails late-barrier "error: rank [03] of 4: barrier #1 .*: nothing came from rank 1, 2$"
# A barrier with a deadline of 1 s. (On a busy machine it may be too short for other ranks as well.)
fails short-barrier "error: rank [023] of 4: barrier #1 .* did not finish within 1 s: nothing came from rank "

# ---- rank 1 is gone ---------------------------------------------------------------------------------------

fails kill "signal 9"
fails exit "mpi(run|exec) has exited due to process rank 1 |$(late "[023]")"
fails throw "^error: rank 1 has had enough"
fails leave "$(late "[023]")|disconnect"

# ---- rank 1 calls another operation -----------------------------------------------------------------------

# differ OWN OTHERS: the error of rank 1, which compares its call with rank 0's, or of rank 2, which compares its call with
# rank 1's; mpirun ends the others once a rank has printed it.
differ() { echo "error: (rank 1 of 4 called $1, but rank 0 called $2|rank 2 of 4 called $2, but rank 1 called $1)$"; }
sum="all_reduce #1 \(sum of 1000 f32, 4000 bytes\)"

fails order "$(differ "broadcast #1 \(.* root 0\)" "$sum")"
fails size "$(differ "all_reduce #1 \(sum of 999 f32, 3996 bytes\)" "$sum")"
fails dtype "$(differ "all_reduce #1 \(sum of 1000 i32, 4000 bytes\)" "$sum")"
fails root "$(differ "broadcast #1 \(.* root 1\)" "broadcast #1 \(.* root 0\)")"
fails short-exchange "error: rank 0 of 4: exchange #0 .* received 5 elements from rank 1, expected 6"
fails long-exchange "error: rank 0 of 4: exchange #0 .* failed: .*MPI_ERR_TRUNCATE"
fails gather-root "$(differ "gather #1 \(.* root 1\)" "gather #1 \(.* root 0\)")"
fails gather-dtype "$(differ "gather #1 \(24 i32, .*" "gather #1 \(24 f32, .*")"
fails gather-order "$(differ "scatter #1 \(.*" "gather #1 \(.*")"
fails scatter-root "$(differ "scatter #1 \(.* root 1\)" "scatter #1 \(.* root 0\)")"
fails counts "error: rank (1 of 4 and rank 0|2 of 4 and rank 1) called all_gather #1 \(24 f32, 96 bytes\), but their counts .* differ"
fails scatter-counts "error: rank (1 of 4 and rank 0|2 of 4 and rank 1) called reduce_scatter #1 \(sum of 24 f32, 96 bytes\), but their counts .* differ"

# ---- the launcher is stopped, and cannot see that a rank is gone ---------------------------------------------

# all_ended PIDS...: none of the processes runs. (A stopped launcher does not reap them.)
all_ended() {
  local pid
  for pid in "$@"; do
    if [ -e "/proc/$pid/stat" ] && ! grep -qE '^[0-9]+ \(.*\) Z' "/proc/$pid/stat"; then return 1; fi
  done
}

# without_launcher SIGNAL: sends rank 1 a signal while mpirun is stopped; the other three must end by themselves.
without_launcher() {
  local signal=$1 launcher status survivors start
  rm -f ./*.pid
  "${mpirun[@]}" -n 4 "$work/failing_ranks" work $timeout >"$work/out" 2>&1 </dev/null &
  launcher=$!
  for ((i = 0; i < 10 * limit; ++i)); do
    if [ -e 0.pid ] && [ -e 1.pid ] && [ -e 2.pid ] && [ -e 3.pid ]; then break; fi
    sleep 0.1
  done
  kill -STOP $launcher
  kill "-$signal" "$(cat 1.pid)"
  start=$SECONDS
  survivors=("$(cat 0.pid)" "$(cat 2.pid)" "$(cat 3.pid)")
  for ((i = 0; i < 10 * limit; ++i)); do
    if all_ended "${survivors[@]}"; then break; fi
    sleep 0.1
  done
  all_ended "${survivors[@]}"
  status=$?
  start=$((SECONDS - start))
  kill -CONT $launcher
  if [ $status -ne 0 ]; then run_failed "$signal, mpirun stopped: the other ranks go on"; fi
  for ((i = 0; i < 10 * limit; ++i)); do
    if ! kill -0 $launcher 2>/dev/null; then break; fi
    sleep 0.1
  done
  kill $launcher 2>/dev/null
  wait $launcher
  judge "$signal, mpirun stopped" $? "$start" "rank 0 of 4: all_reduce #[0-9]+ .*4000 bytes.* did not finish" \
    "rank 2 of 4: all_reduce .* did not finish" "rank 3 of 4: all_reduce .* did not finish"
}

without_launcher KILL
without_launcher STOP

summary
