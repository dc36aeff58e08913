#!/usr/bin/env bash
# Tests the output and the errors of `lens` and `ladder`: lens_test.sh BIN
set -u
bin=$1
failed=0

# expect TEXT PROGRAM ARGUMENTS...: the program must succeed and print TEXT.
expect() {
  local text=$1 out
  shift
  out=$("$bin/$1" "${@:2}" 2>&1) || { echo "$*: failed: $out"; failed=1; }
  grep -qE -- "$text" <<<"$out" || { echo "$*: expected '$text' in: $out"; failed=1; }
}

# refuse TEXT PROGRAM ARGUMENTS...: the program must fail with one line that holds TEXT.
refuse() {
  local text=$1 out
  shift
  if out=$("$bin/$1" "${@:2}" 2>&1); then echo "$*: did not fail"; failed=1; fi
  { [ "$(wc -l <<<"$out")" -eq 1 ] && grep -qF -- "$text" <<<"$out"; } || { echo "$*: expected one line with '$text': $out"; failed=1; }
}

expect '^1 naive +\| +256 +18.00 ' lens transpose --size 64
expect '^5 swizzled .* 0 +0% \| +1 +0 +0 \| every byte once, no waiting$' lens transpose --size 64
expect '^7 double-buffered .* 82% ' lens gemm --size 128
expect '^  adamw +a step of adamw; 65536 elements$' lens list
expect '^  gemm_tiled +A B with k = 64; 256 rows and columns of C$' lens list
expect '^loss_scale .* moves too little to be judged$' lens kernels
expect 'of shared memory: 0 dynamic, 16384 static$' lens transpose --size 64 --rung 2
expect '^adam_update: 4 x 1 x 1 blocks of 128 x 1 x 1 threads' lens adam --size 32768
expect '^adam: every byte once, no waiting; moves 1.0[0-9] times the bytes it needs$' lens adam
expect '^gemm_tiled .* asks for its bytes [0-9.]+ times$' lens kernels
expect '2_tile.cu:[0-9]+ +read +128 +32.0 +4096 +32.00 +1.00 +3968$' lens transpose --size 64 --rung 2
expect '^padded: 1 x 1 x 1 blocks of 64 x 4 x 1 threads' lens transpose --size 64 --rung 3
refuse "no kernel or ladder is named 'sort': see lens list" lens sort
refuse 'adam: a size of 100, expected a multiple of 256' lens adam --size 100
refuse '--rung needs a ladder: expected transpose' lens adam --rung 1
refuse 'kernels have their own sizes' lens kernels --size 64
refuse 'the list has no size' lens list --size 64
refuse 'loss_scale: a size of 5, expected a multiple of 1 up to 1' lens loss_scale --size 5
refuse 'expected a multiple of 64' lens transpose --size 65
refuse 'no rung 6: expected 1 to 5' lens transpose --size 64 --rung 6
if [ -x "$bin/ladder" ]; then
  expect '^2 tile +[0-9.]+ [a-z]+ +[0-9.]+ +[0-9.]+%' ladder transpose --size 64 --rung 2
  expect '^9 tensor core +[0-9.]+ ' ladder gemm --size 128 --rung 9
  refuse "no ladder is named 'sort': expected transpose, reduce, norm, softmax, layer_norm, attention, gemm" ladder sort
  refuse 'no rung 10: expected 1 to 9' ladder gemm --size 128 --rung 10
fi

# A folder with any name, and no addr2line.
folder=$(mktemp -d)
mkdir "$folder/it's"
ln "$bin/lens" "$folder/it's/lens" 2>/dev/null || cp "$bin/lens" "$folder/it's/lens"
out=$("$folder/it's/lens" transpose --size 64 --rung 2 2>&1)
grep -qE '2_tile.cu:[0-9]+ +read ' <<<"$out" || { echo "in a folder named it's: no line of the source in: $out"; failed=1; }
out=$(PATH=$folder "$bin/lens" transpose --size 64 --rung 2 2>&1)
grep -q '^analysis: addr2line .binutils. gives nothing' <<<"$out" || { echo "no line about addr2line in: $out"; failed=1; }
rm -r "$folder"

[ $failed -eq 0 ] && echo "lens and ladder print what they should"
exit $failed
