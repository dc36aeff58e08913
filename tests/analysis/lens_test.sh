#!/usr/bin/env bash
# Tests the output and the errors of `lens` and `ladder`: lens_test.sh BIN
set -u
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source-path=SCRIPTDIR source=../support/checks.sh
. "$(dirname "$0")/../support/checks.sh"

# prints TEXT PROGRAM ARGUMENTS...: the program must succeed and print TEXT.
prints() {
  if ! "$bin/$2" "${@:3}" >"$work/out" 2>&1; then
    failure "${*:2}: ended with an error: $(cat "$work/out")"
  else
    expect "${*:2}: prints '$1'" grep -qE -- "$1" "$work/out"
  fi
}

# refuse TEXT PROGRAM ARGUMENTS...: the program must fail with one line that holds TEXT.
refuse() {
  if "$bin/$2" "${@:3}" >"$work/out" 2>&1; then
    failure "${*:2}: did not fail"
  else
    expect "${*:2}: one line" [ "$(wc -l <"$work/out")" -eq 1 ]
    expect "${*:2}: says '$1'" grep -qF -- "$1" "$work/out"
  fi
}

prints '^1 naive +\| +256 +18.00 ' lens transpose --size 64
prints '^5 swizzled .* 0 +0% \| +1 +0 +0 \| every byte once, no waiting$' lens transpose --size 64
prints '^7 double-buffered .* 82% ' lens gemm --size 128
prints '^  adamw +a step of adamw; 65536 elements$' lens list
prints '^  gemm_tiled +A B with k = 64; 256 rows and columns of C$' lens list
prints '^loss_scale .* moves too little to be judged$' lens kernels
prints 'of shared memory: 0 dynamic, 16384 static$' lens transpose --size 64 --rung 2
prints '^adam_update: 4 x 1 x 1 blocks of 128 x 1 x 1 threads' lens adam --size 32768
prints '^adam: every byte once, no waiting; moves 1.0[0-9] times the bytes it needs$' lens adam
prints '^gemm_tiled .* asks for its bytes [0-9.]+ times$' lens kernels
prints '2_tile.cu:[0-9]+ +read +128 +32.0 +4096 +32.00 +1.00 +3968$' lens transpose --size 64 --rung 2
prints '^padded: 1 x 1 x 1 blocks of 64 x 4 x 1 threads' lens transpose --size 64 --rung 3
refuse "no kernel or ladder is named 'sort': see lens list" lens sort
refuse 'adam: a size of 100, expected a multiple of 256' lens adam --size 100
refuse '--rung needs a ladder: expected transpose' lens adam --rung 1
refuse 'kernels have their own sizes' lens kernels --size 64
refuse 'the list has no size' lens list --size 64
refuse 'loss_scale: a size of 5, expected a multiple of 1 up to 1' lens loss_scale --size 5
refuse 'expected a multiple of 64' lens transpose --size 65
refuse 'no rung 6: expected 1 to 5' lens transpose --size 64 --rung 6
if [ -x "$bin/ladder" ]; then
  prints '^2 tile +[0-9.]+ [a-z]+ +[0-9.]+ +[0-9.]+%' ladder transpose --size 64 --rung 2
  prints '^9 tensor core +[0-9.]+ ' ladder gemm --size 128 --rung 9
  refuse "no ladder is named 'sort': expected transpose, reduce, norm, softmax, layer_norm, attention, gemm" ladder sort
  refuse 'no rung 10: expected 1 to 9' ladder gemm --size 128 --rung 10
fi

# A folder with any name, and no addr2line.
mkdir "$work/it's"
ln "$bin/lens" "$work/it's/lens" 2>/dev/null || cp "$bin/lens" "$work/it's/lens"
"$work/it's/lens" transpose --size 64 --rung 2 >"$work/out" 2>&1
expect "in a folder named it's: a line of the source" grep -qE '2_tile.cu:[0-9]+ +read ' "$work/out"
PATH=$work/it\'s "$bin/lens" transpose --size 64 --rung 2 >"$work/out" 2>&1
expect "a line about addr2line" grep -q '^analysis: addr2line .binutils. gives nothing' "$work/out"

summary
