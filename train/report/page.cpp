#include "plot/canvas.h"
#include "train/report/html.h"

namespace ringtape::report {
namespace {

constexpr const char* kPageStyle = R"(:root { color-scheme: light dark; --page: #f4f6f9; }
@media (prefers-color-scheme: dark) { :root { --page: #11151b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -.01em; }
h2 { font-size: 18px; margin: 0 0 4px; }
h3 { font-size: 14px; margin: 20px 0 8px; color: var(--muted); font-weight: 600; }
.subtitle, .note { color: var(--muted); margin: 0; }
.error { margin: 12px 0 0; color: var(--c3); font-weight: 600; overflow-wrap: anywhere; }
.note { max-width: 76ch; margin-bottom: 16px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 24px 0; }
.tile, section { background: var(--paper); border: 1px solid var(--grid); border-radius: 12px; }
.tile { padding: 12px 16px; }
.tile b { display: block; font-size: 22px; font-weight: 600; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--muted); font-size: 13px; }
section { padding: 20px 24px 24px; margin-top: 16px; }
section > :last-child { margin-bottom: 0; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 16px 32px; }
figure { margin: 0; }
figcaption { font-weight: 600; font-size: 14px; margin-bottom: 6px; }
.pair svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; margin: 0 -24px; padding: 0 24px; }
figure + .scroll { margin-top: 20px; }
.scroll svg { display: block; max-width: none; }
.scroll svg.full { width: 100%; height: auto; min-width: 880px; }
.keys + .scroll { margin-top: 12px; }
.stack { display: flex; height: 28px; border-radius: 6px; overflow: hidden; gap: 2px; margin: 4px 0 10px; }
.keys { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 0; padding: 0; list-style: none; font-size: 14px; }
.keys i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 7px; vertical-align: -1px; }
.keys span { color: var(--muted); }
table { border-collapse: collapse; font-size: 13.5px; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 10px; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--grid); }
thead th { color: var(--muted); font-weight: 600; font-size: 12.5px; vertical-align: bottom; }
tbody th { font-weight: 500; padding-left: 0; }
thead th:first-child { padding-left: 0; }
.num { text-align: right; }
tr.sum th, tr.sum td { font-weight: 600; border-bottom: 0; }
tr.rest th { font-weight: 400; color: var(--muted); }
small { color: var(--muted); font-size: 12.5px; font-weight: 400; }
.bar { display: inline-block; vertical-align: middle; width: 64px; height: 8px; margin-right: 10px; border-radius: 4px;
  background: var(--grid); overflow: hidden; }
.bar i { display: block; height: 100%; border-radius: 4px; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 2px 32px; margin: 8px 0 0; }
dl div { display: flex; gap: 12px; justify-content: space-between; border-bottom: 1px solid var(--grid); padding: 5px 0; }
dt { color: var(--muted); flex: none; }
dd { margin: 0; text-align: right; overflow-wrap: anywhere; }
.says { margin: 12px 0 0; padding-left: 20px; }
@media (max-width: 720px) {
  main { padding: 20px 12px 40px; }
  h1 { font-size: 23px; }
  section { padding: 16px 16px 18px; border-radius: 10px; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; margin: 16px 0; }
  .tile { padding: 10px 12px; }
  .tile b { font-size: 19px; }
  .pair { grid-template-columns: 1fr; gap: 24px; }
  .pair svg text { font-size: 17px; }
  .scroll { margin: 0 -16px; padding: 0 16px; }
  .scroll::before { content: "wider than the screen: scroll sideways"; position: sticky; left: 0; color: var(--muted);
    font-size: 12px; }
  tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 132px; max-width: 132px; }
  tbody th small { display: block; }
  th, td { padding: 6px; }
  .bar { width: 24px; margin-right: 6px; }
  dl { grid-template-columns: 1fr; }
}
@media print { body { background: none; } section { break-inside: avoid; } }
)";

/// An icon, so that a browser does not ask a server for one.
constexpr const char* kIcon = "data:,";

}  // namespace

std::string page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<link rel=\"icon\" href=\"{}\"/>\n<title>{}</title>\n<style>\n{}{}</style>\n</head>\n"
      "<body>\n<main>\n{}</main>\n</body>\n</html>\n",
      kIcon, svg::escape(title), svg::style(), kPageStyle, body);
}

}  // namespace ringtape::report
