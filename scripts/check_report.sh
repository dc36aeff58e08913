#!/usr/bin/env bash
# Opens a page of --report in headless Chromium, as on a wide screen and on a phone, in light and in dark mode, and checks
# that the console is empty, nothing is fetched, nothing is wider than the screen, and all of its document is shown.
#   scripts/check_report.sh PAGE.html [FOLDER]     FOLDER: for screenshots
# The exit status is 0, 1 if a check fails, or 77 if there is no Chromium.
set -uo pipefail
page=$(realpath "$1")
# shellcheck source=scripts/browser.sh
source "$(dirname "$0")/browser.sh"

# A page can only fetch through one of these. The SVG namespace is a name and is not fetched.
if sed 's|http://www.w3.org/2000/svg||g' "$page" | grep -noE 'https?:|["(]//|<link [^>]*href="[^d]|@import|url\(|src=|fetch\(|import ' | head -5 | grep .; then
  failure "the page refers to something outside of it"
fi

# A frame as wide as the screen holds a copy of the page; the script reports the width of its content and the number of
# resources that it requested.
measure='<script>addEventListener("load", () => { const f = document.querySelector("iframe"); const d = f.contentDocument; const w = d.documentElement.scrollWidth; document.title = "width " + w + " of " + f.clientWidth + " resources " + f.contentWindow.performance.getEntriesByType("resource").length; })</script>'
cp "$page" "$work/page.html"
for width in 360 1280; do
  printf '<!DOCTYPE html><html><head><title>-</title></head><body style="margin:0"><iframe src="page.html" style="border:0;width:%dpx;height:800px"></iframe>%s</body></html>' \
    "$width" "$measure" >"$work/frame.html"
  browse --allow-file-access-from-files --window-size=1400,900 --dump-dom "file://$work/frame.html" >"$work/dom"
  check_console "$width pixels"
  found=$(grep -o '<title>[^<]*' "$work/dom" | head -1 | sed 's/<title>//')
  if [ "$found" != "width $width of $width resources 0" ]; then
    failure "at $width pixels: expected 'width $width of $width resources 0', found '$found'"
  fi
done

browse --dump-dom "file://$page" >"$work/dom"
python3 "$(dirname "$0")/report_shows_all.py" "$work/dom" || failure "the page does not show all of its document"

for mode in light dark; do
  scheme=$([ $mode = dark ] && echo 0 || echo 1)
  for size in 1280,2400 500,2400; do
    picture=$work/$mode-${size%,*}.png
    browse --blink-settings=preferredColorScheme="$scheme" --window-size=$size --screenshot="$picture" "file://$page"
    check_console "$mode, $size"
    if [ ! -s "$picture" ]; then failure "no screenshot in $mode mode at $size"; fi
    if [ $# -gt 1 ]; then mkdir -p "$2" && cp "$picture" "$2/"; fi
  done
done
if cmp -s "$work/light-1280.png" "$work/dark-1280.png"; then failure "dark mode looks like light mode"; fi

if [ $failed -eq 0 ]; then echo "the page is as it should be: $(stat -c %s "$page") bytes"; fi
exit $failed
