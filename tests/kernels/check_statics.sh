#!/bin/bash
# check_statics.sh CPU_OBJECT...
# For check builds: fails when a kernel object has a variable outside the section simt_shared. The likely cause is
# __shared__ in a template or in an inline function, where GCC drops the section: use dynamic_shared<T>() there.
set -euo pipefail

found=$(objdump --syms --demangle "$@" | awk '
  /file format/ { object = $1 }
  # Columns: address, flags, section, size, name. Compiler-made symbols begin with a dot or DW.ref.
  match($0, /\.(data|bss|tdata|tbss)[^ \t]*[ \t]+[0-9a-f]+ /) {
    name = substr($0, RSTART + RLENGTH)
    section = $0; sub(/.*[ \t]\./, ".", section); sub(/[ \t].*/, "", section)
    if (name !~ /^(\.hidden )?(\.|DW\.ref\.)/ && section !~ /^\.data\.rel\.ro/) print object, name
  }')
if [ -n "$found" ]; then
  echo "variables outside the section simt_shared:"
  echo "$found"
  exit 1
fi
echo "no variable outside the section simt_shared in $# objects"
