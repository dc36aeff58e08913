#!/usr/bin/env bash
# Runs the checks that take too long for .ci/run, hours in total. Prints a line for each, with time and result; outputs go to files.
#
#   scripts/long_checks.sh OUTDIR [CHECK...]      without a CHECK: all, in the order below
#
#   idle       the test suite ten times
#   busy       the test suite ten times beside busy loops
#   kills      a training run killed at 50 random moments, and ranks of one killed or stopped at 50
#   barriers   every barrier of the kernels removed in turn: a test must fail (tests/kernels/remove_barriers.py)
#   order      each call that orders work on a GPU removed in turn, on the GPU model: a test must fail
#              (tests/gpu_model/remove_synchronisation.py)
#   schedules  tests on the GPU model with all work as early as possible, and tests and programs under 100 random
#              schedules (tests/gpu_model/random_schedules.py); every stage of tests/gpu_check.sh that can run there
#   exact      the same under four schedules, with every access of the kernels recorded and compared
#   parallel   every collective, scale factor, index and wait of the ranks' code changed in turn: a test must fail
#              (tests/dist/change_parallel.py)
#   meshes     the tests of ranks with all their steps, on 1 to 4 ranks; gradients and steps on each mesh of 5 to 8 ranks
#              against double precision (tests/dist/every_mesh_test.cpp); a small GPT and an MLP under each mesh of up to
#              8 ranks, against one rank (7,960 runs)
#   sizes      1,000 models of random sizes and flags under random meshes, against one rank
#   docs       the docs' commands in full, not shortened
#   torch      10,000 random compositions of operations against PyTorch (PYTHON names a Python that has it)
#   tokens     GPT-2's tokenizer against tiktoken on every code point and 500,000 random texts (PYTHON likewise)
#   gpt        100 random configurations of GPT-2 and Llama against transformers (PYTHON likewise)
#   training   the training runs on which the docs and lessons rely, each over its seeds, against the committed results
#   gpus       the CUDA kernels compiled for other architectures than 8.0 and 9.0, with ptxas' warnings as errors
#   check      all tests of the check build: every order of threads, every number of ranks
#   debug      the debug build, which compiles each file separately, and its tests of one process
#   tsan       the tests of ranks under ThreadSanitizer, on 1 to 4 ranks
#
# Needs the build of ./run_tests.sh. The exit status is 1 if a check has failed.
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,32s/^# \?//p' "$0"; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.." || exit 2
bin=build/release/bin
mpirun=(mpirun --oversubscribe --bind-to none)
if [ "$(id -u)" -eq 0 ]; then mpirun+=(--allow-run-as-root); fi
[ -x $bin/mnist ] || { echo "error: $bin/mnist is missing: ./run_tests.sh builds it" >&2; exit 2; }

idle() { scripts/repeat_tests.sh 10; }
busy() { scripts/repeat_tests.sh 10 --busy; }
kills() {
  tests/apps/kill_test.sh $bin 50 1 &&
    OMP_NUM_THREADS=1 tests/dist/kill_ranks_test.sh 50 $bin "${mpirun[@]}"
}
barriers() { python3 tests/kernels/remove_barriers.py; }
order() { python3 tests/gpu_model/remove_synchronisation.py --jobs 2 --result "$out/removals.md"; }
schedules() {
  cmake --preset model && cmake --build --preset model --target ringtape_tests dist_tests mnist &&
    ctest --preset model --no-tests=error -R '^ringtape_tests_early$' &&
    python3 tests/gpu_model/random_schedules.py --bin build/model/bin --result "$out/schedules.md" &&
    tests/gpu_check.sh --gpu-model "$out/gpu_check"
}
exact() {
  cmake --preset model -B build/exact -DRINGTAPE_MODEL_EXACT=ON &&
    cmake --build build/exact --target gpu_model_tests ringtape_tests dist_tests mnist &&
    RINGTAPE_MODEL_GPUS=2 build/exact/bin/gpu_model_tests &&
    RINGTAPE_MODEL_RACES=exact python3 tests/gpu_model/random_schedules.py --bin build/exact/bin --seeds 0:4
}
parallel() { python3 tests/dist/change_parallel.py; }
meshes() {
  local ranks cases
  for ranks in 1 2 3 4 5 6 7 8; do
    cases=()
    if [ $ranks -gt 4 ]; then cases=("[every_mesh]"); fi
    RINGTAPE_LONG_TESTS=1 OMP_NUM_THREADS=1 "${mpirun[@]}" -n $ranks $bin/dist_tests "${cases[@]}" || return
  done
  python3 tests/long/meshes.py --bin $bin
}
sizes() { python3 tests/long/random_meshes.py 1000 --bin $bin; }
docs() { python3 tests/docs/docs_commands.py build/release --mpirun "${mpirun[*]}" --all; }
torch() { "${PYTHON:-python3}" tests/long/random_against_torch.py --bin $bin --cases 10000; }
tokens() { "${PYTHON:-python3}" tests/long/tokenizer_against_tiktoken.py --bin $bin --texts 500000; }
gpt() { "${PYTHON:-python3}" tests/long/gpt_against_transformers.py --bin $bin --cases 100; }
training() {
  rm -rf "$out/training" # it would do only the runs that are missing there
  python3 scripts/training_runs.py --bin $bin --again "$out/training"
}
gpus() {
  cmake -S . -B build/gpus -G Ninja -DRINGTAPE_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=86;89;100;120" -DRINGTAPE_WERROR=ON &&
    cmake --build build/gpus --target ringtape_kernels_cuda ringtape_gpt_kernels_cuda ringtape_ladders_kernels_cuda
}
check() { cmake --preset check && cmake --build --preset check && RINGTAPE_LONG_TESTS=1 ctest --preset check; }
debug() { cmake --preset debug && cmake --build --preset debug && ctest --preset debug -R '^(ringtape|dist|planner)_tests$'; }
tsan() {
  cmake -S . -B build/tsan -G Ninja -DRINGTAPE_CUDA=OFF -DRINGTAPE_APPS=OFF -DRINGTAPE_BENCHMARKS=OFF -DRINGTAPE_SANITIZE=thread &&
    cmake --build build/tsan --target dist_tests && ctest --test-dir build/tsan -R '^dist_tests' --output-on-failure
}

all=(idle busy kills barriers order schedules exact parallel meshes sizes docs torch tokens gpt training gpus check debug tsan)
checks=("${@:-${all[@]}}")
for check in "${checks[@]}"; do
  [[ " ${all[*]} " == *" $check "* ]] || { echo "error: no check is called '$check': expected ${all[*]}" >&2; exit 2; }
done
failed=0
for check in "${checks[@]}"; do
  start=$SECONDS
  if "$check" >"$out/$check.txt" 2>&1; then result=passed; else result="FAILED: $out/$check.txt" failed=1; fi
  printf '%-10s %6d s  %s\n' "$check" $((SECONDS - start)) "$result"
done
exit $failed
