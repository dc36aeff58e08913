#!/bin/bash
# Fuzzes the readers of files with libFuzzer, AddressSanitizer and UBSan:
#   tests/fuzz/libfuzzer.sh FOLDER SECONDS   # needs clang++; corpora and findings go to FOLDER
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,3s/^# \?//p' "$0"; exit 2; }
source_folder=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
cd "$1"

objects=()
for file in "$source_folder"/{core/*,io/*,data/{csv,dataset,gzip,idx},optim/checkpoint,text/{bpe,byte,character,gpt2_,streaming,token,unicode,utf8}*,tests/fuzz/readers}.cpp; do
  object=$(basename "$file" .cpp).o
  clang++ -std=c++20 -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined \
    -I"$source_folder" -c "$file" -o "$object"
  objects+=("$object")
done

readers=(idx csv safetensors merges tokens text)
for reader in "${readers[@]}"; do
  mkdir -p "corpus-$reader"
  clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
    -DRINGTAPE_FUZZ_READER=$reader -I"$source_folder" "$source_folder/tests/fuzz/libfuzzer.cpp" "${objects[@]}" \
    -lfmt -lz -lgomp -o "fuzz-$reader"
done
cp "$source_folder/tests/golden/python.safetensors" corpus-safetensors/
cp "$source_folder/data/mnist/t10k-labels-idx1-ubyte.gz" corpus-idx/
gunzip -c corpus-idx/t10k-labels-idx1-ubyte.gz > corpus-idx/t10k-labels-idx1-ubyte
printf 'a,b\n1,2.5\n-3e4,0\n' > corpus-csv/table.csv
printf '#version: 0.2\nt h\nth e\n' > corpus-merges/vocab.bpe
{ printf '%-511s\n' '{"format":"ringtape tokens 1","tokenizer":"bytes-256-00000000","vocabulary_size":256,"dtype":"U16","count":2,"crc32":"00000000"}'
  printf 'a\0b\0'; } > corpus-tokens/tokens
printf "it's the ä€𐍈 中文 12½" > corpus-text/text

for reader in "${readers[@]}"; do
  "./fuzz-$reader" -max_total_time="$2" -malloc_limit_mb=256 -timeout=10 -artifact_prefix="found-$reader-" \
    -print_final_stats=1 "corpus-$reader"
done
