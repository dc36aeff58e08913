# shellcheck shell=bash
# Sourced by scripts that open pages in headless Chromium. Ends the script with 77 if there is no
# Chromium. Sets `work`, a temporary folder that is removed when the script ends, and `failed`.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "$browser" ]; then
  echo "skipped: no Chromium here"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2034  # for the scripts that source this
failed=0
failure() {
  # shellcheck disable=SC2034
  failed=1
  echo "FAILED: $*"
}

# browse ARGUMENTS...: runs a new browser, with its log in $work/log.
browse() {
  timeout 300 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --disable-background-networking --disable-component-update --enable-logging=stderr --v=0 "$@" 2>"$work/log"
}

check_console() {
  if grep 'CONSOLE' "$work/log"; then failure "$1: the console is not empty"; fi
}
