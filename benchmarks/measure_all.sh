#!/usr/bin/env bash
# Runs all benchmarks but bench_gpt (tests/long/gpt_against_others.py compares it with other programs) once, in some 20
# minutes on two cores, and writes their output and their result files:
#   benchmarks/measure_all.sh OUTDIR [BIN_DIR] [WRAPPER...]
# Then `scripts/readme_figures.py --folder NAME` makes the docs' tables from benchmarks/results/NAME. WRAPPER is put
# before each command, for example `chrt -f 1`. PYTHON names a Python with PyTorch; without it that part is omitted.
# Existing result files in OUTDIR are removed, so that results of two runs are never mixed. A program that fails or
# takes more than five minutes is named at the end, and the exit status is then 1; the others still run.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { sed -n '2,8s/^# *//p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
bin=$(cd "${2:-$root/build/release/bin}" && pwd)
wrapper=("${@:3}")
python=${PYTHON:-python3}
mpirun=(env OMP_NUM_THREADS=1 mpirun --oversubscribe --bind-to none)
if [ "$(id -u)" -eq 0 ]; then mpirun+=(--allow-run-as-root); fi
rm -f "$out"/{bench,ladder,torch}_*.{json,txt} "$out"/collectives.{json,txt}
failed=()

# measure NAME COMMAND...: runs the command with --json NAME.json; its output goes to NAME.txt.
measure() {
  local name=$1
  shift
  echo "$name"
  timeout 300 "${wrapper[@]}" "$@" --json "$out/$name.json" >"$out/$name.txt" || failed+=("$name")
}

for dtype in f32 bf16 f16; do measure bench_step_$dtype "$bin/bench_step" --dtype $dtype; done
for name in simt gemm attention kernels loader tokenizer accumulation busy; do measure bench_$name "$bin/bench_$name"; done
for ladder in gemm reduce norm softmax layer_norm attention transpose; do measure ladder_$ladder "$bin/ladder" $ladder; done
if [ -x "$bin/bench_mpi" ]; then
  measure bench_overlap "${mpirun[@]}" -n 2 "$bin/bench_overlap"
  measure bench_pipeline "${mpirun[@]}" -n 2 "$bin/bench_pipeline"
  measure bench_pipeline_sleeps "${mpirun[@]}" -n 8 "$bin/bench_pipeline" --sleep-ms 20 --steps 3
  measure bench_mpi "${mpirun[@]}" -n 2 "$bin/bench_mpi"
  measure collectives "${mpirun[@]}" -n 2 "$bin/collectives" --operations all_reduce,ring_all_reduce --min-bytes 4194304 \
    --max-bytes 67108864 --iterations 5
fi
if "$python" -c 'import torch' 2>/dev/null; then
  for work in steps busy kernels gemm attention loader; do
    measure torch_$work "$python" "$root/benchmarks/compare_torch.py" $work --rounds 3 --bin "$bin"
  done
else
  echo "$python has no torch: nothing was compared with PyTorch"
fi
if [ ${#failed[@]} -gt 0 ]; then
  echo "error: failed: ${failed[*]}" >&2
  exit 1
fi
