#!/bin/bash
# check_symbols.sh CPU_OBJECT... -- CUDA_OBJECT...
# Fails when a weak symbol is defined in both sets of kernel objects: the linker would keep one of the two functions
# for both targets (the one-definition rule; see core/target.h).
set -euo pipefail

weak_symbols() {  # of the objects named; DW.ref.* is the compiler's own pointer, the same everywhere
  nm --defined-only --format=posix "$@" | awk 'NF > 2 && $2 ~ /^[WVu]$/ && $1 !~ /^DW\.ref\./ { print $1 }' | sort -u
}

cpu=() cuda=() side=cpu
for argument in "$@"; do
  if [ "$argument" = -- ]; then side=cuda
  elif [ $side = cpu ]; then cpu+=("$argument")
  else cuda+=("$argument"); fi
done
[ ${#cpu[@]} -gt 0 ] && [ ${#cuda[@]} -gt 0 ] || { echo "expected objects on both sides of --"; exit 2; }

# To files: the status of a process substitution would be lost.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
weak_symbols "${cpu[@]}" >"$work/cpu"
weak_symbols "${cuda[@]}" >"$work/cuda"
for side in cpu cuda; do
  [ -s "$work/$side" ] || { echo "found no weak symbol in the $side objects: is nm's output read as it should be?"; exit 1; }
done
shared=$(comm -12 "$work/cpu" "$work/cuda" | c++filt)
if [ -n "$shared" ]; then
  echo "weak symbols in both the CPU's and the GPU's kernel objects:"
  echo "$shared"
  exit 1
fi
echo "no weak symbol in both the ${#cpu[@]} CPU objects and the ${#cuda[@]} GPU objects"
