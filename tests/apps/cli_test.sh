#!/usr/bin/env bash
# Runs the programs of apps/ as a user would, with valid and invalid input.
#   tests/apps/cli_test.sh BIN_DIR
set -uo pipefail
bin=$(cd "$1" && pwd)
support=$(cd "$(dirname "$0")/../support" && pwd)
mnist_files=$(cd "$(dirname "$0")/../../data/mnist" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/run" && cd "$work/run" || exit 1

# Under AddressSanitizer an allocation of terabytes must fail as in other builds; the sanitizer's warning is removed below.
export ASAN_OPTIONS=allocator_may_return_null=1

# shellcheck source-path=SCRIPTDIR source=../support/checks.sh
. "$support/checks.sh"

# refuse TEXT PROGRAM ARGUMENTS...: the program must end with 1 or 2, print one line that contains TEXT on standard
# error, and leave no file behind.
refuse() {
  local text=$1 status before
  shift
  before=$(ls -A)
  timeout 120 "$bin/$1" "${@:2}" >"$work/out" 2>"$work/err" </dev/null
  status=$?
  sed -i '/WARNING: AddressSanitizer failed to allocate/d' "$work/err"
  if [ $status -ne 1 ] && [ $status -ne 2 ]; then
    failure "$*: ended with $status, expected 1 or 2"
  elif [ "$(wc -l <"$work/err")" -ne 1 ] || ! grep -q '^error: ' "$work/err"; then
    failure "$*: expected one line 'error: ...', found: $(cat "$work/err")"
  elif ! grep -qF -- "$text" "$work/err"; then
    failure "$*: expected '$text' in: $(cat "$work/err")"
  elif [ "$(ls -A)" != "$before" ]; then
    failure "$*: left files behind: $(ls -A)"
  else
    pass
    if [ -n "${VERBOSE:-}" ]; then cat "$work/err"; fi
  fi
}

# accept PROGRAM ARGUMENTS...: the program must end with 0 and print nothing on standard error.
accept() {
  timeout 600 "$bin/$1" "${@:2}" >"$work/out" 2>"$work/err" </dev/null
  local status=$?
  if [ $status -ne 0 ] || [ -s "$work/err" ]; then
    failure "$*: ended with $status: $(cat "$work/err")"
  else
    pass
  fi
}

# warn TEXT PROGRAM ARGUMENTS...: the program must end with 0, with a warning that contains TEXT.
warn() {
  timeout 600 "$bin/$2" "${@:3}" >"$work/out" 2>"$work/err" </dev/null
  local status=$?
  if [ $status -ne 0 ] || [ "$(wc -l <"$work/err")" -ne 1 ] || ! grep -q '^warning: ' "$work/err" ||
    ! grep -qF -- "$1" "$work/err"; then
    failure "${*:2}: ended with $status, expected 0 and a warning '$1', found: $(cat "$work/err")"
  else
    pass
  fi
}

# ---- flags ------------------------------------------------------------------------------------------------

refuse "found '--nope', expected only flags of this program" mnist --nope
refuse "found 'extra', expected only flags of this program" mnist extra
refuse "--lr: expected a value, found none" mnist --lr
refuse "--save: expected a value, found the flag '--quiet'" mnist --max-steps 2 --save --quiet
refuse "--save: expected a value, found the flag '--max-steps'" mnist --save --max-steps 2
refuse "--prompt: expected a value, found the flag '--tokens=5'" gpt generate --model x --prompt --tokens=5
refuse "found '-1e-3'" mnist --lr -1e-3
accept mnist --device cpu --hidden 8 --max-steps 1 --save=--quiet
expect "weights in a file with the name of a flag" [ -s ./--quiet ]
rm ./--quiet
refuse "--lr: expected once, found 2 times" mnist --lr 1 --lr 2
refuse "--graph: expected no value, found 'maybe'" mnist --graph=maybe
refuse "found 'nan'" mnist --lr nan
refuse "found '-1'" mnist --lr=-1
refuse "fast" mnist --lr fast
for rate in 1e39 1e-46; do
  refuse "--lr: expected 0 or a number from 1.4e-45 to 3.4e38, found '$rate'" mnist --lr $rate
done
refuse "found 'inf'" mnist --weight-decay inf
refuse "weight decay must be at most 3.4e38, found 1e+39" mnist --weight-decay 1e39
refuse "the learning rate of the last of 9 steps is 1e+197, expected at most 3.4e38" mnist --schedule step --gamma 1e100 --epochs 3 --batch-size 20000 --warmup 0
refuse "found 'nan'" mnist --clip-norm nan
refuse "--clip-norm: expected 0 or a number from 1.4e-45 to 3.4e38, found '1e-320'" mnist --clip-norm 1e-320
refuse "--clip-value: expected 0 or a number from 1.4e-45 to 3.4e38, found '1e39'" mnist --clip-value 1e39
refuse "--beta1: expected a number from 0 to below 1, found '1'" mnist --beta1 1
refuse "--beta2: expected a number from 0 to below 1, found '-0.1'" mnist --beta2=-0.1
refuse "found 'nan'" mnist --clip-value nan
refuse "found '0'" mnist --clip-norm 1 --clip-norm-type 0
# A flag without effect is an error: the result would not be what its value seems to say.
refuse "--clip-each-micro-batch has no effect: expected --clip-norm with it" mnist --clip-each-micro-batch
refuse "--beta1 0.5 has no effect: expected --optimizer adam, adamw or lamb with it" mnist --optimizer sgd --beta1 0.5
refuse "--beta2 0.5 has no effect" mnist --optimizer lars --beta2 0.5
refuse "--momentum 0.5 has no effect: expected --optimizer sgd or lars with it" mnist --momentum 0.5
refuse "--power 3 has no effect: expected --schedule polynomial with it" mnist --power 3
refuse "--final-lr-fraction 0.5 has no effect: expected --schedule linear, cosine or polynomial with it" mnist --schedule constant --final-lr-fraction 0.5
refuse "--gamma 0.1 has no effect: expected --schedule step with it" mnist --gamma 0.1
refuse "--step-epochs 2 has no effect: expected --schedule step with it" mnist --step-epochs 2
refuse "--warmup-shape quadratic has no effect: expected --warmup with it" mnist --warmup-shape quadratic
refuse "--base-batch 16 has no effect: expected --lr-scaling with it" mnist --base-batch 16
refuse "--decay-biases has no effect: expected --weight-decay with it" mnist --decay-biases
refuse "--sync-each-micro-batch has no effect: expected --micro-batch with it" mnist --sync-each-micro-batch
refuse "second: found none, expected the file of the second run" compare_runs a.jsonl
refuse "--metrics: expected a file name, found '-'; ./- is a file of this name" mnist --metrics -
refuse "--hidden" mnist --hidden 0
refuse "--hidden" mnist --hidden 64,none
refuse "--epochs" mnist --epochs 0
refuse "--max-steps" mnist --max-steps=-1
refuse "--batch-size" mnist --batch-size 0
refuse "--seed" mnist --seed=-1
refuse "--seed" mnist --seed 18446744073709551616
refuse "--optimizer" mnist --optimizer newton
refuse "--gemm" mnist --gemm fast
refuse "--dtype" mnist --dtype f8
refuse "TF32" mnist --device cpu --tf32
refuse "gradients overflowed" mnist --dtype f16 --optimizer sgd --lr 1e5 --epochs 1
refuse "--recompute" mnist --recompute=-1
refuse "--recipe" mnist --recipe lamb-1
# One word is expected, not a list.
refuse "found 'lamb-8192,lamb-8192'" mnist --recipe lamb-8192,lamb-8192
refuse "found 'bytes,gpt2'" gpt train --tokenizer bytes,gpt2
refuse "found 'gpt2,llama'" plan parallel --architecture gpt2,llama
refuse "expected a number of steps or auto, found '-1'" mnist --warmup=-1
refuse "--warmup 938 is not shorter" mnist --epochs 1 --warmup 938
refuse "found 'nan'" mnist --schedule polynomial --power nan
refuse "found '-1'" mnist --schedule step --gamma=-1
refuse "--final-lr-fraction" mnist --final-lr-fraction 2
refuse "--lr-scaling" mnist --lr-scaling cubic
refuse "found 'nan'" mnist --momentum nan --optimizer lars
refuse "training diverged: the loss of step" mnist --optimizer sgd --lr 1e6 --max-steps 60
printf '0,1e30\n1,-1e30\n0,2e30\n1,3e30\n1,0\n0,1\n' >large.csv
refuse "the loss of step 1 is inf, before any update" regression --data large.csv --batch-size 2
rm large.csv
refuse "steps A:B" mnist --profile --profile-steps 5
refuse "steps A:B" mnist --profile --profile-steps 5:4
refuse "steps A:B" mnist --profile --profile-steps 0:4
refuse "steps A:B" mnist --profile --profile-steps 1:2x
refuse "expected one of them" mnist --device cpu --profile-steps 2:4
refuse "--profile-steps 5:9: the run has 4 steps" mnist --device cpu --profile --profile-steps 5:9 --max-steps 4
refuse "--sort" mnist --profile --sort colour
refuse "--sort" mnist --profile --sort bytes
refuse "--profile" mnist --sort calls
refuse "records from the second update on, but the run has 1" mnist --device cpu --profile --max-steps 1
refuse "--profile-steps 1:1 records" mnist --device cpu --timeline t.json --max-steps 1
refuse "--sort device: the table of cpu has no such column" mnist --device cpu --profile --sort device
refuse "'tpu'" mnist --device tpu
refuse "--graph: cpu has no CUDA graphs, expected a GPU" mnist --device cpu --graph
refuse "--graph: cpu has no CUDA graphs, expected a GPU" mnist --device cpu --graph --print-graph
refuse "--print-graph has no effect: expected --graph with it" mnist --device cpu --print-graph
refuse "'cuda:99'" mnist --device cuda:99
refuse "--eval-only: expected --load with it, found none" mnist --eval-only
refuse "expected at most 1125899906842624 steps in total" mnist --epochs 1099511627776 --batch-size 1 --print-schedule
refuse "--report cannot be used with --eval-only" mnist --eval-only --load x --report r.html
refuse "--save" mnist --eval-only --load x --save y
refuse "--lr has no effect with --eval-only" mnist --eval-only --load x --lr 0.1
refuse "--micro-batch has no effect with --eval-only" mnist --eval-only --load x --micro-batch 2
for flag in "--save x" "--metrics x" "--report x.html" "--checkpoint x" --profile; do
  read -ra arguments <<<"$flag"
  refuse "cannot be used with" mnist --print-schedule "${arguments[@]}"
  refuse "cannot be used with" mnist --show-launcher "${arguments[@]}"
done
refuse "out of memory" mnist --device cpu --hidden 1,1048576,1048576

# ---- files to write ---------------------------------------------------------------------------------------

mkdir folder
refuse "missing/w.safetensors" mnist --max-steps 1 --save missing/w.safetensors
refuse "--save: folder: is not a regular file" mnist --max-steps 1 --save folder
refuse "--save" mnist --max-steps 1 --save ""
refuse "missing/r.html" mnist --max-steps 1 --report missing/r.html
refuse "expected a file name that ends with .html or .json, found 'r.txt'" mnist --max-steps 1 --report r.txt
mkdir folder.html
refuse "folder.html" regression --max-steps 1 --report folder.html
rmdir folder.html
refuse "missing/t.svg" mnist --max-steps 1 --save-tape missing/t.svg
refuse "expected a file name that ends with .svg or .dot, found 't.png'" mnist --max-steps 1 --save-tape t.png
refuse "expected a file name that ends with .json, found 't.txt'" mnist --max-steps 1 --timeline t.txt
refuse "--save and --report both name 'x.html'" mnist --report x.html --save x.html
# Input files are never overwritten, under any name.
seq 1 50 | sed 's/.*/&,&/' >my.json
ln -s my.json link.json
refuse "the data and --timeline both name 'my.json'" regression --data my.json --timeline my.json
refuse "the data and --timeline both name './my.json'" regression --data my.json --timeline ./my.json
refuse "the data and --timeline both name 'link.json'" regression --data my.json --timeline link.json
ln -s later.json dangling.json
refuse "--timeline and --report both name 'dangling.json'" mnist --max-steps 2 --timeline later.json --report dangling.json
rm dangling.json
refuse "--load and --report both name 'folder/../w.html'" mnist --load w.html --report folder/../w.html
for each in "--save step-000000000003.safetensors" "--report step-000000000003.json" "--metrics lock"; do
  flag=${each% *} file=kept/${each#* }
  refuse "$flag: found '$file', expected another name than those of the files of --checkpoint" mnist --max-steps 3 \
    --checkpoint kept "$flag" "$file"
done
refuse "--checkpoint and --report both name 'k.json'" mnist --max-steps 1 --checkpoint k.json --report k.json
expect "the data keep their 50 lines" [ "$(wc -l <my.json)" -eq 50 ]
rm my.json link.json
# Nothing is printed before all flags are known to be valid.
while read -ra flags; do
  refuse "${flags[0]}" mnist --device cpu --max-steps 2 "${flags[@]}"
  cp "$work/out" "$work/refused"
  expect "${flags[*]}: refused before the header" [ ! -s "$work/refused" ]
done <<'FLAGS'
--graph
--checkpoint /dev/null
--metrics folder
--save folder
--report folder
--timeline missing/t.json
--profile-steps 3:4 --profile
--warmup 2
--micro-batch 65
FLAGS
refuse "missing/m.jsonl" mnist --max-steps 1 --metrics missing/m.jsonl
refuse "--metrics: folder cannot be written: Is a directory" mnist --max-steps 1 --metrics folder
warn "No space left" mnist --device cpu --max-steps 1 --metrics /dev/full --save full.safetensors
expect "the weights of a run whose metrics met a full disk" [ -s full.safetensors ]
rm full.safetensors
# A file that standard output is written to is not replaced, and lines do not overwrite each other.
echo before >log
"$bin/mnist" --device cpu --hidden 8 --max-steps 3 --quiet --metrics /dev/stdout >>log 2>"$work/err"
expect "metrics are appended to what a file holds" [ "$(sed -n 1p log) $(grep -c '^{' log) $(wc -l <log)" = "before 4 5" ]
"$bin/mnist" --device cpu --hidden 8 --max-steps 3 --metrics /dev/stdout >log 2>"$work/err"
expect "metrics among the lines of the output" [ "$(grep -c '^{"step":[123],.*}$' log) $(grep -c '^MNIST: 60000' log)" = "3 1" ]
rm log
# A refused run does not replace existing files; a hard link names the same data.
echo precious >kept.jsonl
refuse "--graph" mnist --device cpu --max-steps 2 --graph --metrics kept.jsonl
expect "the existing metrics file" [ "$(cat kept.jsonl)" = precious ]
rm kept.jsonl
seq 1 50 | sed 's/.*/&,&/' >my.csv
ln my.csv hard.csv
refuse "the data and --metrics both name 'hard.csv'" regression --data my.csv --metrics hard.csv
rm my.csv hard.csv
# If weights cannot be written, the other files still are.
(ulimit -f 60; "$bin/mnist" --device cpu --max-steps 30 --save large.safetensors --profile --save-tape t.svg >shown 2>"$work/err")
expect "a failed --save ends with 1" [ $? -eq 1 ]
expect "and says so" grep -q '^error: --save: large.safetensors: cannot write: ' "$work/err"
expect "after the profile" grep -q '^profile of steps 2 to ' shown
expect "and the drawing of the tape" [ -s t.svg ]
rm -f shown t.svg large.safetensors*
refuse "out of memory" mnist --device cpu --hidden 1,1048576,1048576 --metrics m.jsonl --save w.safetensors

# ---- MNIST files ------------------------------------------------------------------------------------------

# A folder `data` with the shipped files, of which one (the first argument) is replaced by standard input.
damaged() {
  rm -rf data && mkdir data
  ln -s "$mnist_files"/*.gz data/
  rm "data/$1"
  cat >"data/$1"
}
labels=t10k-labels-idx1-ubyte.gz
damaged $labels <"$mnist_files/$labels"
refuse "the data and --save both name 'data/$labels'" mnist --data data --save "data/$labels"
refuse "missing" mnist --data missing
refuse "folder" mnist --data folder
head -c 2000 "$mnist_files/$labels" | damaged $labels
refuse "truncated" mnist --data data
gzip -dc "$mnist_files/$labels" | head -c 5000 | gzip | damaged $labels
refuse "expected 10000" mnist --data data
{ printf '\x00\x00\x09\x01' && gzip -dc "$mnist_files/$labels" | tail -c +5; } | gzip | damaged $labels
refuse "0x00000901, expected 0x00000801" mnist --data data
{ gzip -dc "$mnist_files/$labels" | head -c 10007 && printf '\x0a'; } | gzip | damaged $labels
refuse "label 9999 is 10" mnist --data data
damaged $labels <"$mnist_files/t10k-images-idx3-ubyte.gz"
refuse "0x00000803, expected 0x00000801" mnist --data data
rm -rf data

# ---- tables -----------------------------------------------------------------------------------------------

refuse "missing.csv" regression --data missing.csv
printf '1,2\n3,x\n1,1\n1,1\n1,1\n' >table.csv
refuse "'x'" regression --data table.csv
printf '1,2\n3\n1,1\n1,1\n1,1\n' >table.csv
refuse "line 2" regression --data table.csv
printf '1,2\n3,nan\n1,1\n1,1\n1,1\n' >table.csv
refuse "nan" regression --data table.csv
printf '1,2\n' >table.csv
refuse "expected at least 5" regression --data table.csv
: >table.csv
refuse "table.csv" regression --data table.csv
for i in {1..50}; do printf '%d,%d\n' "$i" $((3 * i)); done >table.csv
accept regression --data table.csv --epochs 2
# A constant feature is 0, whether or not the mean of its rows is exact in binary.
for ((i = 1; i <= 60; ++i)); do echo "$i,0.1,$((3 * i))"; done >table.csv
sed 's/,0.1,/,0,/' table.csv >zeros.csv
for table in table zeros; do
  accept regression --data $table.csv --epochs 2 --metrics $table.jsonl
done
expect "the last line has the loss" grep -q '^{"event":"done","test_loss":.*,"steps"' table.jsonl
expect "a constant feature has no effect" [ "$(grep -o '"test_loss":.*,"steps"' table.jsonl)" = "$(grep -o '"test_loss":.*,"steps"' zeros.jsonl)" ]
rm table.csv zeros.csv table.jsonl zeros.jsonl

# ---- training, metrics, saving ----------------------------------------------------------------------------

accuracy() { grep -oE '"test_accuracy":[0-9.]+' "$1"; }
small=(--device cpu --hidden 32 --max-steps 60)
accept mnist --help
cp "$work/out" shown
# flag NAME: what --help says about a flag
flag() { grep -A1 -e "^  $1 " shown; }
expect "no list of excluded flags before an explanation" [ "$(grep -c Excludes shown)" -eq 0 ]
expect "the words that a flag accepts" grep -q '; expected none, linear or sqrt$' <(flag --lr-scaling)
expect "the words, if the help has them in another order" grep -q '; expected f32, bf16, f16 or auto$' <(flag --dtype)
expect "no list of words that the help names already" [ "$(grep -c 'expected sgd\|expected constant' shown)" -eq 0 ]
rm shown
accept mnist "${small[@]}" --metrics a.jsonl --save a.safetensors
expect "no control characters in a pipe" [ "$(grep -c '[[:cntrl:]]' "$work/out")" -eq 0 ]
accept mnist "${small[@]}" --metrics b.jsonl --save b.safetensors
accept mnist "${small[@]}" --metrics c.jsonl --seed 1 --gemm own
accept mnist --device cpu --hidden 32,32,32 --max-steps 60 --save d.safetensors
accept mnist --device cpu --hidden 32,32,32 --max-steps 60 --save r.safetensors --recompute 2
expect "recomputation: equal weights" cmp d.safetensors r.safetensors
for dtype in f16 bf16 auto; do
  accept mnist "${small[@]}" --dtype "$dtype" --micro-batch 24 --clip-norm 1 --clip-value 1 --metrics m.jsonl \
    --save h.safetensors
  expect "$dtype learns" grep -qE '"test_accuracy":0\.[89]' m.jsonl
  accept mnist --device cpu --hidden 32 --dtype "$dtype" --load h.safetensors --eval-only --metrics e.jsonl
  expect "$dtype: loaded weights are tested in it too" [ "$(accuracy m.jsonl)" = "$(accuracy e.jsonl)" ]
done
accept mnist "${small[@]}" --memory-report
cp "$work/out" shown
expect "25,450 parameters take 0.10 MiB, measured and by formula" grep -qE '^parameters +0\.10 +0\.10 +0\.10$' shown
rm shown
accept mnist "${small[@]}" --profile --profile-steps 3:5 --micro-batch 24 --sort calls
cp "$work/out" shown
expect "the profile's steps" grep -q '^profile of steps 3 to 5, figures of one step:$' shown
expect "64 samples as 24 + 24 + 16" grep -qE '^linear_relu +2 .* 0 +24x784 32x784 32$' shown
expect "the remaining 16" grep -qE '^linear_relu +1 .* 0 +16x784 32x784 32$' shown
expect "a closing row" grep -qE '^step +[0-9.]+ +100% ' shown
expect "a verdict" grep -qE '^data [0-9.]+%, forward [0-9.]+%, backward [0-9.]+%, optimizer [0-9.]+% of a step' shown
expect "no communication of one rank" bash -c '! grep -qE "^all-reduce +[0-9]" shown'
expect "a layer" grep -qE '^0 +[0-9.]+ +[0-9.]+ ' shown
expect "limits" grep -q '^limit: the least time for ' shown
# On a terminal the progress and the curve fit its width; without UTF-8 the curve is made of asterisks. (`script` may not read
# what a program prints just before it ends.)
COLUMNS=60 LC_ALL=C script -qec "'$bin/mnist' --device cpu --hidden 32 --max-steps 60; sleep 1" /dev/null </dev/null 2>&1 |
  sed 's/\x1b\[K//g' | tr '\r' '\n' | grep -aE '^(epoch .* step| +[0-9.]+ \|)' >shown
expect "a curve of 10 lines" [ "$(grep -c '|' shown)" -eq 10 ]
expect "its progress" grep -q '^epoch 1/3 ' shown
expect "the curve is as wide as 60 columns" [ "$(grep '|' shown | wc -L)" -eq 60 ]
expect "and the progress a column less" [ "$(grep '^epoch' shown | wc -L)" -le 59 ]
expect "plain characters" [ "$(LC_ALL=C grep -c '[^ -~]' shown)" -eq 0 ]
rm shown
# One recording for both, across an evaluation.
accept regression --device cpu --batch-size 2500 --epochs 3 --profile --timeline t.json --memory-report
cp "$work/out" shown
expect "the profile of all updates but the first" grep -q '^profile of steps 2 to ' shown
expect "the timeline of the same ones" grep -q '^timeline of [0-9]* updates written to t.json' shown
rm shown t.json
# A report of such a run, of one without a second update, and of one resumed at its end.
accept regression --device cpu --batch-size 2500 --epochs 3 --report r.json --save-tape t.svg --checkpoint k
expect "the curves of 3 epochs" grep -q '"caption": "Gradient norm"' r.json
expect "no accuracy, as there is none" [ "$(grep -c '"caption": "Accuracy"' r.json)" -eq 0 ]
expect "where the time goes" grep -q '"operations": {' r.json
expect "the flags" grep -q '"value": "2500"' <(grep -A1 '"name": "--batch-size"' r.json)
expect "the tape as a picture" grep -q '>mse_loss</text>' t.svg
accept regression --device cpu --batch-size 2500 --epochs 3 --report r.json --checkpoint k --resume
expect "the losses of a run that is over" grep -q '"caption": "Loss"' r.json
expect "the steps before it was resumed" grep -q '"value": "21"' <(grep -A1 '"name": "steps, 21 of them before it was resumed"' r.json)
expect "the time of this part" grep -q '"name": "time since it was resumed"' r.json
accept mnist --device cpu --hidden 8 --max-steps 1 --report r.html --save-tape t.dot
expect "the tape as a graph" grep -q '^digraph tape {$' t.dot
expect "a page" grep -q '</html>' r.html
accept regression --device cpu --max-steps 2 --quiet --report r.json
cp "$work/out" shown
expect "--quiet: not even where the report is" [ ! -s shown ]
rm -r r.html r.json t.svg t.dot k shown
accept mnist "${small[@]}" --clip-norm 0.1 --clip-norm-type inf --clip-value 0.01 --micro-batch 24 --clip-each-micro-batch
number='-?[0-9.]+(e[-+]?[0-9]+)?'
step="^\{\"step\":[0-9]+,\"epoch\":1,\"loss\":$number,\"lr\":$number,\"grad_norm\":$number,\"samples_per_s\":$number\}$"
done="^\{\"event\":\"done\",\"test_accuracy\":$number,\"test_loss\":$number,\"steps\":60,\"skipped_updates\":0,\"seconds\":$number,\"device\":\"cpu\"\}$"
expect "60 lines of steps" [ "$(grep -cE "$step" a.jsonl)" -eq 60 ]
expect "a last line 'done'" [ "$(tail -n 1 a.jsonl | grep -cE "$done")" -eq 1 ]
expect "61 lines" [ "$(wc -l <a.jsonl)" -eq 61 ]
without_times() { sed -E 's/"(samples_per_s|seconds)":[^,}]+//g' "$1"; }
expect "equal seeds, equal metrics" [ "$(without_times a.jsonl)" = "$(without_times b.jsonl)" ]
expect "equal seeds, equal weights" cmp a.safetensors b.safetensors
expect "another seed, other metrics" [ "$(without_times a.jsonl)" != "$(without_times c.jsonl)" ]

accept mnist --device cpu --hidden 32 --load a.safetensors --eval-only --recipe lamb-8192
accept mnist --device cpu --hidden 32 --load a.safetensors --eval-only --metrics e.jsonl
expect "saved and loaded weights, the same accuracy" [ "$(accuracy a.jsonl)" = "$(accuracy e.jsonl)" ]
if python3 -c 'import safetensors, numpy' 2>/dev/null; then
  expect "Python reads the weights" python3 - <<'PYTHON'
from safetensors.numpy import load_file
shapes = {name: (value.shape, str(value.dtype)) for name, value in load_file("a.safetensors").items()}
assert shapes == {"0.weight": ((32, 784), "float32"), "0.bias": ((32,), "float32"),
                  "2.weight": ((10, 32), "float32"), "2.bias": ((10,), "float32")}, shapes
PYTHON
else
  echo "skipped: Python has no safetensors here, so it did not read the weights"
fi
accept regression --epochs 1 --metrics r.jsonl --save r.safetensors
expect "regression's last line" grep -qE '^\{"event":"done","test_loss":' r.jsonl

# ---- the effect of flags on an update ----------------------------------------------------------------------

# field NAME FILE: that number of the first step's record
field() { head -n 1 "$2" | grep -oE "\"$1\":[-+0-9.e]+" | cut -d: -f2; }
# near A B TOLERANCE: whether A and B are there and differ by no more than TOLERANCE times B
near() {
  [ -n "$1" ] && [ -n "$2" ] || return 1
  awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a - b; exit !((d < 0 ? -d : d) <= t * b) }'
}
sgd=(mnist --device cpu --hidden 32 --max-steps 4 --optimizer sgd --lr 0.1)
accept "${sgd[@]}" --metrics whole.jsonl --save whole.safetensors
norm=$(field grad_norm whole.jsonl)
accept "${sgd[@]}" --micro-batch 24 --metrics m.jsonl --save m.safetensors
expect "64 as 24 + 24 + 16: the gradient of the batch" near "$(field grad_norm m.jsonl)" "$norm" 1e-6
expect "and its loss" near "$(field loss m.jsonl)" "$(field loss whole.jsonl)" 1e-6
expect "but not the same bits: it was cut" [ "$(cksum <m.safetensors)" != "$(cksum <whole.safetensors)" ]
accept "${sgd[@]}" --micro-batch 16 --clip-norm 0.01 --clip-each-micro-batch --metrics m.jsonl
expect "each of 4 micro-batches clipped to 0.01 / 2" near "$(field grad_norm m.jsonl)" 0.005 1e-3
accept "${sgd[@]}" --clip-value 1e-7 --metrics m.jsonl
expect "25,450 elements cut to 1e-7: a norm of 1e-7 sqrt(25450)" near "$(field grad_norm m.jsonl)" 1.59531e-5 1e-4
changes() {
  accept "${sgd[@]}" "$@" --save m.safetensors
  expect "$* changes the weights" [ "$(cksum <m.safetensors)" != "$(cksum <whole.safetensors)" ]
}
changes --clip-norm 0.01
changes --weight-decay 0.1
changes --momentum 0.5
changes --warmup 2
changes --schedule constant
changes --lr-scaling sqrt --base-batch 16
changes --seed 1
accept "${sgd[@]}" --clip-norm 1e9 --save m.safetensors
expect "a limit that is never reached changes nothing" cmp m.safetensors whole.safetensors
accept "${sgd[@]}" --weight-decay 0.1 --save decayed.safetensors
accept "${sgd[@]}" --weight-decay 0.1 --decay-biases --save m.safetensors
expect "--decay-biases changes the biases" [ "$(cksum <m.safetensors)" != "$(cksum <decayed.safetensors)" ]
accept "${sgd[@]}" --clip-norm 0.01 --save two.safetensors
accept "${sgd[@]}" --clip-norm 0.01 --clip-norm-type inf --save m.safetensors
expect "--clip-norm-type changes the norm" [ "$(cksum <m.safetensors)" != "$(cksum <two.safetensors)" ]
accept mnist "${small[@]:0:4}" --max-steps 60 --metrics m.jsonl
expect "the rate of update 60 of 60 under linear decay: 0.001 / 60" grep -qE '^\{"step":60,.*"lr":1\.66666' m.jsonl
refuse "no update had an effect" regression --dtype f16 --optimizer sgd --lr 1e-5 --batch-size 1 --max-steps 2

# ---- schedules and recipes --------------------------------------------------------------------------------

# show FLAGS...: the schedule of these flags, in the file `shown`
show() {
  accept mnist --print-schedule "$@"
  cp "$work/out" shown
}
show --epochs 1 --batch-size 600 --lr 0.8 --warmup 4
expect "the first of 4 updates of warm-up: 0.8 * 1/5" grep -qE '^ +1 +0\.00 +0\.16$' shown
expect "the last of 100 updates: 0.8 / 96" grep -qE '^ +100 +0\.99 +0\.00833333$' shown
show --epochs 1 --batch-size 6400 --lr 0.01 --schedule constant --lr-scaling sqrt
expect "100 times the batch, 10 times the rate" grep -qE '^ +1 +0\.00 +0\.1$' shown
accept mnist --device cpu --hidden 8 --max-steps 1 --batch-size 70000 --lr-scaling linear
cp "$work/out" shown
expect "the batch and the rate of the run, not those of the flags" grep -qF ', batch 60000 (all samples of an epoch), adam at 0.001 scaled to 0.9375' shown
accept mnist --device cpu --hidden 8 --max-steps 1 --no-overlap --check-replicas --slow-link 100,250
cp "$work/out" shown
for flag in --no-overlap --check-replicas --slow-link; do
  expect "$flag with one rank: says that it has no effect" grep -qE "^$flag has no effect: there is one (data )?rank$" shown
done
show --recipe lamb-8192
expect "a recipe sets the batch and the epochs" grep -q '^120 steps of 8192 samples' shown
show --recipe lamb-8192 --epochs 2 --warmup 3
expect "a flag overrides the recipe" grep -q '^16 steps of 8192 samples' shown
rm shown

# ---- accumulation, step by step ---------------------------------------------------------------------------

refuse "--batch-size" accumulate --batch-size 0
refuse "--micro-batch: expected at most the 5 of --batch-size, found 10" accumulate --batch-size 5
refuse "--micro-batch" accumulate --micro-batch none
refuse "'tpu'" accumulate --device tpu
accept accumulate --device cpu
cp "$work/out" shown
expect "a micro-batch of 10 in a batch of 80 weighs an eighth" grep -qE '^ +8  70 to 79 +10 +80  0\.12500 ' shown
expect "eight parameters, all recomputed alike" [ "$(grep -c 'the same in every bit$' shown)" -eq 8 ]
expect "without scaling the gradient is eight times too large" grep -q 'scaling forgotten: .* 7\.00e+00$' shown
expect "batches of 20: 5 updates" grep -q '20 in micro-batches of 20: 5 updates an epoch$' shown
expect "8 micro-batches of 10: 2 updates" grep -q '80 in micro-batches of 10: 2 updates an epoch$' shown
expect "8 micro-batches" grep -qE '^ +1  0 to 79 +8 x 10 +80  10/80 = 0\.125$' shown
expect "then 2, weighted as 2" grep -qE '^ +2  80 to 99 +2 x 10 +20  10/20 = 0\.5$' shown
accept accumulate --device cpu --batch-size 70 --micro-batch 32
cp "$work/out" shown
expect "means over unequal micro-batches: about three times" grep -q 'scaling forgotten: 3 means added up, so G = about 3 g ' shown
accept accumulate --device cpu --batch-size 1 --micro-batch 1
cp "$work/out" shown
expect "one step" grep -q 'means over 1 step, 1 x 1 ' shown
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "$bin/accumulate" --device cpu >shown 2>&1
expect "rank 0 alone prints" [ ! -s shown ]
rm shown
"$bin/mnist" "${small[@]}" --optimizer sgd --lr 1e6 --metrics d.jsonl --report d.json >"$work/out" 2>"$work/err" && failure "a run that diverges"
expect "the metrics of a run that diverges are kept, up to where it did" grep -q '"loss":null' <(tail -n 1 d.jsonl)
expect "its report says why it ended" grep -q '"error": "training diverged: ' d.json
expect "the curves up to there, and the tape" [ "$(grep -cE '"(curves|tape)": \{' d.json)" -eq 2 ]
rm d.json

# ---- the planner ------------------------------------------------------------------------------------------

refuse "no command: expected batch, memory, fit, lr, scale or parallel" plan
refuse "'bogus' is not a command" plan bogus --ranks 8
refuse "'--foo' is not a command: expected batch, memory, fit, lr, scale or parallel" plan --foo 3 lr --help
expect "which is a wrong command line" [ "$("$bin/plan" --foo 3 lr --help >/dev/null 2>&1; echo $?)" -eq 2 ]
refuse "found 'lr', expected only flags" plan batch --micro-batch 8 lr
refuse "--ranks" plan --ranks 8
refuse "extra" plan batch --micro-batch 8 extra
refuse "--micro-batch" plan batch --micro-batch 0
refuse "--ranks" plan batch --batch-size 8 --micro-batch 1 --ranks=-1
refuse "too little to go by" plan batch
refuse "the micro-batch of 9 is larger" plan batch --batch-size 8 --micro-batch 9
refuse "a contradiction" plan batch --batch-size 8 --micro-batch 2 --accumulation 2 --ranks 3
refuse "--data-percent" plan batch --micro-batch 1 --dataset 100 --data-percent 5
refuse "--throughput" plan batch --micro-batch 1 --max-steps 5
refuse "needs --context" plan batch --micro-batch 1 --max-steps 5 --token-throughput 5
refuse "--throughput: expected a number from" plan batch --micro-batch 1 --max-steps 5 --throughput nan
refuse "--throughput: expected a number from" plan batch --micro-batch 1 --max-steps 5 --throughput 1e-300
refuse "expected at most 10^9" plan batch --micro-batch 1000000 --max-steps 1000000000 --throughput 1e-6
refuse "need --throughput" plan batch --micro-batch 1 --price 2
refuse "missing.json" plan batch --config missing.json
accept plan batch --help
accept plan batch --global-tokens 4000000 --context 4000 --micro-batch 2 --ranks 128
cp "$work/out" shown
expect "3.9 accumulation steps are 4" grep -q '3.90625, rounded up to 4$' shown
expect "an exact alternative" grep -qE '^ +2 +4 +125 +1,000$' shown
accept plan batch --batch-size 1000 --micro-batch 2 --ranks 8 --max-accumulation --json -
cp "$work/out" shown
expect "a cap of 8" grep -q '"accumulation": 8,$' shown
printf '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}}' >ds.json
refuse "add --ranks" plan batch --config ds.json
refuse "--config and --json both name 'ds.json'" plan batch --config ds.json --ranks 8 --json ds.json
refuse "--output and --json both name 'o.json'" plan batch --config ds.json --ranks 8 --output o.json --json o.json
refuse "a contradiction" plan batch --config ds.json --ranks 5 --output completed.json
refuse "missing/ds.json" plan batch --config ds.json --ranks 8 --output missing/ds.json
accept plan batch --config ds.json --ranks 8 --output completed.json
expect "the third number" grep -q '"gradient_accumulation_steps": 4$' completed.json
expect "other keys" grep -q '"enabled": true$' completed.json
refuse "which model?" plan memory
refuse "--mlp" plan memory --mlp 784,0
refuse "--mlp" plan memory --mlp 784,10 --layers 2
refuse "--layers: expected --width with it, found none" plan memory --layers 2
refuse "7 heads do not divide" plan memory --layers 2 --width 64 --heads 7 --context 8 --vocabulary 9
refuse "2 layers are trained: expected 1 to 1" plan memory --mlp 7,1 --trainable-layers 2
refuse "--zero" plan memory --parameters 1000 --zero 4
refuse "too large" plan memory --mlp 1000000000000,1000000000000
refuse "--trainable-fraction: expected a number from 0 to 1, found 'nan'" plan memory --parameters 1000 --trainable-fraction nan
refuse "cannot be used with --inference" plan memory --mlp 7,1 --inference --recompute 2
refuse "--optimizer cannot be used with --inference" plan memory --mlp 7,1 --inference --optimizer sgd
refuse "segments of 7 layers" plan memory --mlp 7,7,1 --recompute 7
refuse "--recompute 2 has no effect: expected --mlp or --attention tiled with it" plan memory --parameters 1000 --recompute 2
refuse "--recompute-granularity and --trainable-fraction are for --attention plain; tiled has --recompute" plan memory --layers 2 --width 8 --heads 2 --context 8 --vocabulary 9 --attention tiled --recompute-granularity full
refuse "missing/plan.json" plan memory --parameters 1000 --json missing/plan.json
refuse "--parameters cannot be used with --micro-batch" plan memory --parameters 1000 --micro-batch 4
accept plan memory --help
accept plan memory --mlp 4096,2048,2048,4096 --no-bias --micro-batch 4 --inference
cp "$work/out" shown
expect "80 MiB of parameters" grep -qE '^parameters +83,886,080 +80 MiB ' shown
expect "0.1875 MiB of activations" grep -q '4 x 4 x 12,288 = 192 KiB = 0.1875 MiB' shown
accept plan memory --parameters 7500000000 --dtype bf16 --zero 1 --ranks 64
cp "$work/out" shown
expect "the ZeRO paper's 31.4 GB" grep -q '31.41 GB of 10^9 bytes$' shown
accept plan memory --layers 12 --width 768 --heads 12 --context 1024 --vocabulary 50257 --json -
cp "$work/out" shown
expect "GPT-2's parameters" grep -q '"parameters": 124439808,$' shown
rate=(plan lr --dataset 1281167 --epochs 90)
refuse "--lr: found none, expected one" "${rate[@]}" --batch-size 8192
refuse "--lr: expected 0 or a number from 1.4e-45 to 3.4e38, found 'nan'" "${rate[@]}" --batch-size 8192 --lr nan
refuse "found '-1'" "${rate[@]}" --batch-size 8192 --lr=-1
refuse "--batch-size" "${rate[@]}" --batch-size 0 --lr 0.1
refuse "larger than the data" "${rate[@]}" --batch-size 2000000 --lr 0.1
refuse "--warmup 14130 is not shorter" "${rate[@]}" --batch-size 8192 --lr 0.1 --warmup 14130
refuse "--warmup" "${rate[@]}" --batch-size 8192 --lr 0.1 --warmup=-1
refuse "expected at most 10000000" "${rate[@]}" --batch-size 1 --lr 0.1
refuse "--schedule" "${rate[@]}" --batch-size 8192 --lr 0.1 --schedule square
refuse "--power 3 has no effect: expected --schedule polynomial with it" "${rate[@]}" --batch-size 8192 --lr 0.1 --power 3
refuse "--base-batch 256 has no effect: expected --lr-scaling with it" "${rate[@]}" --batch-size 8192 --lr 0.1 --base-batch 256
accept "${rate[@]}" --batch-size 8192 --lr 0.1
accept "${rate[@]}" --batch-size 8192 --lr 0
accept plan lr --help
accept "${rate[@]}" --batch-size 8192 --lr 0.1 --lr-scaling linear --base-batch 256 --warmup auto
cp "$work/out" shown
expect "linear: 3.2" grep -q '= 0.1 x 32 = 3.2  <- taken$' shown
expect "square root: 0.566" grep -q '= 0.1 x sqrt(32) = 0.565685$' shown
expect "782 steps of warm-up" grep -q '0.3125 x 1,281,167 / 512 = 781.962, rounded up to 782 steps$' shown
accept plan lr --lr 6e-4 --batch-size 512 --dataset 9765625 --epochs 1 --warmup auto
cp "$work/out" shown
expect "no more than a quarter of the run" grep -q '/ 512 = 5960.46, rounded up to 5,961 steps, capped at 19,074 / 4 = 4,768$' shown
accept plan lr --lr 0.1 --batch-size 8192 --dataset 1281167 --epochs 2.5
cp "$work/out" shown
expect "half an epoch" grep -q '157 x 2.5 = 392.5, rounded up to 393$' shown
accept "${rate[@]}" --batch-size 8192 --lr 0.1 --json -
cp "$work/out" shown
expect "the number of steps" grep -q '"steps": 14130,$' shown
scale=(plan scale --parameters 10000000 --micro-batch 4)
refuse "which model? Expected --parameters or --layers" plan scale
refuse "--svg and --json both name './a.svg'" "${scale[@]}" --svg a.svg --json ./a.svg
layers=(plan scale --layers 4 --width 256 --heads 4 --context 128 --vocabulary 1000 --ranks "1,8")
accept "${layers[@]}"
cp "$work/out" "$work/text"
accept "${layers[@]}" --tensor-parallel 1
expect "plan scale: layers alone are a mesh of data ranks" cmp "$work/out" "$work/text"
refuse "--recompute" "${scale[@]}" --recompute 1
refuse "--gradient-bytes" "${layers[@]}" --tensor-parallel 1 --gradient-bytes 2
refuse "--parameters" plan scale --parameters 0
refuse "--micro-batch" plan scale --parameters 10 --micro-batch=-1
refuse "the micro-batch of 4 is larger than the global batch of 2" "${scale[@]}" --batch-size 2
refuse "--cluster: expected h100-ndr, v100-edr or p100-ethernet, found 'abacus'" "${scale[@]}" --cluster abacus
refuse "--algorithm: expected ring, tree or hierarchical, found 'star'" "${scale[@]}" --algorithm star
refuse "--jitter-shape: expected lognormal or exponential, found 'uniform'" "${scale[@]}" --jitter 0.1 --jitter-shape uniform
refuse "--jitter-shape: expected --jitter with it, found none" "${scale[@]}" --jitter-shape exponential
refuse "--sync-each-micro-batch has no effect: expected --accumulation above 1 or --batch-size with it" "${scale[@]}" --sync-each-micro-batch
refuse "--sequence-parallel has no effect: expected --tensor-parallel above 1 with it" "${layers[@]}" --tensor-parallel 1 --sequence-parallel
refuse "--pipeline-chunks 2 has no effect: expected --pipeline-parallel above 1 with it" "${layers[@]}" --pipeline-parallel 1 --pipeline-chunks 2
refuse "12 ranks do not fill nodes of 8" "${scale[@]}" --ranks 8,12
refuse "--forward-ms: expected --backward-ms with it" "${scale[@]}" --forward-ms 3
refuse "--mtbf-hours: expected --checkpoint-seconds with it" "${scale[@]}" --mtbf-hours 1000
refuse "--inter-node-bandwidth" "${scale[@]}" --inter-node-bandwidth 0
refuse "--bucket-mib" "${scale[@]}" --bucket-mib 0
refuse "--zero" "${scale[@]}" --zero 4
refuse "--forward-ms: expected a number from 0 to" "${scale[@]}" --forward-ms nan --backward-ms 1
refuse "--flops: expected a number from 1 to" "${scale[@]}" --flops inf
refuse "--forward-ms cannot be used with --flops" "${scale[@]}" --flops 1e12 --forward-ms 1 --backward-ms 1
refuse "--mtbf-hours: expected a number from 1 to" "${scale[@]}" --mtbf-hours 1e-9 --checkpoint-seconds 1
refuse "expected a file name that ends with .svg, found 'x.png'" "${scale[@]}" --ranks 8 --svg x.png
refuse "missing/scale.svg" "${scale[@]}" --ranks 8 --svg missing/scale.svg
gpt=(--layers 8 --width 256 --heads 8 --context 128 --vocabulary 1000)
accept plan parallel --help
accept plan parallel "${gpt[@]}" --ranks 16 --batch-size 64 --json plans.json
cp "$work/out" "$work/text"
expect "text as well as the file" grep -q '^tensor context pipeline ' "$work/text"
if command -v python3 >/dev/null; then
  expect "plan parallel: all meshes, by their time" python3 -c '
import json
plans = json.load(open("plans.json"))
found = {(p["tensor"], p["context"], p["pipeline"], p["data"]) for p in plans["plans"]}
powers = [1, 2, 4, 8, 16]
assert found == {(t, c, p, 16 // t // c // p) for t in powers[:4] for c in powers for p in powers[:4] if t * c * p <= 16}, found
times = [p["step_seconds"] for p in plans["plans"]]
assert times == sorted(times)
assert {(l["tensor"], l["reason"]) for l in plans["left_out"]} == {(16, "16 tensor ranks do not divide 8 heads, the nearest that divides both them and the ranks is 8"), (1, "a model of 8 layers has no block for each of 16 stages")}'
else
  echo "skipped: no Python here to read all meshes of plan parallel"
fi
rm plans.json
refuse "--layers" plan parallel --ranks 16
refuse "--vocabulary" plan parallel "${gpt[@]:0:8}" --ranks 16
refuse "3 heads of keys and values do not divide 8 heads" plan parallel "${gpt[@]}" --ranks 16 --kv-heads 3
refuse "--sequence-parallel cannot be used with --no-sequence-parallel" plan parallel "${gpt[@]}" --ranks 16 --sequence-parallel --no-sequence-parallel
refuse "--no-reshard cannot be used with --reshard" plan parallel "${gpt[@]}" --ranks 16 --reshard --no-reshard
accept plan parallel "${gpt[@]}" --ranks 8 --tensor-parallel 2 --pipeline-parallel 2 --context-parallel 1 --zero 3 --micro-batch 4 \
  --sequence-parallel --pipeline-chunks 2 --recompute 2 --no-reshard
expect "one configuration, with all that is fixed" grep -qE ' 1 configuration computed$' "$work/out"
expect "in its row" grep -qE ' +no reshard, sequence, recompute 2, 2 chunks$' "$work/out"
accept plan parallel "${gpt[@]}" --ranks 8 --tensor-parallel 2 --pipeline-parallel 2 --context-parallel 1 --zero 3 --micro-batch 4 \
  --no-sequence-parallel --pipeline-chunks 2 --recompute 2 --reshard
expect "one configuration with the opposite too" grep -qE ' 1 configuration computed$' "$work/out"
expect "in its row too" grep -qE ' {2,}recompute 2, 2 chunks$' "$work/out"
refuse "--ranks" plan parallel "${gpt[@]}" --ranks 0
refuse "--tensor-parallel 3: expected a divisor of the 16 ranks" plan parallel "${gpt[@]}" --ranks 16 --tensor-parallel 3
refuse "--context-parallel 3: expected a divisor of the 16 ranks" plan parallel "${gpt[@]}" --ranks 16 --context-parallel 3
refuse "fits into 1 MiB a rank: the least," plan parallel "${gpt[@]}" --ranks 16 --memory 1MiB
refuse "--memory: expected a whole number with a unit" plan parallel "${gpt[@]}" --memory 1.5GB
refuse "16 tensor ranks do not divide 8 heads, the nearest that divides both them and the ranks is 8" plan parallel "${gpt[@]}" --ranks 16 --tensor-parallel 16
refuse "micro-batches of 3 do not divide the 4 samples of a rank, the nearest that do are of 2" plan parallel "${gpt[@]}" --ranks 16 --batch-size 64 --tensor-parallel 1 --context-parallel 1 --pipeline-parallel 1 --micro-batch 3
refuse "--compress cannot be used with --zero 1: expected one of them" plan parallel "${gpt[@]}" --ranks 16 --compress bf16 --zero 1
refuse "--no-reshard has no effect: expected --zero 3 with it, found --zero 2" plan parallel "${gpt[@]}" --ranks 16 --zero 2 --no-reshard
refuse "--sequence-parallel has no effect: expected --tensor-parallel above 1 with it" plan parallel "${gpt[@]}" --ranks 16 --tensor-parallel 1 --sequence-parallel
refuse "--pipeline-chunks 2 has no effect: expected --pipeline-parallel above 1 with it" plan parallel "${gpt[@]}" --ranks 16 --pipeline-parallel 1 --pipeline-chunks 2
accept plan scale --help
accept "${scale[@]}" --ranks 1,8,64,100000 --svg scale.svg
expect "four rows, the last in closed form" [ "$(grep -cE '^ +[0-9,]+ +1 +[0-9,]+ .*%( +[*])?$' "$work/out")" -eq 4 ]
expect "a picture" [ "$(grep -c '<path .*class="line l0"' scale.svg)" -eq 3 ]
accept "${scale[@]}" --max-ranks 64 --json -
cp "$work/out" shown
expect "7 numbers of ranks as JSON, for each of 3 algorithms" [ "$(grep -c '"ranks":' shown)" -eq 21 ]
accept "${scale[@]}" --ranks 8,8 --json -
cp "$work/out" shown
expect "a number of ranks given twice appears once" [ "$(grep -c '"ranks":' shown)" -eq 3 ]
accept "${scale[@]}" --ranks-per-node 6 --max-ranks 100
cp "$work/out" shown
expect "whole nodes" grep -qE '^ +96 ' shown
accept "${scale[@]}" --batch-size 30 --ranks 1,8
cp "$work/out" shown
expect "a rounded batch" grep -qxF 'note: the batch of 30 is rounded up to whole micro-batches of all ranks: 32 on 1 rank, 32 on 8 ranks' shown
rm shown scale.svg

refuse "--batch-size: found none, expected one" plan fit
refuse "which model?" plan fit --batch-size 8
refuse "expected a whole number with a unit, such as 1500MB, found '-5'" plan fit --batch-size 8 --memory=-5 --state 1GB --sample 1MB
refuse "with a unit, such as 1500MB, found '16'" plan fit --batch-size 8 --memory 16 --state 1GB --sample 1MB
refuse "expected a whole number with a unit, such as 1500MB, found '1.5GB'" plan fit --batch-size 8 --memory 1.5GB --state 1GB --sample 1MB
refuse "--state cannot be used with --optimizer" plan fit --batch-size 8 --memory 1GB --state 1GB --sample 1MB --optimizer sgd
refuse "--estimate cannot be used with --device" plan fit --batch-size 8 --memory 1GB --mlp 784,10 --estimate --device cpu
refuse "--state and --sample: expected --memory too" plan fit --batch-size 8 --state 1GB --sample 1MB
refuse "--estimate: expected --memory too" plan fit --batch-size 8 --mlp 784,10 --estimate
refuse "--memory must be from 1 byte" plan fit --batch-size 8 --memory 0GB --state 1GB --sample 1MB
refuse "--memory must be from 1 byte" plan fit --batch-size 8 --memory 0GB --mlp 784,10
refuse "--state must be from 1 byte" plan fit --batch-size 8 --memory 1GB --state 0GB --sample 1MB
refuse "--state: expected --sample with it" plan fit --batch-size 8 --memory 1GB --state 1GB
refuse "filling a CPU's memory ends other programs" plan fit --batch-size 8 --mlp 784,10 --device cpu
refuse "not even a micro-batch of 1 fits" plan fit --batch-size 8 --mlp 784,2048,10 --device cpu --memory 1MiB
refuse "expected at most that to run the model, or --estimate" plan fit --batch-size 8 --mlp 784,10 --device cpu --memory 900TB
refuse "it takes" plan fit --batch-size 8 --mlp 784,2048,10 --estimate --memory 1MiB
accept plan fit --help
expect "no default of a required flag" grep -q '^  --batch-size INT REQUIRED ' "$work/out"
expect "the units of --memory" bash -c 'tr -s " \n" " " <"$1" | grep -qF "GB or TB (powers of 1000) or of KiB, MiB,"' - "$work/out"
accept plan fit --memory 16GB --state 14GB --sample 50MB --batch-size 256
cp "$work/out" shown
expect "the division" grep -q '^micro-batch = (16GB - 14GB) / 50MB = 40$' shown
expect "a micro-batch of 40" grep -qE '^ +40 +7 +1 +280$' shown
expect "alternatives that fit" [ "$(grep -cE '^ +64 +4 +1 +256$' shown)" -eq 0 ]
accept plan fit --mlp 784,64,10 --memory 1MiB --device cpu --batch-size 64 --json -
cp "$work/out" shown
expect "a throughput" grep -q '"samples_per_second": ' shown
rm shown ds.json completed.json

# ---- checkpoints ------------------------------------------------------------------------------------------

base=(regression --device cpu --checkpoint-every 20)
run=("${base[@]}" --checkpoint run --hidden 16)
refuse "--checkpoint" regression --resume
refuse "--checkpoint" regression --checkpoint-every 10
refuse "--checkpoint-every" regression --checkpoint run --checkpoint-every 0
refuse "--keep" regression --checkpoint run --keep 0
refuse "--eval-only" regression --checkpoint run --eval-only --load a.safetensors
refuse "missing/run" "${base[@]}" --checkpoint missing/run
refuse "--checkpoint: a.jsonl: is not a folder, expected one for checkpoints" "${base[@]}" --checkpoint a.jsonl
accept "${run[@]}" --max-steps 60 --metrics whole.jsonl --save whole.safetensors
refuse "continue them with --resume" "${run[@]}" --max-steps 60
refuse "--seed was 0, found 1" "${run[@]}" --resume --max-steps 60 --seed 1
refuse "--batch-size was 64, found 32" "${run[@]}" --resume --max-steps 60 --batch-size 32
refuse "the run had 60 steps, now it has 80, and its schedule depends on that: with --change-length" "${run[@]}" --resume --max-steps 80
refuse "--hidden was 16, found 8,8" "${base[@]}" --checkpoint run --resume --max-steps 60 --hidden 8,8
refuse "--optimizer was adam, found sgd" "${run[@]}" --resume --max-steps 60 --optimizer sgd
exec 9>run/lock && flock -n 9
refuse "another process" "${run[@]}" --resume --max-steps 60
exec 9>&-

# With a damaged newest checkpoint the run resumes from the one before, and so do its metrics.
cp whole.jsonl resumed.jsonl
printf 'x' | dd of=run/step-000000000060.safetensors bs=1 seek=900 conv=notrunc status=none
"$bin/regression" "${run[@]:1}" --resume --max-steps 60 --lr 1e-3 --metrics resumed.jsonl --save resumed.safetensors \
  >resumed.out 2>resumed.err || failure "a damaged newest checkpoint: $(cat resumed.err)"
expect "a warning names the damaged file" grep -q '^warning: .*step-000000000060.safetensors' resumed.err
expect "resumed after step 40" grep -q '^resumed after step 40,' resumed.out
expect "the same weights after resuming" cmp whole.safetensors resumed.safetensors
expect "the same metrics after resuming" [ "$(without_times whole.jsonl)" = "$(without_times resumed.jsonl)" ]
for json in run/*.json; do : >"$json"; done
refuse "found 3 checkpoints damaged and no complete one; the newest: run/step-000000000060.json: is empty, expected a checkpoint" "${run[@]}" --resume --max-steps 60
rm -r run

# In 16 bits the copy of the weights follows the restored ones, and the loss scale is restored: with 8 samples a batch the
# first steps overflow.
for dtype in bf16 f16; do
  half=("${base[@]}" --dtype "$dtype" --optimizer lamb --batch-size 8 --schedule constant --hidden 16)
  accept "${half[@]}" --checkpoint run --max-steps 40
  accept "${half[@]}" --checkpoint run --resume --max-steps 60 --save resumed.safetensors
  rm -r run
  accept "${half[@]}" --checkpoint run --max-steps 60 --save whole.safetensors
  expect "$dtype: the same weights after resuming" cmp whole.safetensors resumed.safetensors
  rm -r run
done

# A run resumed with fewer steps than it has; one resumed with more, under a schedule that allows it.
run+=(--schedule constant)
accept "${run[@]}" --max-steps 60
refuse "--resume: run is at step 60, expected at most the 50 steps of this run" "${run[@]}" --resume --max-steps 50
cp "$work/out" "$work/refused"
expect "refused before the header" [ ! -s "$work/refused" ]
# A refused run leaves the records of the steps after its checkpoint too.
printf '{"step":60,"loss":1}\n{"step":61,"loss":1}\n' >kept.jsonl
refuse "--profile-steps 1:1: the run has none of these steps" "${run[@]}" --resume --max-steps 70 --profile \
  --profile-steps 1:1 --metrics kept.jsonl
expect "the existing metrics" [ "$(wc -l <kept.jsonl)" -eq 2 ]
rm kept.jsonl
# A full disk, simulated by a limit of 2 KiB for a file.
before=$(cksum run/*)
soft_limit=$(ulimit -S -f)
ulimit -S -f 2
"$bin/${run[0]}" "${run[@]:1}" --resume --max-steps 80 >"$work/out" 2>"$work/err"
expect "a run whose last checkpoint is lost is an error" [ $? -eq 1 ]
ulimit -S -f "$soft_limit"
expect "at the end, after a warning" [ "$(cut -d ' ' -f 1 "$work/err" | tail -n 2 | tr '\n' ' ')" = "warning: error: " ]
expect "which names the step" grep -q '^error: --checkpoint: checkpoint of step 80 was not saved, older ones are unchanged: .*File too large' "$work/err"
expect "the old checkpoints after a full disk" [ "$before" = "$(cksum run/*)" ]
accept "${run[@]}" --resume --max-steps 80
rm -r run

# Every flag that changes the result of training.
accept "${base[@]}" --checkpoint run --max-steps 20 --clip-norm 1
while read -ra changed; do
  flag=$(printf '%s\n' "${changed[@]}" | grep -e '^--' | tail -n 1)
  refuse "$flag was " "${base[@]}" --checkpoint run --resume --max-steps 20 --clip-norm 1 "${changed[@]}"
done <<'FLAGS'
--seed 1
--hidden 8
--dtype bf16
--batch-size 32
--optimizer lamb
--lr 0.5
--optimizer sgd --momentum 0.5
--beta1 0.5
--beta2 0.5
--weight-decay 0.5
--weight-decay 0.5 --decay-biases
--clip-norm-type 1
--clip-each-micro-batch
--clip-value 0.5
--schedule constant
--final-lr-fraction 0.5
--schedule polynomial --power 3
--schedule step --step-epochs 2
--schedule step --gamma 0.1
--warmup 2
--warmup 2 --warmup-shape quadratic
--lr-scaling sqrt
--lr-scaling sqrt --base-batch 8
FLAGS
refuse "--beta1 was not set, found 0.5" "${base[@]}" --checkpoint run --resume --max-steps 20 --clip-norm 1 --beta1 0.5
refuse "--clip-norm was 1, found 2" "${base[@]}" --checkpoint run --resume --max-steps 20 --clip-norm 2
# Another spelling, or an optimizer's own default, is not a different value.
accept "${base[@]}" --checkpoint run --resume --max-steps 20 --clip-norm 01 --warmup 00 --seed 000 --beta1 0.90 --weight-decay 0

# A file that contains anything but metrics is not truncated, whatever follows its first records.
printf 'buy milk\n' >notes.txt
printf 'buy milk' >line.txt
printf '{"milk": 2}\n' >other.jsonl
printf '{"step":1}\n{"step":21}\nbuy milk\n' >mixed.jsonl
for notes in notes.txt line.txt other.jsonl mixed.jsonl; do
  before=$(cksum $notes)
  refuse "--metrics: $notes cannot be continued" "${base[@]}" --checkpoint run --resume --max-steps 20 --clip-norm 1 \
    --metrics $notes
  expect "$notes as it was" [ "$before" = "$(cksum $notes)" ]
done
printf '{"step":20,"loss":1}\n{"step":21}\n{"event":"done"}\n{"st' >half.jsonl
accept "${base[@]}" --checkpoint run --resume --max-steps 20 --clip-norm 1 --metrics half.jsonl
expect "cut off after step 20" [ "$(head -n 1 half.jsonl)" = '{"step":20,"loss":1}' ]
expect "and continued" [ "$(sed 1d half.jsonl | grep -c '^{"event":"done"')" -eq "$(sed 1d half.jsonl | wc -l)" ]
rm -r run

# The same number of other samples.
for i in {1..50}; do printf '%d,%d\n' "$i" $((3 * i)); done >table.csv
table=("${base[@]}" --checkpoint run --max-steps 2)
accept "${table[@]}" --data table.csv
cp table.csv moved.csv
accept "${table[@]}" --resume --data moved.csv
sed -i 's/^7,21$/7,22/' table.csv
refuse "data was 40 samples with the CRC-32 " "${table[@]}" --resume --data table.csv

# Valid checksums over an epoch that began too late, or that has no beginning.
for first in 1e6 -1 0.5 nan; do
  if ! python3 - run/step-000000000002 "$first" <<'PYTHON'
import json, struct, sys, zlib
name, first = sys.argv[1], float(sys.argv[2])
data = bytearray(open(name + ".safetensors", "rb").read())
header = struct.unpack("<Q", data[:8])[0]
begin = 8 + header + json.loads(data[8:8 + header])["history.recent"]["data_offsets"][0]
data[begin:begin + 8] = struct.pack("<d", first)
open(name + ".safetensors", "wb").write(data)
checkpoint = json.load(open(name + ".json"))["checkpoint"]
checkpoint["tensors"]["crc32"] = "%08x" % zlib.crc32(data)
body = '"checkpoint": ' + json.dumps(checkpoint) + "}\n"
open(name + ".json", "w").write('{"crc32": "%08x",\n' % zlib.crc32(body.encode()) + body)
PYTHON
  then
    echo "skipped: no Python here to write a checkpoint with an invalid epoch"
    break
  fi
  refuse "has an epoch that began after step" "${table[@]}" --resume --data moved.csv
done
rm -r run

# ---- malformed weights -------------------------------------------------------------------------------------

# header LENGTH JSON: the start of a safetensors file; LENGTH as 8 bytes, lowest first.
header() { printf '%b%s' "$1" "$2"; }
refuse "missing.safetensors" mnist --load missing.safetensors
refuse "0.weight" mnist --load a.safetensors --hidden 64
refuse "0.weight" regression --load a.safetensors
head -c 4 a.safetensors >bad.safetensors
refuse "expected at least 8" mnist --load bad.safetensors
head -c -100 a.safetensors >bad.safetensors
refuse "data_offsets" mnist --hidden 32 --load bad.safetensors
sed 's/F32/F16/' a.safetensors >bad.safetensors
refuse "F16" mnist --hidden 32 --load bad.safetensors
sed 's/0\.bias/0.bees/' a.safetensors >bad.safetensors
refuse "0.bias" mnist --hidden 32 --load bad.safetensors
header '\xff\xff\xff\xff\xff\xff\xff\x7f' '{}' >bad.safetensors
refuse "at most 100000000" mnist --load bad.safetensors
echo 'a text of some words' >bad.safetensors
refuse "bad.safetensors: is not a safetensors file: it claims" mnist --load bad.safetensors
header '\x05\x00\x00\x00\x00\x00\x00\x00' '{"a":' >bad.safetensors
refuse "not valid JSON" mnist --load bad.safetensors
header '\x3f\x00\x00\x00\x00\x00\x00\x00' '{"0.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,400]}}' >bad.safetensors
refuse "[0, 400]" mnist --load bad.safetensors

# ---- errors that once were silent ----------------------------------------------------------------------

# refuse_early TEXT PROGRAM ARGUMENTS...: as refuse, before anything is printed.
refuse_early() {
  refuse "$@"
  expect "${*:2}: refused before the header" [ "$(wc -c <"$work/out")" -eq 0 ]
}

refuse_early "expected a value on each side of a comma, found '3,,4'" mnist --hidden 3,,4
refuse_early "expected a whole number, found '2.5'" mnist --epochs 2.5
refuse_early "expected a whole number from -2^63 to 2^63 - 1, found '99999999999999999999'" mnist --max-steps 99999999999999999999
refuse_early "--micro-batch 100 is larger than the 64 samples" mnist --micro-batch 100
refuse_early "--clip-norm-type: expected a number of at least 1e-06, found '0'" mnist --clip-norm 1 --clip-norm-type 0
refuse_early "--profile-steps 5:9: the run has 4 steps" mnist --device cpu --profile --profile-steps 5:9 --max-steps 4
refuse_early "expected one of them" mnist --device cpu --profile-steps 2:4
refuse_early "records from the second update on, but the run has 1" mnist --device cpu --profile --max-steps 1
refuse_early "--sort device" mnist --device cpu --profile --sort device

# A model that does not fit is refused before it is created, and a large one is announced.
refuse_early "out of memory on cpu: model 784-1-1048576-1048576-10 would take about 16 TiB" mnist --device cpu --hidden 1,1048576,1048576
"$bin/mnist" --device cpu --hidden 1048576 >large 2>large.err </dev/null &
large=$!
for _ in {1..300}; do
  [ -s large ] || [ -s large.err ] && break
  sleep 0.1
done
kill "$large" 2>/dev/null
wait "$large" 2>/dev/null
expect "a large model is announced or refused" grep -qE "making model 784-1048576-10, which needs about [0-9.]+ GiB of|would take about [0-9.]+ GiB" large large.err
rm large large.err

# A link to a file that does not exist yet stays a link.
ln -s target.safetensors dangling
accept mnist --max-steps 1 --save dangling
expect "the link stays" [ -L dangling ]
expect "the weights are where it leads" [ -s target.safetensors ]
rm dangling target.safetensors
ln -s missing/w.safetensors dangling
refuse "missing/w.safetensors: cannot write" mnist --max-steps 1 --save dangling
rm dangling

# NaN has no sign in messages.
refuse "training diverged" mnist --optimizer sgd --lr 1e6 --max-steps 60
expect "no -nan" [ "$(grep -cF -- "-nan" "$work/err")" -eq 0 ]

# A test loss that is not finite is no reason to lose the weights of a training whose losses are.
"$bin/mnist" --device cpu --hidden 8 --max-steps 1 --optimizer sgd --lr 1e30 --save last.safetensors >"$work/out" 2>"$work/err"
expect "a test loss that is not finite is an error" [ $? -eq 1 ]
expect "which says so" grep -q '^error: the test loss is not finite after 1 step: found ' "$work/err"
expect "after the weights are written" [ -s last.safetensors ]
rm last.safetensors

# The same after an evaluation: the last value of these weights is a NaN.
{ head -c -4 a.safetensors && printf '\xff\xff\xff\x7f'; } >nan.safetensors
"$bin/mnist" --device cpu --hidden 32 --load nan.safetensors --eval-only >"$work/out" 2>"$work/err"
expect "a test loss that is not finite is an error after --eval-only too" [ $? -eq 1 ]
expect "with the same text" grep -q '^error: the test loss is not finite: found nan$' "$work/err"
rm nan.safetensors

# A file that cannot be written during the run causes only a warning; the run and its weights are complete.
if [ -w /dev/full ]; then
  "$bin/mnist" --max-steps 5 --metrics /dev/full --save kept.safetensors >"$work/out" 2>"$work/err" </dev/null
  expect "a run whose metrics are lost ends with 0" [ $? -eq 0 ]
  expect "one warning" [ "$(grep -c "^warning: --metrics: /dev/full cannot be written: No space left on device" "$work/err")" -eq 1 ]
  expect "and its weights" [ -s kept.safetensors ]
  rm kept.safetensors
  # What is printed is lost, nothing that is written to a file: more than the buffer of standard output holds.
  "$bin/mnist" --hidden 8 --max-steps 2 --profile --print-tape --memory-report --save kept.safetensors \
    --report kept.html --timeline kept.json >/dev/full 2>"$work/err"
  expect "a run whose output is lost ends with 1" [ $? -eq 1 ]
  expect "one error" [ "$(cat "$work/err")" = "error: standard output cannot be written" ]
  for file in kept.safetensors kept.html kept.json; do expect "its $file" [ -s $file ]; done
  rm -f kept.safetensors kept.html kept.json
fi
# A reader of the metrics that ends costs only the metrics.
mkfifo metrics.fifo
head -n 2 metrics.fifo >/dev/null &
"$bin/mnist" --max-steps 400 --hidden 8 --metrics metrics.fifo --save kept.safetensors --quiet 2>"$work/err"
expect "a run whose metrics nobody reads ends with 0" [ $? -eq 0 ]
expect "one warning" grep -q "^warning: --metrics: metrics.fifo cannot be written: Broken pipe" "$work/err"
expect "and its weights" [ -s kept.safetensors ]
wait
rm metrics.fifo kept.safetensors

# A schedule that depends on the length: the error for a longer run names the flag, which allows it.
accept mnist --max-steps 3 --hidden 8 --checkpoint run
refuse "with --change-length it continues" mnist --max-steps 6 --hidden 8 --checkpoint run --resume
refuse "--hidden was 8, found 9" mnist --max-steps 6 --hidden 9 --checkpoint run --resume
accept mnist --max-steps 6 --hidden 8 --checkpoint run --resume --change-length
rm -r run

# The same warm-up as a number, with which the length may change as well.
constant=(regression --device cpu --hidden 8 --schedule constant --checkpoint run)
accept "${constant[@]}" --max-steps 20 --warmup auto
refuse "change freely with a number as --warmup, here 5" "${constant[@]}" --max-steps 40 --warmup auto --resume
refuse "--warmup was 5, found 6" "${constant[@]}" --max-steps 20 --warmup 6 --resume
accept "${constant[@]}" --max-steps 20 --warmup 5 --resume
accept "${constant[@]}" --max-steps 40 --warmup auto --resume --change-length
# A warm-up that is a number does not follow the length.
refuse "--warmup was 10, found 12" "${constant[@]}" --max-steps 60 --warmup 12 --resume --change-length
rm -r run
# Nor did it when it was a number.
accept "${constant[@]}" --max-steps 20 --warmup 5
refuse "--warmup was 5, found 10" "${constant[@]}" --max-steps 40 --warmup auto --resume --change-length
rm -r run

# Tables as other programs write them, also compressed and through a pipe.
printf '"a, b","y"\n' >table.csv
for i in {1..50}; do printf '"%d",+%d.5\r\n' "$i" $((3 * i)); done >>table.csv
gzip -c table.csv >table.csv.gz
for table in table.csv table.csv.gz; do accept regression --data "$table" --epochs 2 --metrics "$table.jsonl"; done
"$bin/regression" --data - --epochs 2 --metrics piped.jsonl <table.csv.gz >piped
expect "a table through a pipe" grep -q "^standard input: 40 training and 10 test samples" piped
for file in table.csv.gz.jsonl piped.jsonl; do
  expect "$file: the same losses" cmp <(grep -oE '"loss":[^,]*' table.csv.jsonl) <(grep -oE '"loss":[^,]*' "$file")
done
refuse "/dev/stdin: is not a regular file, expected one, or - for standard input" regression --data /dev/stdin
refuse "standard input: has no rows of numbers" regression --data -
head -c 60 table.csv.gz >cut.csv.gz
refuse "cut.csv.gz: the gzip data is truncated" regression --data cut.csv.gz
rm table.csv table.csv.gz cut.csv.gz piped ./*.jsonl

# Large numbers with small differences are standardised before they are rounded to f32.
awk 'BEGIN { for (i = 0; i < 200; ++i) { x = (i * 37 % 200) / 100; printf "%.17g,%.17g\n", 1.7e9 + x, 3 * x } }' >time.csv
awk -F , '{ printf "%.17g,%s\n", $1 - 1.7e9, $2 }' time.csv >small.csv
for table in time small; do
  accept regression --device cpu --data $table.csv --epochs 20 --hidden 8 --batch-size 16 --quiet --metrics $table.jsonl
done
loss_of() { tail -n 1 "$1" | grep -oE '"test_loss":[^,}]*' | cut -d: -f2; }
expect "times in seconds are fitted as their differences" awk -v a="$(loss_of time.jsonl)" -v b="$(loss_of small.jsonl)" \
  'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (1e-3 * b) ^ 2) }'
rm time.csv small.csv time.jsonl small.jsonl

# The first values in which two runs differ.
record() { accept mnist "${small[@]}" "${@:2}" --record-values "$1"; }
record a.jsonl
record b.jsonl
accept compare_runs a.jsonl b.jsonl
cp "$work/out" shown
expect "two equal runs" grep -q "^no difference in 60 steps: [0-9]* tensors compared$" shown
record cut.jsonl --micro-batch 16
accept compare_runs a.jsonl cut.jsonl --tolerance 1e-5
cp "$work/out" shown
expect "only parameters are compared" grep -q "left out: not in both runs, or of other shapes or batches$" shown
differ() { # TEXT ARGUMENTS...: compare_runs finds a difference, with a line that begins with TEXT
  "$bin/compare_runs" "${@:2}" >shown 2>"$work/err"
  expect "compare_runs ${*:2} ends with 1" [ $? -eq 1 ]
  expect "$1" grep -q "^$1" shown
}
# One value of the third step's gradient of an output, changed by 0.5.
if command -v python3 >/dev/null; then
  python3 - <<'EOF'
import json
rows = [json.loads(line) for line in open("a.jsonl")]
row = next(r for r in rows if r["step"] == 3 and r["kind"] == "gradient" and r["operation"] == "linear_relu")
row["samples"][7] += 0.5
row["crc32"] ^= 1
with open("b.jsonl", "w") as out:
    out.writelines(json.dumps(r) + "\n" for r in rows)
EOF
  differ "first difference: step 3, micro-batch 0, operation 0 on the tape, linear_relu in layer 0: gradient" a.jsonl b.jsonl
  differ "largest difference 0.5, among 64 of its" a.jsonl b.jsonl --tolerance 1e-3
else
  echo "skipped: no Python here to change a recorded value"
fi
differ "first difference: step 1, value of the parameter 0.weight" a.jsonl <(sed 's/"crc32":[0-9]*/"crc32":1/' a.jsonl)
# The first 40 of 60 steps, as first and as second file.
steps_to() { awk -F '[:,]' -v last="$1" '$2 <= last' "$2"; } # a row begins with {"step":N,
steps_to 40 a.jsonl >short.jsonl
differ "short.jsonl ends after 40 steps; a.jsonl continues" a.jsonl short.jsonl
expect "the steps of both are compared" grep -q "^no difference in 40 steps" shown
differ "short.jsonl ends after 40 steps; a.jsonl continues" short.jsonl a.jsonl
# A file without the last row of its last step, as the second and as the first.
awk -v rows="$(wc -l <a.jsonl)" 'NR < rows' a.jsonl >cut.jsonl
for files in "a.jsonl cut.jsonl" "cut.jsonl a.jsonl"; do
  read -ra arguments <<<"$files"
  accept compare_runs "${arguments[@]}"
  cp "$work/out" shown
  expect "$files: the missing row is counted" grep -q "^no difference in 60 steps: .* compared, 1 left out: not in both runs" shown
done
refuse "missing.jsonl cannot be read: No such file or directory" compare_runs a.jsonl missing.jsonl
refuse "/dev cannot be read: Is a directory" compare_runs a.jsonl /dev
refuse "/dev/null is empty, expected the rows of --record-values" compare_runs a.jsonl /dev/null
echo '{"step":1}' >bad.jsonl
refuse "bad.jsonl: line 1 is no row of --record-values" compare_runs a.jsonl bad.jsonl
refuse "--tolerance" compare_runs a.jsonl b.jsonl --tolerance -1
# A resumed run has the rows of an uninterrupted one.
six=(mnist --device cpu --hidden 32 --max-steps 6)
accept "${six[@]}" --record-values whole.jsonl
accept "${six[@]}" --checkpoint parts --checkpoint-every 3 --record-values parts.jsonl
steps_to 4 parts.jsonl >cut.jsonl
mv cut.jsonl parts.jsonl
rm parts/step-000000000006.*
accept "${six[@]}" --checkpoint parts --checkpoint-every 3 --resume --record-values parts.jsonl
expect "the rows of a resumed run" cmp parts.jsonl whole.jsonl
rm -r parts
refuse "--record-values cannot be used with --graph" mnist "${small[@]}" --graph --record-values c.jsonl
rm shown ./*.jsonl

# ---- gpt --------------------------------------------------------------------------------------------------
refuse "--show-pipeline cannot be used with --save-model" gpt train --pipeline-parallel 2 --show-pipeline --save-model shown
steps=(--epochs 1 --steps-per-epoch 12 --batch-size 4 --warmup 2 --quiet)
small=(--layers 1 --heads 2 --width 16 --context 16 "${steps[@]}")
accept gpt train "${small[@]}" --sample-tokens 20 --save-model model
accept gpt generate --model model --prompt "ROMEO:" --tokens 30 --temperature 0
cp "$work/out" "$work/first"
accept gpt generate --model model --prompt "ROMEO:" --tokens 30 --temperature 0
cp "$work/out" "$work/text"
expect "gpt generate: the same text again" cmp "$work/text" "$work/first"
accept gpt generate --model model --tokens 40 --top-k 5 --top-p 0.9 --seed 3 --stop e
accept gpt generate --model model --prompt "ROMEO:" --tokens 30 --seed 7
cp "$work/out" "$work/both"
accept gpt generate --model model --prompt "The king" --tokens 30 --seed 8
{ echo && cat "$work/out"; } >>"$work/both"
accept gpt generate --model model --prompt "ROMEO:" --prompt "The king" --tokens 30 --seed 7
cp "$work/out" "$work/text"
expect "gpt generate: each of two texts as if it were generated alone" cmp "$work/text" "$work/both"
printf 'ROMEO:\nThe king\n' >prompts.txt
accept gpt generate --model model --prompts prompts.txt --tokens 30 --seed 7
cp "$work/out" "$work/text"
expect "gpt generate: prompts from a file" cmp "$work/text" "$work/both"
"$bin/gpt" generate --model model --prompts - --tokens 30 --seed 7 <prompts.txt >"$work/text"
expect "gpt generate: prompts through a pipe" cmp "$work/text" "$work/both"
printf '\xef\xbb\xbfROMEO:\r\nThe king\r\n' >prompts.txt
accept gpt generate --model model --prompts prompts.txt --tokens 30 --seed 7
cp "$work/out" "$work/text"
expect "gpt generate: prompts from a file with Windows line ends" cmp "$work/text" "$work/both"
refuse "--prompt: text: the character '" gpt generate --model model --prompt '€'
printf 'ROMEO:\n€\n' >prompts.txt
refuse "prompts.txt: line 2: text: the character '" gpt generate --model model --prompts prompts.txt
printf '\xff' >prompts.txt
refuse "prompts.txt: text: is not UTF-8 at byte 0" gpt tokenize --text prompts.txt
accept gpt evaluate --model model
cp "$work/out" "$work/text"
expect "gpt evaluate" grep -E '^loss [0-9.]+, perplexity [0-9.]+ over 111539 tokens$' "$work/text"
accept gpt train "${steps[@]}" --sample-tokens 0 --model model
accept gpt train "${small[@]}" --sample-tokens 5 --architecture llama --kv-heads 1 --dropout 0.1 --recompute 1
accept gpt train "${small[@]}" --sample-tokens 0 --resume --checkpoint gpt_run --checkpoint-every 5
# The program's own defaults for AdamW and a cosine are no flags that the user gave.
accept gpt train --layers 1 --heads 2 --width 16 --context 16 --max-steps 2 --sample-tokens 0 --optimizer sgd --schedule constant
cp "$work/out" "$work/text"
expect "gpt train: another optimizer has its own rate" grep -F 'sgd at 0.05' "$work/text"
head -c 20000 "$support/../../text/tinyshakespeare/input.txt" >piece.txt
accept gpt train "${small[@]}" --sample-tokens 0 --text piece.txt --metrics file.jsonl
"$bin/gpt" train "${small[@]}" --sample-tokens 0 --text - --metrics piped.jsonl <piece.txt
losses() { grep -oE '"loss":[^,]*' "$1"; }
expect "gpt train: a text through a pipe" cmp <(losses file.jsonl) <(losses piped.jsonl)
expect "gpt tokenize: a text through a pipe" cmp <("$bin/gpt" tokenize --text - <piece.txt) <("$bin/gpt" tokenize --text piece.txt)
refuse "standard input: is empty, expected a text" gpt evaluate --model model --text -
refuse "the data and --metrics both name 'model/config.json'" gpt train --model model --metrics model/config.json
refuse "the data and --save both name 'model/model.safetensors'" gpt train --model model --save model/model.safetensors
rm piece.txt ./*.jsonl
refuse "--bias: the architecture llama has none, expected gpt2" gpt train --architecture llama --bias
refuse "--beta2 0.9 has no effect: expected --optimizer adam, adamw or lamb with it" gpt train --optimizer sgd --beta2 0.9
accept gpt tokenize --prompt "Hello, world"
cp "$work/out" "$work/text"
expect "gpt tokenize" grep '^ 15496  "Hello"$' "$work/text"
accept gpt train --layers 1 --heads 2 --width 16 --context 16 --max-steps 9 --sample-tokens 8 --sample-every 4 --report gpt.json
cp "$work/out" "$work/text"
expect "gpt train: a shorter warm-up" grep -F 'warm-up of 2 steps' "$work/text"
expect "gpt train: tokens a second" grep -E '^[0-9]+ tokens/s, [0-9]+% MFU$' "$work/text"
expect "gpt train: samples" grep -F 'step 8, 8 tokens:' "$work/text"
expect "gpt train: samples in the report" grep -F '"title": "8 tokens"' gpt.json
accept gpt train --model model "${steps[@]:0:6}" --device cpu --sample-tokens 0 --memory-report
cp "$work/out" shown
# Its 4,432 parameters, each at a multiple of 256 bytes, are 0.02 MiB in f32; before the arena they were in `other`.
expect "a loaded model counts as parameters, and is not there twice" grep -qE '^parameters +0\.02 ' shown
expect "and no other row is large" [ "$(grep -cE '[0-9]{3,}\.[0-9]{2}' shown)" -eq 0 ]
accept gpt train --model model "${steps[@]}" --lora-rank 2 --save-model adapted --checkpoint lora --checkpoint-every 6
accept gpt generate --model adapted --tokens 5
warn "--lora-rank without --model or --load trains low-rank factors of random weights" gpt train "${small[@]}" --sample-tokens 0 --lora-rank 2
# The default warm-up follows the length of a short run, also when it is changed, and one-cycle has its own.
few=("${small[@]:0:8}" --steps-per-epoch 12 --batch-size 4)
accept gpt train "${few[@]}" --sample-tokens 0 --max-steps 4 --checkpoint longer
accept gpt train "${few[@]}" --sample-tokens 0 --max-steps 8 --checkpoint longer --resume --change-length
cp "$work/out" "$work/text"
expect "gpt train: a longer run has its own warm-up" grep -F 'warm-up of 2 steps' "$work/text"
refuse "--warmup was 2, found 1" gpt train "${few[@]}" --max-steps 9 --warmup 1 --checkpoint longer --resume --change-length
refuse "the run had 8 steps, now it has 9" gpt train "${few[@]}" --max-steps 9 --checkpoint longer --resume
accept gpt train "${few[@]}" --sample-tokens 0 --max-steps 8 --schedule one-cycle
refuse "--warmup-shape quadratic has no effect: the run has no warm-up" gpt train "${few[@]}" --max-steps 8 --schedule one-cycle --warmup-shape quadratic
refuse "--sample-every 1: expected --sample-tokens above 0, found 0" gpt train "${few[@]}" --max-steps 8 --sample-every 1 --sample-tokens 0
refuse "freezing 'wte.*': all parameters that match are frozen already" gpt train "${few[@]}" --max-steps 8 --lora-rank 2 --freeze 'wte.*'
refuse "--schedule one-cycle includes a warm-up" gpt train "${few[@]}" --max-steps 8 --schedule one-cycle --warmup 2
refuse "--recipe cannot be used with --model" gpt train --model model --recipe shakespeare-gpu
# A folder under another name is the same model; a model is saved even if another output fails.
two=(--batch-size 4 --steps-per-epoch 12 --max-steps 2 --sample-tokens 0 --checkpoint from)
accept gpt train --model model "${two[@]}"
accept gpt train --model ./model "${two[@]}" --resume
cp -r model other
sed -i 's/"layer_norm_epsilon": [^,]*/"layer_norm_epsilon": 0.5/' other/config.json
refuse "config.json was" gpt train --model other "${two[@]}" --resume
rm -r other
mkdir saved
"$bin/gpt" train --model model "${two[@]}" --resume --save-tape tape.svg --save-model saved >"$work/out" 2>&1
expect "gpt train: no tape of a run at its end" [ $? -eq 1 ]
expect "gpt train: its model is saved all the same" [ -s saved/model.safetensors ]
refuse "--profile: the run is at its end, step 2: no step is left to record" gpt train --model model "${two[@]}" \
  --resume --profile
# The first token of these texts is a part of a character.
{ printf '\xef\xbb\xbf' && head -c 3000 "$support/../../text/tinyshakespeare/input.txt"; } >mark.txt
accept gpt train "${few[@]}" --max-steps 4 --sample-tokens 4 --sample-every 2 --tokenizer bytes --text mark.txt
accept gpt train "${few[@]}" --max-steps 2 --sample-tokens 4 --tokenizer gpt2 --text mark.txt
accept gpt train "${few[@]}" --max-steps 2 --sample-tokens 0 --tokenizer gpt2 --text mark.txt --save-model padded
rm padded/tokenizer.txt
accept gpt generate --model padded --tokens 6 --temperature 0
cp "$work/out" "$work/first"
# more_rows N: the model with N more rows than GPT-2 has tokens, whose logits are larger than all others.
more_rows() {
  python3 - padded "$1" <<'PYTHON'
import json, struct, sys
folder, more = sys.argv[1], int(sys.argv[2])
data = open(folder + "/model.safetensors", "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + length]), data[8 + length:]
tensors = {}
for name, entry in header.items():
    if name != "__metadata__":
        tensors[name] = (entry["shape"], body[slice(*entry["data_offsets"])])
(_, width), rows = tensors["transformer.wte.weight"]
row = lambda sign: struct.pack("<f", sign * 1e3) * (width // 2) + bytes(4 * (width - width // 2))
tensors["transformer.wte.weight"] = [50257 + more, width], rows[:50257 * width * 4] + (row(1) + row(-1)) * (more // 2)
header, body = {}, b""
for name, (shape, values) in tensors.items():
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
    body += values
text = json.dumps(header).encode()
open(folder + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
config = json.load(open(folder + "/config.json"))
config["vocab_size"] = 50257 + more
json.dump(config, open(folder + "/config.json", "w"))
PYTHON
}
more_rows 1000
accept gpt generate --model padded --tokens 6 --temperature 0
cp "$work/out" "$work/text"
expect "gpt generate: rows that are no tokens are not drawn" cmp "$work/text" "$work/first"
more_rows 13744
refuse "padded: the tokenizer (GPT-2's, as there is no tokenizer.txt) has 50257 tokens, the model has 64001, expected at most 1000 more" \
  gpt generate --model padded
rm -r longer from saved padded mark.txt
if [ -w /dev/full ]; then
  "$bin/gpt" train "${few[@]}" --max-steps 4 --sample-tokens 3000 --sample-every 2 --save kept.safetensors >/dev/full 2>"$work/err"
  expect "gpt train: its texts are lost, which is an error" [ "$(cat "$work/err")" = "error: standard output cannot be written" ]
  expect "gpt train: and not its weights" [ -s kept.safetensors ]
  rm -f kept.safetensors
fi
refuse "no parameter matches 'h.*.atn.*': near are h.0.attn" gpt train "${small[@]}" --freeze "h.*.atn.*"
refuse "no linear layer matches 'h.*.atn'" gpt train "${small[@]}" --lora-rank 2 --lora-targets "h.*.atn"
rm -rf gpt_run lora adapted gpt.json
: >empty.txt
printf 'too short' >short.txt
printf 'not UTF-8: \xff\xfe, and some more text for the window' >latin.txt
refuse "empty.txt: is empty, expected a text" gpt train --text empty.txt
refuse "short.txt: the last 10% have 1 token, expected more than the context of 16" gpt train "${small[@]}" --text short.txt
refuse "short.txt" gpt train "${small[@]}" --text short.txt --save-model nowhere/new
refuse "latin.txt: text: is not UTF-8" gpt train "${small[@]}" --text latin.txt
refuse "nothing.txt" gpt train --text nothing.txt
refuse "a width of 128 is not divisible by 3 heads" gpt train --heads 3
refuse "heads have 256 elements, expected at most 128" gpt train --heads 16 --width 4096
expect "gpt train: refused before the header" [ ! -s "$work/out" ]
refuse "nowhere/config.json" gpt train --model nowhere
refuse "'--save-model' is not a command: expected train, generate, evaluate or tokenize" gpt --save-model lost --layers 1 train
refuse "'foo' is not a command" gpt foo train
refuse "--steps-per-epoch 1000000000 of --batch-size 12: expected at most 134217728 samples" gpt train --steps-per-epoch 1000000000
accept gpt train --help
expect "gpt train --help: what an epoch is" [ "$(grep -c 'passes over the' "$work/out")" -eq 0 ]
# A full disk, simulated by a limit that the weights exceed, leaves the model as it was.
before=$(cksum model/*)
(ulimit -f 8 && "$bin/gpt" train "${small[@]}" --sample-tokens 0 --tokenizer bytes --save-model model >"$work/out" 2>"$work/err")
expect "gpt train: a model that cannot be written" grep -q '^error: --save-model: model/model.safetensors: cannot write: File too large' "$work/err"
expect "gpt train: the existing model" [ "$before" = "$(cksum model/*)" ]
refuse "more than the context of 16" gpt generate --model model --prompt "a prompt of many characters"
printf 'ROMEO:\n\nThe king\n' >gap.txt
refuse "gap.txt: line 2 is empty, expected a prompt in each line" gpt generate --model model --prompts gap.txt
refuse "more than the context of 16" gpt generate --model model --prompt a --prompt "a prompt of many characters"
printf 'a\na prompt of many characters\n' >long.txt
refuse "long.txt: line 2: generate: the prompt has" gpt generate --model model --prompts long.txt
rm long.txt
refuse "--top-p: expected a number from 1e-09 to 1, found '0'" gpt generate --model model --top-p 0
refuse "--temperature" gpt generate --model model --temperature nan
refuse "(U+00E9) at byte 0 is none of the tokenizer's 65" gpt generate --model model --prompt "é"
refuse "config.json" gpt generate --model nowhere
# A model that cannot be saved at the end is refused at the start.
refuse "/dev/null/x: cannot make the folder" gpt train "${small[@]}" --save-model /dev/null/x
refuse "transformers has no such model" gpt train "${small[@]}" --kv-heads 1 --save-model other
refuse "--layers" gpt train --model model --layers 3
refuse "latin.txt: text: is not UTF-8" gpt evaluate --model model --text latin.txt
refuse "short.txt: found 1 token, expected at least 2" gpt evaluate --model model --text short.txt
sed -i 's/"n_layer": 1/"n_layer": 1000000000/' model/config.json
refuse "model/config.json: 'n_layer' is 1000000000, expected 1 to" gpt generate --model model
sed -i 's/"n_layer": 1000000000/"n_layer": 1/' model/config.json
cp model/tokenizer.txt whole.txt && head -c 40 whole.txt >model/tokenizer.txt
refuse "model: the tokenizer has 29 tokens, the model has 65" gpt generate --model model
cp whole.txt model/tokenizer.txt
expect "gpt generate: no prompt before an error" [ ! -s "$work/out" ]
refuse "--model" gpt generate
truncate -s 1000 model/model.safetensors
refuse "model.safetensors" gpt generate --model model
rm -r model ./*.txt

summary
