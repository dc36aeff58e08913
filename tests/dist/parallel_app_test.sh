#!/usr/bin/env bash
# Trains with apps/mnist and apps/gpt on ranks that divide the model between them, and compares with one rank.
#   tests/dist/parallel_app_test.sh BIN_DIR MPIRUN [ARGUMENTS OF MPIRUN...]
set -uo pipefail
bin=$(realpath "$1")
shift
mpirun=("$@")
# shellcheck source-path=SCRIPTDIR source=app_test.sh
. "$(dirname "$0")/app_test.sh"

# ranks STATUS NUMBER PROGRAM ARGUMENTS...: output to out and err; it must end with this status.
ranks() {
  local status=$1 number=$2
  shift 2
  timeout 120 "${mpirun[@]}" -n "$number" "$bin/$1" "${@:2}" >out 2>err </dev/null
  expect "$number ranks: $*: ends with $status" [ $? -eq "$status" ]
}

# same FILE OTHER: two metrics files with the same steps, whose losses and norms differ by 1e-4 of their value at most.
same() {
  paste -d '|' <(tr -d '{}"' <"$1") <(tr -d '{}"' <"$2") | awk -F '|' '
    function far(a, b) { return (a > b ? a - b : b - a) > 1e-4 * (b > 0 ? b : -b) }
    {
      split("", found); split("", expected)
      n = split($1, items, ","); for (i = 1; i <= n; ++i) { split(items[i], pair, ":"); found[pair[1]] = pair[2] }
      n = split($2, items, ","); for (i = 1; i <= n; ++i) { split(items[i], pair, ":"); expected[pair[1]] = pair[2] }
      if (found["step"] != expected["step"]) bad = 1
      if (far(found["loss"], expected["loss"]) || far(found["test_loss"], expected["test_loss"])) bad = 1
      if (far(found["grad_norm"], expected["grad_norm"])) bad = 1
    }
    END { exit bad || NR < 3 }'
}

# ---- the numbers of one rank --------------------------------------------------------------------------------

mnist=(mnist --device cpu --batch-size 96 --max-steps 20)
sgd=(--optimizer sgd --lr 0.05 --hidden "65,40,33")
gpt=(gpt train --device cpu --layers 2 --heads 4 --width 32 --context 16 --batch-size 8 --steps-per-epoch 20 --epochs 1
  --eval-batch-size 256 --warmup 5 --samples 0)
# Ways to train: the program, a name, the ranks, the ranks for a model, and flags that one rank has too;
# +sequence: with sequence parallelism.
while IFS='|' read -r program name number tensor way; do
  read -ra arguments <<<"${way/+sequence/}"
  divide=(--tensor-parallel "$tensor" --check-replicas)
  [[ $way == *+sequence ]] && divide+=(--sequence-parallel)
  declare -n common=$program
  if [ ! -e "$program-$name.jsonl" ]; then
    timeout 120 "$bin/$program" "${common[@]:1}" "${arguments[@]}" --metrics "$program-$name.jsonl" >out 2>err </dev/null
    expect "$program $way: one rank" [ $? -eq 0 ]
  fi
  zero=0
  [ "$number" -gt "$tensor" ] && zero=$((number / tensor))
  ranks 0 "$number" "${common[@]}" "${arguments[@]}" "${divide[@]}" --zero "$zero" --metrics found.jsonl
  expect "$program $way: $number ranks, $tensor for a model: the numbers of one rank" same found.jsonl "$program-$name.jsonl"
done <<WAYS
mnist|plain|2|2|${sgd[*]}
mnist|plain|3|3|${sgd[*]}
mnist|plain|4|2|${sgd[*]}
mnist|clip|4|4|${sgd[*]} --clip-norm 0.1 --micro-batch 20 --recompute 1
mnist|lamb|4|2|--optimizer lamb --lr 0.01 --hidden 65,40
gpt|plain|2|2|
gpt|micro|4|2|--micro-batch 2 --recompute 1
gpt|llama|2|2|--architecture llama --kv-heads 2
gpt|dropout|2|2|--dropout 0.2
gpt|dropout|2|2|--dropout 0.2 +sequence
gpt|micro|4|2|--micro-batch 2 --recompute 1 +sequence
WAYS

# ---- files of any mesh for any other ------------------------------------------------------------------------

short=("${mnist[@]}" "${sgd[@]}" --momentum 0.9)
ranks 0 2 "${short[@]}" --tensor-parallel 2 --checkpoint run --checkpoint-every 10 --save two.safetensors
for number in 1 2 4; do
  tensor=$((number < 2 ? 1 : 2))
  ranks 0 "$number" "${short[@]}" --tensor-parallel "$tensor" --zero "$((number / tensor - 1))" --checkpoint run --resume --save again.safetensors
  expect "$number ranks resume at the end of two: the same bits" cmp again.safetensors two.safetensors
  ranks 0 "$number" "${mnist[@]}" --optimizer sgd --lr 0 --hidden "65,40,33" --tensor-parallel "$tensor" --load two.safetensors --save loaded.safetensors
  expect "$number ranks load the weights of two: the same bits" cmp loaded.safetensors two.safetensors
done
rm run/*20*
for number in 1 4; do
  tensor=$((number < 4 ? 1 : 2))
  cp -r run "run-$number"
  ranks 0 "$number" "${short[@]}" --tensor-parallel "$tensor" --zero "$((number / tensor - 1))" --checkpoint "run-$number" --resume --metrics resumed.jsonl
  ranks 0 2 "${short[@]}" --tensor-parallel 2 --metrics whole.jsonl
  expect "$number ranks resume half-way: the numbers of two" same <(tail -n 11 resumed.jsonl) <(tail -n 11 whole.jsonl)
done
ranks 0 2 "${gpt[@]}" --tensor-parallel 2 --save-model shakespeare
timeout 120 "$bin/gpt" evaluate --device cpu --model shakespeare >evaluated 2>err
expect "one rank reads the GPT that two have written" [ $? -eq 0 ]
ranks 0 2 gpt train --device cpu --batch-size 8 --warmup 0 --from shakespeare --tensor-parallel 2 --steps-per-epoch 1 --epochs 1 --lr 0 --save-model again --samples 0
expect "two ranks read it, and write the same bits" cmp shakespeare/model.safetensors again/model.safetensors

# ---- what does not fit --------------------------------------------------------------------------------------

# refused NUMBER TEXT PROGRAM ARGUMENTS...: ends with 1 and one line that has TEXT.
refused() {
  local text=$2
  ranks 1 "$1" "${@:3}"
  expect "'$text' in one line" [ "$(grep -cF -- "$text" err)" -eq 1 ]
}
refused 4 "--tensor-parallel 3: expected a divisor of the 4 ranks, the nearest is 2" "${mnist[@]}" --tensor-parallel 3
refused 3 "--tensor-parallel 3: does not divide 4 heads, the nearest that does is 2" "${gpt[@]}" --tensor-parallel 3
refused 2 "--tensor-parallel 2: a layer of 1 output cannot be divided" "${mnist[@]}" --hidden 1 --tensor-parallel 2
refused 2 "--sequence-parallel: gather_tokens: expected tokens [B, T, C], found f32[96, 784]" "${mnist[@]}" --tensor-parallel 2 --sequence-parallel
refused 2 "--lora-rank cannot be used with --tensor-parallel" "${gpt[@]}" --tensor-parallel 2 --lora-rank 2
ranks 2 2 "${gpt[@]}" --tensor-parallel 2 --freeze "wte.*"
expect "--freeze is refused" grep -q -- '--tensor-parallel cannot be used with --freeze' err
ranks 0 8 mnist --show-mesh --tensor-parallel 4
expect "--show-mesh draws the mesh once" grep -q '^8 ranks: 1 pipeline x 2 data x 1 context x 4 tensor$' out
expect "--show-mesh has the last rank in its place" grep -qE '^data 1 +4 +5 +6 +7 *$' out

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
