#!/usr/bin/env bash
# Trains a small GPT on Shakespeare's plays, shows the training curve and writes a text in their manner. Installs what is
# missing and builds first. Flags go to the program: ./train_gpt.sh --layers 6 --save-model shakespeare; --help lists them.
set -euo pipefail
root=$(cd "$(dirname "$0")" && pwd)
"$root/scripts/setup.sh" gpt
exec "$root/build/release/bin/gpt" train "$@"
