#!/usr/bin/env bash
# Writes the first TRAIN and TEST images of MNIST, few enough that a rank reads them quickly, as four IDX files.
#   tests/support/digits.sh FOLDER TRAIN TEST
set -euo pipefail
to=$1
from=$(cd "$(dirname "$0")/../../data/mnist" && pwd)

# idx NAME COUNT HEADER SIZE: the first COUNT items, of SIZE bytes each, of a file with a header of HEADER bytes.
idx() {
  gunzip "$from/$1.gz" -c >"$to/whole"
  {
    head -c 4 "$to/whole"
    printf '%b' "$(printf '\\0%03o' 0 0 $(($2 / 256)) $(($2 % 256)))"
    head -c $(($3 + $2 * $4)) "$to/whole" | tail -c +9
  } >"$to/$1"
  rm "$to/whole"
}
mkdir -p "$to"
idx train-images-idx3-ubyte "$2" 16 784
idx train-labels-idx1-ubyte "$2" 8 1
idx t10k-images-idx3-ubyte "$3" 16 784
idx t10k-labels-idx1-ubyte "$3" 8 1
