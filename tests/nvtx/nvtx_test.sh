#!/usr/bin/env bash
# The NVTX ranges of a run, as a profiler sees them: steps, phases, layers and operations, with readable names.
#   tests/nvtx/nvtx_test.sh BIN_DIR STAND_IN [MPIRUN ARGUMENTS...]
set -uo pipefail
bin=$(realpath "$1")
stand_in=$(realpath "$2")
shift 2
mpirun=("$@")
# shellcheck source-path=SCRIPTDIR/../dist source=app_test.sh
. "$(dirname "$0")/../dist/app_test.sh"
export NVTX_INJECTION64_PATH=$stand_in NVTX_STAND_IN=$work/ranges OMP_NUM_THREADS=1

# trained COMMAND...: its ranges, or with several ranks the ranges of one, go to the file `ranges`.
trained() {
  rm -f ranges.*
  timeout 120 "$@" >out 2>err </dev/null
  expect "$*: ends with 0" [ $? -eq 0 ]
  cat "$(find . -name 'ranges.*' | sort | tail -n 1)" >ranges
  expect "$*: every range was closed" [ "$(tail -n 1 ranges)" = "0 left open" ]
}
# has COUNT LINE: there are COUNT ranges of this name and depth.
has() { expect "$1 times '$2'" [ "$(grep -cxF -- "$2" ranges)" -eq "$1" ]; }
# within OUTER INNER: the first range of the name OUTER has one of the name INNER inside.
within() {
  expect "'$2' inside of '$1'" awk -v outer="$1" -v inner="$2" '
    { name = $0; sub(/^ */, "", name); depth = (length($0) - length(name)) / 2 }
    inside && depth <= at { exit }
    inside && name == inner { found = 1; exit }
    !inside && name == outer { inside = 1; at = depth }
    END { exit !found }' ranges
}

flags=(--device cpu --hidden 32 --batch-size 64 --clip-norm 1 --max-steps 3)
trained "$bin/mnist" "${flags[@]}"
for step in 1 2 3; do has 1 "step $step"; done
for phase in data forward backward optimizer; do
  expect "phase $phase in each step" [ "$(grep -cxF -- "  $phase" ranges)" -ge 3 ]
done
has 0 "  all-reduce" # one rank communicates with none
for operation in "load batch" "batch to device" "prepare input"; do within "step 1" "$operation"; done
within forward model
within model "layer 0"
within "layer 0" "linear_relu 64x784, 32x784, 32"
within forward "linear 64x32, 10x32, 10"
within forward "cross_entropy 64x10, 64"
within backward "linear backward 64x32, 10x32, 10"
within backward "linear_relu backward 64x784, 32x784, 32"
within optimizer zero_grad
within "step 1" clip
within "step 1" "optimizer step"
within evaluation "linear_relu 1000x784, 32x784, 32"

if [ ${#mpirun[@]} -gt 0 ]; then
  trained "${mpirun[@]}" -n 2 "$bin/mnist" "${flags[@]}"
  has 3 "  all-reduce"
  within backward "launch bucket"
  within all-reduce wait
fi

summary
