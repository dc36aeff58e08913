#!/bin/sh
# A compiler launcher for a build of a changed copy of a tree: reuse_objects.sh COMPILER ARGUMENTS...
# Takes the object of the original's build where the source file is the same in both trees, and compiles it otherwise. A
# header that differs does not count, so changes of headers may only add declarations; neither do paths in -D. Reads
# from the environment ORIGINAL_SOURCE, ORIGINAL_BUILD, COPY_SOURCE (folders); runs in the copy's build folder.
object='' source='' dependencies='' previous=''
for argument in "$@"; do
  case $previous in
    -o) object=$argument ;;
    -c) source=$argument ;;
    -MF) dependencies=$argument ;;
  esac
  previous=$argument
done
original=$ORIGINAL_SOURCE/${source#"$COPY_SOURCE"/}
if [ -n "$object" ] && [ -f "$ORIGINAL_BUILD/$object" ] && cmp -s "$source" "$original"; then
  if [ -n "$dependencies" ]; then echo "$object: $source" >"$dependencies"; fi
  exec cp "$ORIGINAL_BUILD/$object" "$object"
fi
exec "$@"
