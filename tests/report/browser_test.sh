#!/usr/bin/env bash
# Writes the page of a small run and has scripts/check_report.sh open it. Ends with 77 if there is no browser.
#   tests/report/browser_test.sh BIN_DIR CHECK_REPORT
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1/mnist" --device cpu --hidden 32,32 --max-steps 30 --batch-size 64 --micro-batch 32 --report "$work/report.html" >"$work/out"
"$2" "$work/report.html"
