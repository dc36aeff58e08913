#!/bin/sh
# A compiler launcher for a build of a changed copy of a tree: reuse_objects.sh COMPILER ARGUMENTS...
# Copies the object of the original's build if the source file is the same in both trees, and compiles it otherwise. A batch
# of a unity build is the same if it names the same files and each of them is the same. Headers and paths in -D are not
# compared, so changes of headers may only add declarations. Reads ORIGINAL_SOURCE, ORIGINAL_BUILD and COPY_SOURCE (folders)
# from the environment; runs in the copy's build folder.
is_same() { cmp -s "$1" "$ORIGINAL_SOURCE/${1#"$COPY_SOURCE"/}"; }

files_of() { sed -n 's/^#include "\(.*\)"$/\1/p' "$1"; } # of a batch

is_same_batch() {
  [ -f "$ORIGINAL_BUILD/$1" ] || return 1
  sed "s|\"$COPY_SOURCE/|\"$ORIGINAL_SOURCE/|" "$1" | cmp -s - "$ORIGINAL_BUILD/$1" || return 1
  files_of "$1" | while read -r each; do is_same "$each" || exit 1; done
}

object='' source='' sources='' dependencies='' previous=''
for argument in "$@"; do
  case $previous in
    -o) object=$argument ;;
    -c) source=$argument ;;
    -MF) dependencies=$argument ;;
  esac
  previous=$argument
done
if [ -n "$object" ] && [ -f "$ORIGINAL_BUILD/$object" ] &&
  case $source in
    "$PWD"/*Unity/*) is_same_batch "${source#"$PWD"/}" && sources="$source $(files_of "$source" | tr '\n' ' ')" ;;
    *) is_same "$source" && sources=$source ;;
  esac; then
  if [ -n "$dependencies" ]; then echo "$object: $sources" >"$dependencies"; fi
  exec cp "$ORIGINAL_BUILD/$object" "$object"
fi
exec "$@"
