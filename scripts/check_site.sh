#!/usr/bin/env bash
# Opens the lessons' pages (./learn site) in headless Chromium, as on a phone and on a wide screen, in light and in dark mode,
# uses them, and checks that the console is empty, nothing is fetched, nothing is wider than the screen, every slider, quiz and
# prediction works, and texts have enough contrast.
#   scripts/check_site.sh FOLDER [SCREENSHOTS]     SCREENSHOTS: a folder for screenshots
# The exit status is 0, 1 if a check fails, or 77 if there is no Chromium.
set -uo pipefail
site=$(realpath "$1")
# shellcheck source=scripts/browser.sh
source "$(dirname "$0")/browser.sh"

# This page opens the others in a frame, uses them, and writes the problems into its title.
pages=("$site"/index.html "$site"/docs/glossary.html "$site"/lessons/[0-9]*/index.html)
{
  echo '<!DOCTYPE html><html><head><title>-</title></head><body style="margin:0"><script>const pages = ['
  for page in "${pages[@]}"; do printf '"%s",\n' "${page#"$site"/}"; done
  echo '];'
  cat "$(dirname "$0")/use_pages.js"
  echo '</script></body></html>'
} >"$site/check.html"
browse --allow-file-access-from-files --virtual-time-budget=600000 --window-size=1400,900 --dump-dom "file://$site/check.html" >"$work/dom"
rm "$site/check.html"
check_console "the pages"
found=$(grep -o '<title>[^<]*' "$work/dom" | head -1 | sed 's/<title>//')
if [ "$found" != "as they should be: ${#pages[@]} pages" ]; then failure "$found"; fi

if [ $# -gt 1 ]; then
  mkdir -p "$2"
  for page in "${pages[@]}"; do
    name=${page#"$site"/}
    for scheme in 0 1; do
      for size in 500,3600 1280,2600; do
        browse --blink-settings=preferredColorScheme=$scheme --window-size=$size --screenshot="$2/$(dirname "$name" | tr / -)-${size%,*}-$scheme.png" "file://$page"
      done
    done
  done
fi
if [ $failed -eq 0 ]; then echo "$found"; fi
exit $failed
