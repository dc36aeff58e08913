#!/usr/bin/env bash
# Trains with apps/mnist and apps/gpt on ranks that divide the model between them, and compares with one rank.
#   tests/dist/parallel_app_test.sh BIN_DIR MPIRUN [ARGUMENTS OF MPIRUN...]
set -uo pipefail
bin=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
shift
mpirun=("$@")
# shellcheck source-path=SCRIPTDIR source=app_test.sh
. "$(dirname "$0")/app_test.sh"

# ---- tensor and sequence parallelism: the numbers of one rank -----------------------------------------------

"$root/tests/support/digits.sh" digits 2000 500
head -c 20000 "$root/text/tinyshakespeare/input.txt" >plays.txt
mnist=(mnist --device cpu --data digits --batch-size 96 --max-steps 20)
sgd=(--optimizer sgd --lr 0.05 --hidden "65,40,33")
gpt=(gpt train --device cpu --text plays.txt --layers 2 --heads 4 --width 32 --context 16 --batch-size 8 --steps-per-epoch 20 --epochs 1
  --eval-batch-size 256 --warmup 5 --sample-tokens 0)
# Reads lines: the program, a name, the number of ranks, how they divide the work, and flags that one rank gets too. Trains
# with these and expects the numbers of one rank, whose run is shared by the lines with its name. (Without --quiet a run takes
# longer, as it measures the machine's peak for the last line that it prints.)
expect_one_rank() {
  local program name number divide way arguments dividing
  while IFS='|' read -r program name number divide way; do
    read -ra arguments <<<"$way"
    read -ra dividing <<<"$divide --quiet"
    # Under ZeRO 3 only stages with tied weights have values in common in these runs.
    [[ $divide == *"--zero 3"* && "$program $divide" != "gpt "*--pipeline-parallel* ]] || dividing+=(--check-replicas)
    local -n common=$program
    if [ ! -e "$program-$name.jsonl" ]; then
      timeout 120 "$bin/$program" "${common[@]:1}" "${arguments[@]}" --quiet --metrics "$program-$name.jsonl" >out 2>err </dev/null
      expect "$program $way: one rank" [ $? -eq 0 ]
    fi
    run_ranks 0 "$number" "${common[@]}" "${arguments[@]}" "${dividing[@]}" --metrics found.jsonl
    expect "$program $way: $number ranks, $divide: the numbers of one rank" same 1e-4 found.jsonl "$program-$name.jsonl"
  done
}

expect_one_rank <<WAYS
mnist|plain|2|--tensor-parallel 2|${sgd[*]}
mnist|plain|3|--tensor-parallel 3|${sgd[*]}
mnist|plain|4|--tensor-parallel 2 --zero 2|${sgd[*]}
mnist|clip|4|--tensor-parallel 4|${sgd[*]} --clip-norm 0.1 --micro-batch 20 --recompute 1
mnist|lamb|4|--tensor-parallel 2 --zero 2|--optimizer lamb --lr 0.01 --hidden 65,40
gpt|plain|2|--tensor-parallel 2|
gpt|micro|4|--tensor-parallel 2 --zero 2|--micro-batch 2 --recompute 1
gpt|llama|2|--tensor-parallel 2|--architecture llama --kv-heads 2
gpt|dropout|2|--tensor-parallel 2|--dropout 0.2
gpt|dropout|2|--tensor-parallel 2 --sequence-parallel|--dropout 0.2
gpt|micro|4|--tensor-parallel 2 --zero 2 --sequence-parallel|--micro-batch 2 --recompute 1
WAYS

for flag in "--zero 1" "--compress bf16"; do
  # shellcheck disable=SC2086  # a flag and its value
  run_ranks 0 2 "${mnist[@]}" --tensor-parallel 2 $flag
  expect "$flag with one data rank: says that it has no effect" grep -q "^${flag% *} has no effect: there is one data rank" out
done

# ---- sequences divided over ranks ---------------------------------------------------------------------------

expect_one_rank <<WAYS
gpt|plain|2|--context-parallel 2|
gpt|plain|4|--context-parallel 4|
gpt|plain|4|--context-parallel 2 --zero 3|
gpt|dropout|2|--context-parallel 2|--dropout 0.2
gpt|dropout|4|--context-parallel 2 --tensor-parallel 2 --sequence-parallel|--dropout 0.2
gpt|llama|4|--context-parallel 2 --tensor-parallel 2|--architecture llama --kv-heads 2
gpt|drop-micro|4|--context-parallel 2 --pipeline-parallel 2|--dropout 0.2 --micro-batch 3
gpt|micro|4|--context-parallel 2 --zero 2|--micro-batch 2 --recompute 1
gpt|micro|4|--context-parallel 2 --pipeline-parallel 2 --zero 3|--micro-batch 2 --recompute 1
WAYS
run_ranks 0 4 "${gpt[@]}" --dropout 0.2 --context-parallel 2 --checkpoint contexts --checkpoint-every 10 --save whole.safetensors
rm contexts/*20*
run_ranks 0 4 "${gpt[@]}" --dropout 0.2 --context-parallel 2 --checkpoint contexts --resume --save resumed.safetensors
expect "--context-parallel 2 goes on half-way" grep -q '^resumed after step 10,' out
expect "--context-parallel 2 is resumed half-way with the same bits" cmp resumed.safetensors whole.safetensors
run_ranks 0 1 "${gpt[@]}" --dropout 0.2 --checkpoint contexts --resume --save resumed.safetensors
expect "one rank goes on at its end" grep -q '^resumed after step 20,' out
expect "one rank resumes at its end: the same bits" cmp resumed.safetensors whole.safetensors
brief=(gpt train --device cpu --layers 1 --heads 2 --width 16 --batch-size 4 --steps-per-epoch 2 --epochs 1 --warmup 0)
while IFS='|' read -r arguments text; do
  read -ra flags <<<"$arguments"
  run_ranks 1 2 "${brief[@]}" --context-parallel "${flags[@]}"
  expect "--context-parallel $arguments is refused" grep -q -- "$text" err
done <<REFUSED
3 --context 16|--context-parallel 3: expected a divisor of the 2 ranks, the nearest is 2
2 --context 18|sequences of 18 tokens have no 4 equal chunks, the nearest length that has is 20
2 --context 12 --dropout 0.1|dropout of attention needs 2 chunks of a multiple of 4 tokens on each rank, found a context of 12: the nearest is 16
2 --sample-every 1|--sample-every cannot be used with --context-parallel
2 --lora-rank 2|--lora-rank cannot be used with --context-parallel
REFUSED
run_ranks 1 2 mnist --device cpu --context-parallel 2
expect "--context-parallel of images is refused" grep -q "not sequences of tokens, expected a language model" err

# ---- stages of a pipeline -----------------------------------------------------------------------------------

expect_one_rank <<WAYS
mnist|plain|2|--pipeline-parallel 2|${sgd[*]}
mnist|clip|4|--pipeline-parallel 4 --pipeline-schedule afab|${sgd[*]} --clip-norm 0.1 --micro-batch 20 --recompute 1
mnist|clip|4|--pipeline-parallel 2 --pipeline-schedule interleaved --pipeline-chunks 2|${sgd[*]} --clip-norm 0.1 --micro-batch 20 --recompute 1
mnist|clip|4|--pipeline-parallel 2 --tensor-parallel 2|${sgd[*]} --clip-norm 0.1 --micro-batch 20 --recompute 1
mnist|lamb|4|--pipeline-parallel 2 --zero 1|--optimizer lamb --lr 0.01 --hidden 65,40
mnist|lamb|4|--pipeline-parallel 2 --zero 3|--optimizer lamb --lr 0.01 --hidden 65,40
mnist|clip|6|--pipeline-parallel 2 --zero 2|${sgd[*]} --clip-norm 0.1 --micro-batch 20 --recompute 1
gpt|micro|2|--pipeline-parallel 2|--micro-batch 2 --recompute 1
gpt|micro|4|--pipeline-parallel 2 --zero 1|--micro-batch 2 --recompute 1
gpt|micro|4|--pipeline-parallel 2 --zero 2 --pipeline-schedule interleaved --pipeline-chunks 2|--micro-batch 2 --recompute 1
gpt|micro|4|--pipeline-parallel 2 --zero 3 --pipeline-schedule afab|--micro-batch 2 --recompute 1
gpt|drop-micro|4|--pipeline-parallel 4|--dropout 0.2 --micro-batch 3
gpt|drop-micro|2|--pipeline-parallel 2 --pipeline-schedule interleaved --pipeline-chunks 2|--dropout 0.2 --micro-batch 3
gpt|drop-micro|4|--pipeline-parallel 2 --tensor-parallel 2 --sequence-parallel|--dropout 0.2 --micro-batch 3
gpt|micro|4|--pipeline-parallel 2 --tensor-parallel 2 --pipeline-schedule interleaved --pipeline-chunks 2|--micro-batch 2 --recompute 1
gpt|llama|4|--pipeline-parallel 2 --tensor-parallel 2|--architecture llama --kv-heads 2
gpt|bf16|2|--pipeline-parallel 2|--micro-batch 2 --dtype bf16 --architecture llama
WAYS
run_ranks 0 2 "${gpt[@]}" --micro-batch 1 --pipeline-parallel 2 --save 1f1b.safetensors
# Three data ranks and tied embeddings; both stages' ranks compare their bits after every step.
threes=(gpt train --device cpu --text plays.txt --layers 2 --heads 4 --width 32 --context 16 --batch-size 6 --steps-per-epoch 20 --epochs 1
  --eval-batch-size 256 --warmup 5 --sample-tokens 0 --micro-batch 1 --optimizer lamb --lr 0.01)
timeout 120 "$bin/gpt" "${threes[@]:1}" --metrics threes.jsonl >out 2>err </dev/null
for zero in 1 2; do
  run_ranks 0 6 "${threes[@]}" --pipeline-parallel 2 --zero $zero --check-replicas --metrics found.jsonl
  expect "6 ranks in two stages, --zero $zero: the numbers of one rank" same 1e-4 found.jsonl threes.jsonl
done
# An epoch's last update has one sample, so none for the second data rank.
awk 'BEGIN { print "a,b,y"; for (i = 0; i < 31; ++i) print sin(i) "," cos(3 * i) "," sin(i) * cos(3 * i) }' >table.csv
regression=(regression --device cpu --data table.csv --batch-size 12 --micro-batch 2 --hidden "8,8,8" --schedule constant --epochs 2)
timeout 120 "$bin/regression" "${regression[@]:1}" --metrics table.jsonl >out 2>err </dev/null
for way in "--zero 0" "--zero 1" "--zero 2" "--zero 1 --pipeline-schedule interleaved --pipeline-chunks 2"; do
  read -ra arguments <<<"$way"
  run_ranks 0 4 "${regression[@]}" --pipeline-parallel 2 "${arguments[@]}" --metrics found.jsonl
  expect "regression, 4 ranks in two stages, $way: the numbers of one rank" same 1e-4 found.jsonl table.jsonl
done
for schedule in "afab" "interleaved --pipeline-chunks 2"; do
  read -ra flags <<<"--pipeline-schedule $schedule"
  run_ranks 0 2 "${gpt[@]}" --micro-batch 1 --pipeline-parallel 2 "${flags[@]}" --save other.safetensors
  expect "--pipeline-schedule $schedule has the bits of 1f1b" cmp other.safetensors 1f1b.safetensors
done

# ---- ZeRO 1 in 16 bits: a step gathers the 16-bit copies, and readers of the f32 values gather these -------------

half=("${mnist[@]}" "${sgd[@]}" --dtype bf16)
run_ranks 0 2 "${half[@]}" --zero 1 --check-replicas
for zero in 0 1; do
  run_ranks 0 2 "${half[@]}" --zero $zero --record-values "values-$zero.jsonl"
done
"$bin/compare_runs" values-0.jsonl values-1.jsonl >out 2>err
expect "--record-values with --zero 1 --dtype bf16 has the values of --zero 0" [ $? -eq 0 ]

# ---- ZeRO 3: the bits of ZeRO 2 ---------------------------------------------------------------------------

# With two data ranks the order of sums is the same. Each line: the number of ranks, and flags.
while IFS='|' read -r number way; do
  read -ra arguments <<<"$way"
  # Two data ranks alone have no values in common under ZeRO 3.
  [ "$number" -eq 2 ] || arguments+=(--check-replicas)
  for stage in 2 3; do
    run_ranks 0 "$number" "${gpt[@]}" "${arguments[@]}" --quiet --zero $stage --save "zero-$stage.safetensors"
  done
  expect "gpt $way: $number ranks: --zero 3 has the bits of --zero 2" cmp zero-3.safetensors zero-2.safetensors
done <<WAYS
2|--dtype bf16 --recompute 1 --clip-norm 0.5 --micro-batch 2
2|--lora-rank 2
2|--freeze wte.*,h.0.*
4|--tensor-parallel 2
4|--tensor-parallel 2 --sequence-parallel --optimizer lamb --lr 0.01
4|--pipeline-parallel 2 --micro-batch 2 --clip-norm 0.5
4|--pipeline-parallel 2 --pipeline-schedule interleaved --pipeline-chunks 2 --micro-batch 1 --dtype bf16 --recompute 1
WAYS
run_ranks 0 2 "${gpt[@]}" --zero 3 --micro-batch 2 --save reshard.safetensors
run_ranks 0 2 "${gpt[@]}" --zero 3 --micro-batch 2 --no-reshard --memory-report --save kept.safetensors
expect "--no-reshard has the bits of --zero 3" cmp kept.safetensors reshard.safetensors
# Three units (two blocks and the rest), gathered once in each of two micro-batches.
expect "--no-reshard gathers once a micro-batch" grep -qE '^all_gather +6 ' out
for divide in --tensor-parallel --pipeline-parallel; do
  run_ranks 0 4 "${gpt[@]}" $divide 2 --zero 3 --checkpoint "sharded$divide" --checkpoint-every 10 --save undisturbed.safetensors
  rm "sharded$divide"/*20*
  run_ranks 0 4 "${gpt[@]}" $divide 2 --zero 3 --checkpoint "sharded$divide" --resume --save resumed.safetensors
  expect "--zero 3 with $divide goes on half-way" grep -q '^resumed after step 10,' out
  expect "--zero 3 with $divide is resumed with the same bits" cmp resumed.safetensors undisturbed.safetensors
done
# ---- files of one mesh, read on another ---------------------------------------------------------------------

short=("${mnist[@]}" "${sgd[@]}" --momentum 0.9)
run_ranks 0 2 "${short[@]}" --tensor-parallel 2 --checkpoint run --checkpoint-every 10 --save two.safetensors
for number in 1 2 4; do
  tensor=$((number < 2 ? 1 : 2))
  run_ranks 0 "$number" "${short[@]}" --tensor-parallel "$tensor" --zero "$((number / tensor - 1))" --checkpoint run --resume --save again.safetensors
  expect "$number ranks go on at the end of two" grep -q '^resumed after step 20,' out
  expect "$number ranks resume at the end of two: the same bits" cmp again.safetensors two.safetensors
  run_ranks 0 "$number" "${mnist[@]}" --optimizer sgd --lr 0 --hidden "65,40,33" --tensor-parallel "$tensor" --load two.safetensors --save loaded.safetensors
  expect "$number ranks load the weights of two: the same bits" cmp loaded.safetensors two.safetensors
done
rm run/*20*
for number in 1 4; do
  tensor=$((number < 4 ? 1 : 2))
  cp -r run "run-$number"
  run_ranks 0 "$number" "${short[@]}" --tensor-parallel "$tensor" --zero "$((number / tensor - 1))" --checkpoint "run-$number" --resume --metrics resumed.jsonl
  expect "$number ranks go on half-way" grep -q '^resumed after step 10,' out
  run_ranks 0 2 "${short[@]}" --tensor-parallel 2 --metrics whole.jsonl
  expect "$number ranks resume half-way: the numbers of two" same 1e-4 <(tail -n 11 resumed.jsonl) <(tail -n 11 whole.jsonl)
done
staged=("${gpt[@]}" --micro-batch 2 --quiet)
run_ranks 0 2 "${staged[@]}" --pipeline-parallel 2 --checkpoint stages --checkpoint-every 10 --save staged.safetensors
while read -ra way; do
  rm -f end.jsonl
  run_ranks 0 "${way[0]}" "${staged[@]}" "${way[@]:1}" --checkpoint stages --resume --save again.safetensors --metrics end.jsonl
  expect "${way[*]}: goes on at the end of two stages" grep -q '^{"event":"done",' <(head -n 1 end.jsonl)
  expect "${way[*]}: resumes at the end of two stages: the same bits" cmp again.safetensors staged.safetensors
  run_ranks 0 "${way[0]}" "${staged[@]}" "${way[@]:1}" --lr 0 --load staged.safetensors --save loaded.safetensors
  expect "${way[*]}: loads the weights of two stages: the same bits" cmp loaded.safetensors staged.safetensors
done <<WAYS
1
2 --zero 2
3 --pipeline-parallel 3
4 --pipeline-parallel 2 --zero 1
4 --pipeline-parallel 2 --zero 3
4 --pipeline-parallel 2 --tensor-parallel 2
WAYS
rm stages/*20*
run_ranks 0 2 "${staged[@]}" --pipeline-parallel 2 --pipeline-schedule interleaved --pipeline-chunks 2 --checkpoint stages --resume --save again.safetensors --metrics half.jsonl
expect "other chunks go on half-way" grep -q '^{"step":11,' <(head -n 1 half.jsonl)
expect "other chunks resume half-way: the same bits" cmp again.safetensors staged.safetensors
run_ranks 0 2 "${gpt[@]}" --tensor-parallel 2 --save-model shakespeare
timeout 120 "$bin/gpt" evaluate --device cpu --model shakespeare --text plays.txt >evaluated 2>err
expect "one rank reads the GPT that two have written" [ $? -eq 0 ]
run_ranks 0 2 gpt train --device cpu --text plays.txt --batch-size 8 --warmup 0 --model shakespeare --tensor-parallel 2 --steps-per-epoch 1 --epochs 1 --lr 0 --save-model again --sample-tokens 0
expect "two ranks read it, and write the same bits" cmp shakespeare/model.safetensors again/model.safetensors

run_ranks 0 2 gpt train --device cpu --text plays.txt --batch-size 8 --warmup 0 --model shakespeare --zero 3 --steps-per-epoch 1 --epochs 1 --lr 0 --save-model again --sample-tokens 0
expect "so do two that shard it" cmp shakespeare/model.safetensors again/model.safetensors
run_ranks 0 2 gpt train --device cpu --text plays.txt --batch-size 8 --warmup 0 --model shakespeare --zero 3 --lora-rank 2 --steps-per-epoch 1 --epochs 1 --lr 0 --save-model again --sample-tokens 0
expect "and two that add LoRA's factors, of which B is 0" cmp shakespeare/model.safetensors again/model.safetensors

# ---- what is sent, by dimension of the mesh ---------------------------------------------------------------------

run_ranks 0 4 "${gpt[@]}" --tensor-parallel 2 --memory-report --timeline trace.json --profile-steps 2:3 --compress bf16
for rank in 0 3; do
  for row in "communication, tensor" "communication, data"; do
    expect "rank $rank has a row for $row" grep -q "\"thread_name\",.*\"pid\":$rank,.*\"name\":\"$row\"" trace.json
  done
done
row_of() { sed -nE "s/.*\"thread_name\".*\"pid\":0,\"tid\":([0-9]+).*\"name\":\"communication, $1\".*/\1/p" trace.json; }
expect "the sums of layers are in the row of the tensor dimension, 9 and more in each of 2 updates" \
  [ "$(grep -c "\"all_reduce #.*\"pid\":0,\"tid\":$(row_of tensor)," trace.json)" -ge 18 ]
expect "the sums of gradients, losses and flags are in that of the data dimension" \
  [ "$(grep -c "\"all_reduce #.*\"pid\":0,\"tid\":$(row_of data)," trace.json)" -eq 6 ]
expect "a table for the data dimension" grep -q '^traffic, data ' out
expect "a table for the tensor dimension" grep -q '^traffic, tensor ' out
run_ranks 0 4 "${gpt[@]}" --tensor-parallel 2 --pipeline-parallel 2 --micro-batch 4 --timeline stages.json --profile-steps 2:3
for row in "communication, tensor" "communication, pipeline"; do
  expect "each rank has a row for $row" [ "$(grep -c "\"thread_name\",.*\"name\":\"$row\"" stages.json)" -eq 4 ]
done

# ---- the formulas and the counts of a run --------------------------------------------------------------------

for way in "--tensor-parallel 2" "--tensor-parallel 2 --sequence-parallel" "--context-parallel 2" "--pipeline-parallel 2 --micro-batch 4"; do
  # shellcheck disable=SC2086  # several flags
  run_ranks 0 2 "${gpt[@]}" $way --memory-report
  for row in parameters gradients "optimizer state"; do
    expect "$way: the $row of --memory-report, counted and by formula" grep -qE "^$row +([0-9.]+) +\\1 +\\1$" out
  done
done
vocabulary=$(($(grep -o . plays.txt | sort -u | wc -l) + 1)) # and the line feed
while IFS='|' read -r number way; do
  read -ra flags <<<"$way"
  run_ranks 0 "$number" "${gpt[@]}" "${flags[@]}" --clip-norm 0 --memory-report
  timeout 120 "$bin/plan" parallel --layers 2 --heads 4 --width 32 --context 16 --vocabulary $vocabulary --batch-size 8 --dtype f32 \
    --ranks "$number" "${flags[@]}" >planned 2>err
  expect "$way: planned" [ $? -eq 0 ]
  for file in out planned; do sed -n '/^traffic,/,/^total/p' $file >$file.traffic; done
  expect "$way: tables of traffic" [ "$(grep -c '^traffic,' planned.traffic)" -eq 2 ]
  expect "$way: the planned calls and bytes are those of the run" cmp planned.traffic out.traffic
  expect "$way: its parameters too" grep -q "^$(grep -oE '[0-9]+ parameters' out);" <(tr -d , <planned)
done <<WAYS
4|--tensor-parallel 2 --context-parallel 1 --pipeline-parallel 1 --zero 2 --micro-batch 2 --sequence-parallel --recompute 1
4|--tensor-parallel 1 --context-parallel 2 --pipeline-parallel 1 --zero 3 --micro-batch 2 --no-reshard --recompute 0 --architecture llama --kv-heads 2 --ffn-hidden-size 52
WAYS

# ---- what does not fit --------------------------------------------------------------------------------------

# refused NUMBER TEXT PROGRAM ARGUMENTS...: ends with 1 and prints TEXT in one line.
refused() {
  local text=$2
  run_ranks 1 "$1" "${@:3}"
  expect "'$text' in one line" [ "$(grep -cF -- "$text" err)" -eq 1 ]
}
refused 4 "--tensor-parallel 3: expected a divisor of the 4 ranks, the nearest is 2" "${mnist[@]}" --tensor-parallel 3
refused 3 "--tensor-parallel 3: does not divide 4 heads, the nearest that divides both them and the ranks is 1" "${gpt[@]}" --tensor-parallel 3
refused 4 "--tensor-parallel 4: a layer of 3 outputs cannot be divided, expected at most 3, the nearest that divides the ranks is 2" \
  "${mnist[@]}" --hidden 3,3,3 --tensor-parallel 4
refused 2 "--tensor-parallel 2: a layer of 1 output cannot be divided, expected at most 1, the nearest that divides the ranks is 1" "${mnist[@]}" --hidden 1 --tensor-parallel 2
refused 2 "--pipeline-chunks 9: the model has 4 units for 18 parts, expected no more parts than units, the nearest is --pipeline-chunks 2" "${gpt[@]}" --pipeline-parallel 2 --pipeline-schedule interleaved --pipeline-chunks 9
refused 3 "--batch-size 8: expected a multiple of the 3 ranks, the nearest is 9" "${gpt[@]}"
refused 4 "--batch-size 7: expected a multiple of the 4 ranks, the nearest is 8" gpt train --device cpu --batch-size 7
refused 4 "--batch-size 9: expected a multiple of the 2 ranks that divide it, the nearest is 10" gpt train --device cpu --batch-size 9 --tensor-parallel 2
refused 2 "--micro-batch 9 is larger than the 8 samples of a batch that the run computes: expected at most that number" "${gpt[@]}" --tensor-parallel 2 --micro-batch 9
refused 2 "--tensor-parallel 2: does not divide 1 heads of keys and values, the nearest that divides both them and the ranks is 1" "${gpt[@]}" --architecture llama --kv-heads 1 --tensor-parallel 2
refused 2 "--pipeline-parallel 2: expected a divisor of the 1 rank left, the nearest is 1" "${gpt[@]}" --tensor-parallel 2 --pipeline-parallel 2
refused 2 "run/step-000000000010.json: was made by another training: --hidden was 65,40,33, found 65,40" "${mnist[@]}" --optimizer sgd --lr 0.05 --momentum 0.9 --hidden 65,40 --pipeline-parallel 2 --checkpoint run --resume
refused 2 "/dev/null/x: cannot make the folder" "${gpt[@]}" --save-model /dev/null/x
refused 2 "--zero 3 has no memory for all gradients until backward ends, as --no-overlap requires: expected at most --zero 1 with it" "${mnist[@]}" --zero 3 --no-overlap
# A checkpoint right after a step without per-element state, while the weights are still being gathered.
run_ranks 0 4 mnist --device cpu --data digits --batch-size 96 --max-steps 2 --pipeline-parallel 2 --zero 1 --optimizer sgd --momentum 0 \
  --checkpoint early --checkpoint-every 1 --slow-link 100000,250 --comm-timeout 20
# Ranks with different flags: one line that names both values.
while IFS='|' read -r first second text; do
  read -ra of_first <<<"$first"
  read -ra of_second <<<"$second"
  timeout 120 "${mpirun[@]}" -n 1 "$bin/mnist" "${mnist[@]:1}" "${of_first[@]}" : -n 1 "$bin/mnist" "${mnist[@]:1}" "${of_second[@]}" >out 2>err </dev/null
  expect "$first on one rank, $second on the other: an error" [ $? -eq 1 ]
  expect "'$text' in one line" [ "$(grep -cF -- "$text" err)" -eq 1 ]
done <<FLAGS
--tensor-parallel 2|--pipeline-parallel 2|differ: --tensor-parallel 2 on rank 0, but --tensor-parallel 1 on rank 1
--pipeline-parallel 2 --micro-batch 16|--pipeline-parallel 2 --micro-batch 24|differ: --micro-batch 16 on rank 0, but --micro-batch 24 on rank 1
--pipeline-parallel 2|--pipeline-parallel 2 --pipeline-schedule afab|differ: --pipeline-schedule 1f1b on rank 0, but --pipeline-schedule afab on rank 1
--zero 3|--zero 3 --no-reshard|differ: --no-reshard false on rank 0, but --no-reshard true on rank 1
--compress bf16|--compress f16|differ: --compress bf16 on rank 0, but --compress f16 on rank 1
--slow-link 100,250|--slow-link 100,500|differ: --slow-link 100,250 on rank 0, but --slow-link 100,500 on rank 1
|--show-mesh|differ: --show-mesh false on rank 0, but --show-mesh true on rank 1
--pipeline-parallel 2 --show-pipeline|--pipeline-parallel 2|differ: --show-pipeline true on rank 0, but --show-pipeline false on rank 1
|--print-schedule|differ: --print-schedule false on rank 0, but --print-schedule true on rank 1
--context-parallel 2 --recompute 1|--context-parallel 2|differ: --recompute 1 on rank 0, but --recompute 0 on rank 1
FLAGS
refused 4 "--check-replicas: with --zero 3 no two of these ranks have the same values, expected --tensor-parallel, or --pipeline-parallel of a model with tied weights" \
  "${mnist[@]}" --pipeline-parallel 2 --zero 3 --check-replicas
refused 2 "--sample-every cannot be used with --zero 3" gpt train --device cpu --sample-every 5 --zero 3
refused 4 "--compress f16 cannot be used with --tensor-parallel without --sequence-parallel" "${gpt[@]}" --tensor-parallel 2 --compress f16
refused 2 "--sequence-parallel: samples of features [28, 28] with targets [] are not sequences of tokens, expected a language model" \
  "${mnist[@]}" --tensor-parallel 2 --sequence-parallel --show-mesh
refused 2 "--context-parallel 2: dropout of attention needs 2 chunks of a multiple of 4 tokens on each rank, found a context of 12: the nearest is 16" \
  gpt train --device cpu --context 12 --dropout 0.1 --context-parallel 2 --show-mesh
refused 2 "--lora-rank cannot be used with --tensor-parallel" "${gpt[@]}" --tensor-parallel 2 --lora-rank 2
refused 3 "--pipeline-parallel 2: expected a divisor of the 3 ranks, the nearest is 1" "${gpt[@]}" --pipeline-parallel 2
refused 4 "--pipeline-parallel 4: the model has 3 units for 4 parts, expected no more parts than units, the nearest is --pipeline-parallel 2" "${mnist[@]}" --hidden 20,20 --pipeline-parallel 4
refused 2 "--pipeline-schedule interleaved: expected --pipeline-chunks of at least 2, the nearest is 2" "${gpt[@]}" --pipeline-parallel 2 --pipeline-schedule interleaved
refused 4 "--zero 2: expected the same number of forwards on every rank, but the 1 samples of an epoch's last update are fewer than the 2 ranks" \
  "${regression[@]}" --pipeline-parallel 2 --zero 2 --pipeline-schedule interleaved --pipeline-chunks 2
refused 2 "--lora-rank cannot be used with --pipeline-parallel" "${gpt[@]}" --pipeline-parallel 2 --lora-rank 2
refused 2 "--sample-every cannot be used with --pipeline-parallel" gpt train --device cpu --sample-every 5 --pipeline-parallel 2
refused 2 "two.safetensors: tensor '6.weight' is f32[10, 33], expected f32[20, 33]" "${mnist[@]}" --hidden 65,40,33,20 --pipeline-parallel 2 --load two.safetensors
for flags in "--pipeline-schedule afab" "--pipeline-parallel 2 --pipeline-chunks 2" "--pipeline-parallel 2 --freeze wte.*" \
  "--pipeline-parallel 2 --micro-batch 2 --sync-each-micro-batch" "--show-pipeline" "--pipeline-parallel 0"; do
  read -ra given <<<"$flags"
  run_ranks 2 2 "${gpt[@]}" "${given[@]}"
  expect "$flags is refused in one line" [ "$(grep -c '^error: ' err)" -eq 1 ]
done
timeout 60 "$bin/mnist" --show-pipeline --pipeline-parallel 2 --batch-size 64 --micro-batch 16 >out 2>err
expect "--show-pipeline draws the schedule" grep -qF 'stage 1      f0 b0--- f1 b1--- f2 b2--- f3 b3---' out
run_ranks 2 2 "${mnist[@]}" --zero 1 --compress bf16
expect "--compress with ZeRO: names the stage" grep -qF -- "--compress cannot be used with --zero: found --compress bf16 and --zero 1, expected one of them" err
run_ranks 2 2 "${gpt[@]}" --tensor-parallel 2 --freeze "wte.*"
expect "--freeze is refused" grep -q -- '--tensor-parallel cannot be used with --freeze' err
# A mesh or schedule that training refuses is not drawn.
# shellcheck disable=SC2034  # named in the lines below
small=(gpt train --device cpu --text plays.txt --heads 4 --width 32 --context 16 --steps-per-epoch 20 --epochs 1)
while IFS='|' read -r number program arguments text; do
  read -ra flags <<<"$arguments"
  declare -n drawing=$program
  if [ "$number" -eq 1 ]; then
    timeout 60 "$bin/${drawing[0]}" "${drawing[@]:1}" "${flags[@]}" >out 2>err </dev/null
    expect "$program $arguments: ends with 1" [ $? -eq 1 ]
  else
    run_ranks 1 "$number" "${drawing[@]}" "${flags[@]}"
  fi
  expect "'$text' in one line" [ "$(grep -cF -- "$text" err)" -eq 1 ]
  expect "and nothing is drawn" [ ! -s out ]
done <<REFUSED
3|small|--show-mesh --tensor-parallel 3 --batch-size 9|--tensor-parallel 3: does not divide 4 heads
4|small|--show-mesh --pipeline-parallel 4 --layers 1 --batch-size 8|the model has 3 units for 4 parts
2|mnist|--show-mesh --context-parallel 2|not sequences of tokens, expected a language model
4|small|--show-pipeline --pipeline-parallel 2 --batch-size 15|--batch-size 15: expected a multiple of the 2 ranks that divide it, the nearest is 16
1|mnist|--show-pipeline --pipeline-parallel 9 --hidden 64,64,64|the model has 4 units for 9 parts
1|small|--show-pipeline --pipeline-parallel 2 --pipeline-schedule interleaved --pipeline-chunks 40 --layers 2|the model has 4 units for 80 parts
1|small|--show-pipeline --pipeline-parallel 2 --pipeline-schedule interleaved|expected --pipeline-chunks of at least 2
1|small|--show-pipeline --pipeline-parallel 2 --batch-size 8 --micro-batch 9|--micro-batch 9 is larger than the 8 samples of a batch
REFUSED
run_ranks 2 2 "${gpt[@]}" --pipeline-parallel 2 --show-mesh --show-pipeline
expect "--show-mesh and --show-pipeline exclude each other" grep -q 'cannot be used with' err
run_ranks 0 4 "${gpt[@]}" --pipeline-parallel 2 --show-pipeline --micro-batch 2
expect "--show-pipeline draws a data rank's two micro-batches, once" [ "$(grep -cF 'stage 1      f0 b0--- f1 b1---' out)" -eq 1 ]
run_ranks 0 8 mnist --show-mesh --tensor-parallel 4
expect "--show-mesh draws the mesh once" grep -q '^8 ranks: 1 pipeline x 2 data x 1 context x 4 tensor$' out
expect "--show-mesh has the last rank in its place" grep -qE '^data 1 +4 +5 +6 +7 *$' out

summary
