#!/usr/bin/env bash
# Trains with apps/mnist and apps/regression on several ranks as a user would, and compares with one rank.
#   tests/dist/training_app_test.sh BIN_DIR MPIRUN [ARGUMENTS OF MPIRUN...]
set -uo pipefail
bin=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
shift
mpirun=("$@")
# shellcheck source-path=SCRIPTDIR source=app_test.sh
. "$(dirname "$0")/app_test.sh"

# ranks STATUS NUMBER PROGRAM ARGUMENTS...: run_ranks on the CPU.
ranks() { run_ranks "$1" "$2" "$3" --device cpu "${@:4}"; }

# ---- the same run with 1 to 4 ranks -------------------------------------------------------------------------

"$root/tests/support/digits.sh" digits 2000 500
flags=(--data digits --optimizer sgd --lr 0.05 --hidden 64 --batch-size 96 --max-steps 10)
timeout 120 "$bin/mnist" --device cpu "${flags[@]}" --metrics one.jsonl >out 2>err
expect "one process" [ "$(wc -l <one.jsonl)" -eq 11 ]
for number in 1 2 3 4; do
  ranks 0 "$number" mnist "${flags[@]}" --metrics "$number.jsonl" --save "$number.safetensors"
  expect "$number ranks: the numbers of one process" same 1e-5 "$number.jsonl" one.jsonl
  expect "$number ranks: no progress line, which only a terminal gets" [ "$(grep -c '[[:cntrl:]]' out)" -eq 0 ]
  expect "$number ranks: one of them reports" [ "$(grep -c 'test accuracy .* after 10 steps' out)" -eq 1 ]
done
ranks 0 3 mnist "${flags[@]}" --save again.safetensors
expect "three ranks give the same bits again" cmp again.safetensors 3.safetensors
for way in "--micro-batch 7" "--micro-batch 24 --sync-each-micro-batch" "--slow-link 100,1000" "--no-overlap" "--bucket-mib 0.001" "--clip-norm 0.1" "--optimizer lamb --lr 0.01" \
  "--dtype bf16 --micro-batch 16"; do
  read -ra arguments <<<"$way"
  timeout 120 "$bin/mnist" --device cpu "${flags[@]:6}" "${arguments[@]}" --metrics one.jsonl >out 2>err
  ranks 0 2 mnist "${flags[@]:6}" "${arguments[@]}" --metrics two.jsonl
  # bf16 rounds activations, whose sums do not depend on the division into micro-batches.
  expect "$way: the numbers of one process" same 1e-5 two.jsonl one.jsonl
done

# ---- batches without samples for some ranks ------------------------------------------------------------------

awk 'BEGIN { print "a,b,y"; for (i = 0; i < 31; ++i) print sin(i) "," cos(3 * i) "," sin(i) * cos(3 * i) }' >table.csv
flags=(--data table.csv --optimizer adamw --batch-size 12 --hidden 8 --schedule constant)
timeout 120 "$bin/regression" --device cpu "${flags[@]}" --epochs 3 --metrics one.jsonl >out 2>err
expect "25 samples: two batches of 12 and one of 1" grep -q ' 25 training' out
for number in 2 3 4; do
  ranks 0 "$number" regression "${flags[@]}" --epochs 3 --metrics "$number.jsonl"
  expect "$number ranks: the numbers of one process" same 1e-5 "$number.jsonl" one.jsonl
done

# One of two ranks has no test sample.
head -n 10 table.csv >nine.csv
few=(--optimizer adamw --hidden 8 --schedule constant --batch-size 4 --epochs 2)
timeout 120 "$bin/regression" --device cpu "${few[@]}" --data nine.csv --metrics few.jsonl >out 2>err
expect "9 rows: one test sample" grep -q '8 training and 1 test' out
ranks 0 2 regression "${few[@]}" --data nine.csv --metrics 2.jsonl
expect "2 ranks, 1 test sample: the numbers of one process" same 1e-5 2.jsonl few.jsonl
head -n 6 table.csv >five.csv
ranks 1 5 regression --data five.csv --batch-size 5
expect "fewer samples than ranks is an error" grep -q '4 training samples in an epoch, expected at least one for each of the 5 ranks' err

# Gradients are reduced after each micro-batch, and one rank may have one micro-batch more than another: 2 ranks have 2 and 1 of the
# last 3 samples, 3 ranks 2, 1 and 1 of the last 4.
for samples in 27 28; do
  awk -v rows=$((samples + 6)) \
    'BEGIN { print "a,b,y"; for (i = 0; i < rows; ++i) print sin(i) "," cos(3 * i) "," sin(i) * cos(3 * i) }' >uneven.csv
  uneven=("${flags[@]:2}" --data uneven.csv --epochs 2 --micro-batch 1 --sync-each-micro-batch)
  timeout 120 "$bin/regression" --device cpu "${uneven[@]}" --metrics uneven.jsonl >out 2>err
  expect "$samples samples" grep -q " $samples training" out
  for number in 2 3 4; do
    ranks 0 "$number" regression "${uneven[@]}" --metrics "$number.jsonl"
    expect "$number ranks, $samples samples, each reduced: the numbers of one process" same 1e-5 "$number.jsonl" uneven.jsonl
  done
done

# ---- resuming with any number of ranks -----------------------------------------------------------------

ranks 0 2 regression "${flags[@]}" --epochs 2 --checkpoint folder --checkpoint-every 2
ranks 0 3 regression "${flags[@]}" --epochs 3 --checkpoint folder --resume --metrics resumed.jsonl
expect "resumed on three ranks" grep -q '^resumed after step 6' out
expect "resumed on three ranks: the last steps of one process" same 1e-5 resumed.jsonl <(tail -n +7 one.jsonl)

# ---- a timeline -------------------------------------------------------------------------------------------------

# On such a slow link the buckets are still in flight when backward ends. 3 of 5 updates are recorded.
flags=(--data digits --optimizer sgd --hidden 64 --batch-size 96 --micro-batch 24 --bucket-mib 0.002 --slow-link "1000,10")
ranks 0 2 mnist "${flags[@]}" --timeline trace.json --max-steps 5 --profile-steps 2:4
expect "a row for each rank" [ "$(grep -cE '^ +[01]( +[0-9.]+){5} +[0-9.]+%$' out)" -eq 2 ]
expect "the number of updates" grep -q '^timeline of 3 updates written to trace.json' out
events() { grep -c "$1" trace.json; }
# after_launch: operations of backward that begin after a bucket of the same step was launched, on all ranks.
after_launch() {
  sed -nE 's/^\{"name":"(step|launch bucket|[a-z_]+ backward)\b.*"pid":([0-9]+),.*"ts":([-+0-9.e]+),.*/\2 \3 \1/p' trace.json |
    sort -k1,1n -k2,2g | awk '/step/ { launched = 0 } /bucket/ { launched = 1 } /backward/ { n += launched } END { print n + 0 }'
}
expect "two processes" [ "$(events '"process_name".*"name":"rank [01]"')" -eq 2 ]
for rank in 0 1; do
  expect "rank $rank: 2 micro-batches in 3 updates" [ "$(events "\"backward\".*\"pid\":$rank")" -eq 6 ]
  expect "rank $rank: every layer" [ "$(events "\"linear\(_relu\)*\",.*\"pid\":$rank")" -eq 12 ]
  expect "rank $rank: 2 buckets a window" [ "$(events "\"launch bucket\".*\"pid\":$rank")" -eq 6 ]
  expect "rank $rank: the buckets in flight" \
    [ "$(events "\"all_reduce #[0-9]*\".*\"pid\":$rank.*\"bytes\":200960")" -eq 3 ]
done
# After the last layer's bucket comes the backward of the first, with its ReLU: in 3 updates of 2 ranks.
expect "buckets are launched while backward goes on" [ "$(after_launch)" -eq 6 ]
ranks 0 2 mnist "${flags[@]}" --timeline trace.json --max-steps 5 --profile-steps 2:4 --sync-each-micro-batch
expect "reduced after each micro-batch: twice as many" [ "$(events '"launch bucket".*"pid":1')" -eq 12 ]
ranks 0 2 mnist "${flags[@]}" --timeline trace.json --max-steps 5 --no-overlap
expect "4 updates after the first" grep -q '^timeline of 4 updates' out
expect "and after it without overlap" [ "$(after_launch)" -eq 0 ]
ranks 1 2 mnist "${flags[@]}" --timeline trace.json --max-steps 1
expect "no second update" grep -q '^error: --timeline: records from the second update on, but the run has 1' err
ranks 1 2 mnist "${flags[@]}" --timeline same.json --save same.json
expect "one file for two" grep -q "^error: --save and --timeline both name 'same.json'" err
ranks 1 2 mnist "${flags[@]}" --timeline /nowhere/trace.json
expect "a timeline that cannot be written" grep -q '^error: .*/nowhere' err

# ---- ZeRO -----------------------------------------------------------------------------------------------------

for stage in 1 2 3; do
  for way in "--micro-batch 7 --clip-norm 0.1" "--optimizer lamb --lr 0.01 --bucket-mib 0.05" "--dtype f16 --clip-norm 1"; do
    read -ra arguments <<<"--hidden 64 --batch-size 96 --max-steps 10 $way"
    ranks 0 3 mnist "${arguments[@]}" --metrics plain.jsonl --save plain.safetensors
    ranks 0 3 mnist "${arguments[@]}" --zero $stage --metrics zero.jsonl --save zero.safetensors
    expect "--zero $stage $way: the numbers of plain data parallelism" same 1e-5 zero.jsonl plain.jsonl
    expect "--zero $stage $way: as many weights" [ "$(wc -c <zero.safetensors)" -eq "$(wc -c <plain.safetensors)" ]
  done
  ranks 0 2 mnist --hidden 64 --max-steps 2 --zero $stage --memory-report
  expect "--zero $stage: half of Adam's state" grep -qE '^optimizer state +0\.19 +0\.19 +0\.19$' out
  # In stage 3 each of the two layers is a unit; backward does not read the first one's weight.
  expect "--zero $stage: traffic" grep -qE "^reduce_scatter +$((stage < 3 ? 1 : 2)) +0\\.19[45] +0\\.097$" out
done
# Two numbers have one order of addition. The master weights of other ranks' slices are gathered before saving.
flags=(--data digits --hidden 64 --batch-size 96 --dtype f16 --schedule constant)
ranks 0 2 mnist "${flags[@]}" --max-steps 10 --save plain.safetensors
for stage in 1 2 3; do
  other=$((stage % 3 + 1))
  ranks 0 2 mnist "${flags[@]}" --max-steps 5 --zero $stage --checkpoint half
  ranks 0 2 mnist "${flags[@]}" --max-steps 10 --zero $other --checkpoint half --resume --save zero.safetensors
  expect "f16, stage $stage and then $other: goes on half-way" grep -q '^resumed after step 5,' out
  expect "f16, stage $stage and then $other: the weights of plain data parallelism" cmp zero.safetensors plain.safetensors
  rm -r half
done
flags=(--data table.csv --optimizer adamw --batch-size 12 --hidden 8 --schedule constant)
timeout 120 "$bin/regression" --device cpu "${flags[@]}" --epochs 3 --metrics one.jsonl >out 2>err
ranks 0 4 regression "${flags[@]}" --epochs 1 --checkpoint zero --checkpoint-every 2 --zero 2
ranks 0 1 regression "${flags[@]}" --epochs 2 --checkpoint zero --resume
expect "one rank goes on after 4" grep -q '^resumed after step 3,' out
ranks 0 3 regression "${flags[@]}" --epochs 3 --checkpoint zero --resume --zero 1 --metrics resumed.jsonl
expect "4 ranks in stage 2, one rank, 3 in stage 1: the last steps of one process" same 1e-5 resumed.jsonl <(tail -n +7 one.jsonl)
ranks 0 1 regression "${flags[@]}" --epochs 1 --zero 2
ranks 1 2 regression "${flags[@]}" --epochs 1 --zero 3
expect "stage 3 with a rank that has no sample" grep -q "^error: --zero 3: expected the same number of forwards on every rank, but the 1 samples of an epoch's last update are fewer than the 2 ranks" err
flags=(--data digits --hidden 8 --batch-size 96 --schedule constant)
timeout 120 "$bin/mnist" --device cpu "${flags[@]}" --max-steps 9 --metrics one.jsonl >out 2>err
ranks 0 2 mnist "${flags[@]}" --max-steps 3 --checkpoint sharded --zero 3
ranks 0 1 mnist "${flags[@]}" --max-steps 6 --checkpoint sharded --resume
expect "one rank goes on after 2 in stage 3" grep -q '^resumed after step 3,' out
ranks 0 3 mnist "${flags[@]}" --max-steps 9 --checkpoint sharded --resume --zero 3 --metrics resumed.jsonl
expect "2 ranks in stage 3, one rank, 3 in stage 3: the last steps of one process" same 1e-5 resumed.jsonl <(tail -n +7 one.jsonl)
ranks 2 2 mnist --zero 4
expect "a stage that does not exist" grep -q '^error: --zero: expected a number from 0 to 3, found .4.' err
for way in "--check-replicas|--check-replicas: with --zero 3 no two of these ranks have the same values, expected --tensor-parallel, or --pipeline-parallel of a model with tied weights" \
  "--record-values values|--record-values: with --zero 3 no rank has the values between two updates" \
  "--eval-batch-size 3333|--zero 3: expected the same number of forwards on every rank, but of the 10000 test samples some of the 3 ranks run"; do
  read -ra arguments <<<"${way%%|*}"
  ranks 1 3 mnist --zero 3 --batch-size 96 --max-steps 1 "${arguments[@]}"
  expect "--zero 3 ${way%%|*} is refused in one line" [ "$(grep -c '^error: ' err)" -eq 1 ]
  expect "and says why" grep -qF -- "${way#*|}" err
done
ranks 1 2 mnist --zero 2 --no-overlap --max-steps 1
expect "stage 2 without overlap" grep -q '^error: --zero 2 has no memory for all gradients until' err
ranks 2 2 mnist --zero 1 --clip-norm 1 --clip-each-micro-batch --max-steps 1
expect "clipping each micro-batch" grep -q '^error: --clip-each-micro-batch cannot be used with --zero' err

# ---- compression ------------------------------------------------------------------------------------------------

# sent FILE STEP: bytes that a rank has sent in a step.
sent() { sed -nE "s/^\{\"step\":$2,.*\"bytes_sent\":([0-9]+).*/\1/p" "$1"; }
# 784 x 64 + 64 + 64 x 10 + 10 gradients, each parameter's padded to a multiple of 64: 50,944. Each of two ranks sends that
# number, in 16 bits with 2 bytes less per gradient; f16 also sends 4 bytes for the largest gradient of each of two buckets.
sgd=(--data digits --optimizer sgd --lr 0.05 --hidden 64 --batch-size 96 --schedule constant --bucket-mib 0.002)
flags=("${sgd[@]}" --max-steps 10 --micro-batch 24)
ranks 0 2 mnist "${flags[@]}" --metrics plain.jsonl
for dtype in bf16 f16; do
  ranks 0 2 mnist "${flags[@]}" --compress "$dtype" --metrics compressed.jsonl --save compressed.safetensors
  ranks 0 2 mnist "${sgd[@]}" --max-steps 3 --compress "$dtype" --check-replicas
  extra=$([ "$dtype" = bf16 ] && echo 0 || echo 8)
  expect "--compress $dtype: bytes" [ $(($(sent plain.jsonl 5) - $(sent compressed.jsonl 5))) -eq $((2 * 50944 - extra)) ]
  # Each rank's gradient is rounded by at most 2^-8 of its value in bf16, 2^-11 in f16, and the sum again.
  tolerance=$([ "$dtype" = bf16 ] && echo 1e-2 || echo 1.3e-3)
  expect "--compress $dtype: about the numbers of f32" same "$tolerance" compressed.jsonl plain.jsonl
  expect "--compress $dtype: but not the same" [ "$(diff <(cut -d, -f3 plain.jsonl) <(cut -d, -f3 compressed.jsonl) | wc -l)" -gt 8 ]
done
ranks 0 1 mnist "${flags[@]}" --save one.safetensors
ranks 0 1 mnist "${flags[@]}" --compress bf16 --save compressed.safetensors
expect "--compress has no effect with one rank" cmp compressed.safetensors one.safetensors
ranks 0 2 mnist "${sgd[@]}" --micro-batch 24 --compress f16 --max-steps 5 --checkpoint small
ranks 1 2 mnist "${flags[@]}" --checkpoint small --resume
expect "a checkpoint of compressed gradients" grep -q '^error: .*--compress was f16, found none' err
ranks 1 2 mnist "${flags[@]}" --zero 1 --checkpoint small --resume
expect "a checkpoint of compressed gradients, with ZeRO" grep -q '^error: .*--compress was f16, found none' err
expect "and no training before the error" [ ! -s out ]
ranks 0 2 mnist "${flags[@]}" --compress f16 --checkpoint small --resume --save resumed.safetensors
expect "--compress f16: goes on half-way" grep -q '^resumed after step 5,' out
ranks 0 2 mnist "${flags[@]}" --compress f16 --save compressed.safetensors
expect "--compress f16: resumed with the same bits" cmp resumed.safetensors compressed.safetensors
ranks 2 2 mnist --compress bf16 --zero 1
expect "with ZeRO" grep -q '^error: --compress cannot be used with --zero' err
ranks 2 2 mnist --compress int8
expect "an unknown dtype" grep -q "^error: --compress: expected none, bf16 or f16, found 'int8'" err

# ---- threads ------------------------------------------------------------------------------------------------

# Without binding, every rank may use all cores, and the ranks divide them.
cores=$(env -u OMP_NUM_THREADS nproc)
for number in 1 2 3; do
  threads=$((cores / number > 0 ? cores / number : 1))
  env -u OMP_NUM_THREADS "${mpirun[@]}" -n "$number" "$bin/mnist" --device cpu --batch-size 96 --max-steps 1 >out 2>err </dev/null
  expect "$number ranks on $cores cores" grep -q "^device cpu (.*, $threads threads*, " out
done
OMP_NUM_THREADS=3 ranks 0 2 mnist --batch-size 96 --max-steps 1
expect "threads that the user has asked for" grep -q "^device cpu (.*, 3 threads, " out

# ---- bad input ----------------------------------------------------------------------------------------------

ranks 1 3 mnist --batch-size 64 --max-steps 1
expect "a batch that the ranks do not divide" grep -q '^error: --batch-size 64: expected a multiple of the 3 ranks, the nearest is 63' err
ranks 1 2 mnist --save /nowhere/weights.safetensors --max-steps 1
expect "a file that cannot be written" grep -q '^error: ' err
ranks 2 2 mnist --bucket-mib 0
expect "buckets of nothing" grep -q '^error: --bucket-mib' err
expect "an error of all ranks is printed once" [ "$(grep -c '^error:' err)" -eq 1 ]
ranks 2 2 mnist --slow-link 100
expect "a link without a bandwidth" grep -q '^error: --slow-link: .*expected LATENCY_US,MBYTES_PER_S' err
ranks 2 2 mnist --micro-batch 8 --sync-each-micro-batch --clip-norm 1 --clip-each-micro-batch
expect "clipped gradients are reduced once" grep -q '^error: --.* cannot be used with' err
# differ WHAT COMMAND OTHER_COMMAND TEXT OTHER_TEXT: ranks 0 and 1 run different commands; an error must name what differs.
differ() {
  local what=$1 own other
  read -ra own <<<"$2"
  read -ra other <<<"$3"
  timeout 120 "${mpirun[@]}" -n 1 "$bin/${own[0]}" "${own[@]:1}" --device cpu --max-steps 2 : \
    -n 1 "$bin/${other[0]}" "${other[@]:1}" --device cpu --max-steps 2 >out 2>err </dev/null
  expect "$what: ends with 1" [ $? -eq 1 ]
  expect "$what" grep -q "^error: the ranks' programs, options or data differ: .*$4.* on rank 0, but .*$5.* on rank 1" err
}
differ "other models" "mnist --hidden 64" "mnist --hidden 32" "--hidden 64" "--hidden 32"
differ "other buckets" "mnist --bucket-mib 1" "mnist" "--bucket-mib 1" "--bucket-mib 25"
differ "other programs" "mnist" "regression" "CRC-32" "CRC-32"
for table in one two; do awk -v "shift=$table" 'BEGIN { for (i = 0; i < 40; ++i) print i "," (i * i) % 7 + (shift == "two") }' >$table.csv; done
differ "other data" "regression --data one.csv" "regression --data two.csv" "the training data of 32 samples with the CRC-32" "of 32 samples"
# Files of the same name on two hosts.
mkdir seed-1 seed-2
for seed in 1 2; do "$bin/mnist" --device cpu --hidden 8 --max-steps 1 --seed $seed --save seed-$seed/weights.safetensors >out 2>err; done
timeout 120 "${mpirun[@]}" -n 1 -wdir "$PWD/seed-1" "$bin/mnist" --device cpu --hidden 8 --eval-only --load weights.safetensors : \
  -n 1 -wdir "$PWD/seed-2" "$bin/mnist" --device cpu --hidden 8 --eval-only --load weights.safetensors >out 2>err </dev/null
expect "other weights: ends with 1" [ $? -eq 1 ]
expect "other weights" grep -q "differ: the weights of --load with the CRC-32 .* on rank 0, but the weights of --load with the CRC-32 .* on rank 1" err
gpt_run="gpt train --layers 1 --heads 2 --width 8 --context 8 --batch-size 2"
for seed in 1 2; do
  read -ra own <<<"$gpt_run"
  "$bin/${own[0]}" "${own[@]:1}" --device cpu --max-steps 1 --sample-tokens 0 --seed $seed --save-model model-$seed >out 2>err
done
differ "models of other folders" "gpt train --model model-1" "gpt train --model model-2" "the weights of --model with the CRC-32" "CRC-32"
differ "a model saved by one rank" "$gpt_run" "$gpt_run --save-model other" "--save-model (default)" "--save-model other"
differ "other samples" "$gpt_run --sample-every 1" "$gpt_run --sample-every 2" "--sample-every 1" "--sample-every 2"
timeout 120 "${mpirun[@]}" -n 1 "$bin/mnist" --max-steps 2 : -n 1 "$bin/mnist" --max-steps -2 >out 2>err </dev/null
expect "an error of rank 1 alone is printed" grep -q '^error: --max-steps' err
timeout 60 "$bin/mnist" --show-launcher >out 2>err
expect "--show-launcher" grep -q 'none' out

summary
