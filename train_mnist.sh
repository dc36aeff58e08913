#!/usr/bin/env bash
# Trains a network on MNIST and shows the training curve and the test accuracy. Installs what is missing and
# builds first. Flags go to the program: ./train_mnist.sh --epochs 5 --hidden 256,128; --help lists them.
set -euo pipefail
root=$(cd "$(dirname "$0")" && pwd)
"$root/scripts/setup.sh" mnist
exec "$root/build/release/bin/mnist" "$@"
