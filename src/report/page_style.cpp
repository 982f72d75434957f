#include "page_style.hpp"

namespace unisono::report {

// clang-format off
const std::string_view kPageStyle = R"css(
:root { color-scheme: light dark;
  --background: #ffffff; --card: #f6f7f9; --text: #1b1f24; --faint: #59636e; --grid: #dfe3e8; --link: #0059b3;
  --series-1: #0072b2; --series-2: #d55e00; --series-3: #008a64; --series-4: #b5568f; --series-5: #b87d00;
  --series-6: #2f9bdc; --series-7: #6b6b6b; --series-8: #7b5ccf; --series-9: #8a4b1d; --on-series: #ffffff; }
@media (prefers-color-scheme: dark) { :root {
  --background: #14171b; --card: #1d2127; --text: #e8eaed; --faint: #a2abb5; --grid: #343a42; --link: #7ab8ff;
  --series-1: #56b4e9; --series-2: #ff8a3d; --series-3: #2fc796; --series-4: #e29ac7; --series-5: #f0c443;
  --series-6: #9fd3ff; --series-7: #b4b4b4; --series-8: #b39df3; --series-9: #d39a6b; --on-series: #101316; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 79rem; background: var(--background); color: var(--text);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--grid); padding-bottom: .2rem; }
.subtitle { color: var(--faint); margin: .2rem 0 1rem; overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0; margin: 0; }
a { color: var(--link); }
.blocks { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.blocks > * { max-width: 100%; }
.blocks > p, .blocks > details, .blocks > .pictures { flex: 1 1 100%; margin: 0; }
figure { margin: 0; }
figure.drawing, .table { background: var(--card); border-radius: 8px; padding: .7rem .9rem; overflow-x: auto; }
figure.drawing > figcaption, caption { font-weight: 600; text-align: left; padding-bottom: .4rem; color: var(--text); }
svg.plot { display: block; max-width: 100%; height: auto; font-family: system-ui, "DejaVu Sans", sans-serif; }
.paper svg { background: #ffffff; max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .15rem .7rem; border-top: 1px solid var(--grid); vertical-align: top; }
th:first-child, td:first-child { padding-left: 0; }
tbody th { text-align: left; font-weight: 500; white-space: nowrap; }
td { white-space: nowrap; }
td:last-child { white-space: normal; overflow-wrap: break-word; max-width: 34rem; }
thead th { border-top: 0; color: var(--faint); font-weight: 600; white-space: nowrap; }
thead th:first-child { text-align: left; }
thead button { all: unset; cursor: pointer; }
thead button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort=ascending] button::after { content: " ▲"; }
th[aria-sort=descending] button::after { content: " ▼"; }
.pictures { display: flex; flex-wrap: wrap; gap: .8rem; }
.pictures figure { width: 8.5rem; font-size: .8rem; color: var(--faint); }
.pictures img { width: 100%; image-rendering: pixelated; border-radius: 4px; background: #000; }
summary { cursor: pointer; color: var(--link); }
pre { background: var(--card); border-radius: 8px; padding: .8rem; overflow-x: auto; font-size: 12.5px; }
footer { margin-top: 2.5rem; color: var(--faint); font-size: .85rem; }
@media print { details { display: none; } body { max-width: none; } }
)css";

const std::string_view kPageScript = R"js(
for (const button of document.querySelectorAll("thead button")) button.addEventListener("click", () => {
  const head = button.parentElement, table = head.closest("table"), body = table.tBodies[0];
  const number = text => parseFloat(text.replace(/,/g, ""));
  const falls = head.getAttribute("aria-sort") === "ascending";
  const compare = (a, b) => {
    const x = a.cells[head.cellIndex].textContent, y = b.cells[head.cellIndex].textContent;
    const difference = number(x) - number(y);
    return (falls ? -1 : 1) * (Number.isNaN(difference) ? x.localeCompare(y) : difference);
  };
  for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falls ? "descending" : "ascending");
  body.append(...[...body.rows].sort(compare));
});
)js";
// clang-format on

}  // namespace unisono::report
