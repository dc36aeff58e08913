#include "plot/canvas.h"

namespace ringtape::svg {
namespace {

constexpr const char* kColoursAndText = R"(:root {
  --paper: #ffffff; --ink: #1b2430; --muted: #586474; --grid: #e4e8ee; --edge: #b9c2ce; --soft: #f3f5f8; --leaf: #e4eefe;
  --c0: #2868d8; --c1: #b85a08; --c2: #1a8048; --c3: #c93545; --c4: #7d4fd3; --c5: #0a7f91; --c6: #8f6a00; --c7: #6b7481;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #1a2029; --ink: #e7ebf2; --muted: #a1adbd; --grid: #2d3643; --edge: #4b5767; --soft: #232b36; --leaf: #1c3050;
    --c0: #6ea6ff; --c1: #f3a45c; --c2: #5bc98b; --c3: #ff7d86; --c4: #b892ff; --c5: #4cc6d6; --c6: #d8b54a; --c7: #98a3b2;
  }
}
svg text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: var(--ink); }
svg .ink { fill: var(--ink); }
svg .muted { fill: var(--muted); }
svg .strong { font-weight: 600; }
svg .small { font-size: 12px; }
svg .middle { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .paper { fill: var(--paper); }
svg .soft { fill: var(--soft); }
svg .box { fill: var(--soft); stroke: var(--edge); }
svg .grid { stroke: var(--grid); }
svg .axis { stroke: var(--edge); }
svg .leaf { fill: var(--leaf); stroke: var(--c0); }
svg .input { fill: var(--paper); stroke: var(--edge); stroke-dasharray: 4 3; }
svg .badge { fill: var(--paper); font-weight: 600; }
svg .edge { fill: none; stroke: var(--edge); stroke-width: 1.5; }
svg .mark { fill: none; stroke: var(--ink); }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .dashed { stroke-dasharray: 5 4; }
svg .band { opacity: .18; }
svg .roof { stroke-width: 2; }
svg .span { stroke: var(--paper); stroke-width: .5; }
svg .on { fill: var(--paper); font-weight: 500; }
svg .dot { stroke: var(--paper); stroke-width: 1.5; }
)";

}  // namespace

std::string style() {
  std::string css = kColoursAndText;
  for (int i = 0; i < kColours; ++i) {
    css += fmt::format("svg .s{0} {{ fill: var(--c{0}); }} svg .l{0} {{ stroke: var(--c{0}); }}\n", i);
  }
  return css;
}

}  // namespace ringtape::svg
