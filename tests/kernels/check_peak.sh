#!/usr/bin/env bash
# check_peak.sh PEAK_CU CPU_OBJECT...
# The measured peak is that of the CPU's units only where the loop has as many multiply-adds as peak.cu counts, so that none
# was merged or removed: fails if a round of the loop in the object has fewer. x86 only.
set -euo pipefail
chains=$(sed -nE 's/^constexpr int kChains = ([0-9]+);.*/\1/p' "$1")
shift
object=""
for file in "$@"; do
  case $file in */peak.cu.o) object=$file ;; esac
done
if [ -z "$chains" ] || [ -z "$object" ]; then
  echo "no kChains in peak.cu, or no object of it"
  exit 1
fi
case $(objdump -f "$object") in *x86-64*) ;; *) echo "skipped: the object is not of x86" && exit 77 ;; esac

# Multiply-adds, or products where the CPU has no such instruction, in the loop that has most of them: from where a jump
# goes back to, up to the jump.
found=$(objdump -d --no-show-raw-insn "$object" | awk '
  /^[0-9a-f]+ </ { n = 0 }
  match($1, /^[0-9a-f]+:$/) {
    address[++n] = $1; sub(/:/, "", address[n]); at[address[n]] = n
    is_product[n] = $2 ~ /^(vfn?m(add|sub)[0-9]*ps|v?mulps)$/
    if ($2 ~ /^j/ && ($3 in at) && at[$3] <= n && address[at[$3]] == $3) {
      count = 0
      for (i = at[$3]; i <= n; ++i) count += is_product[i]
      if (count > most) most = count
    }
  }
  END { print most + 0 }')
if [ "$found" -lt "$chains" ] || [ $((found % chains)) -ne 0 ]; then
  echo "the loop of multiply_add has $found multiply-adds, expected a multiple of the $chains chains of peak.cu"
  exit 1
fi
echo "the loop of multiply_add has $found multiply-adds for $chains chains"
