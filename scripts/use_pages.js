// For scripts/check_site.sh: opens each page of `pages` in a frame, at two widths, light and dark, and uses its sliders, quizzes,
// predictions and switches.
"use strict";
const problems = [];
const next = () => new Promise(resolve => setTimeout(resolve, 0));

function open(page, width) {
  return new Promise(resolve => {
    const frame = document.createElement("iframe");
    frame.style = `border:0;width:${width}px;height:800px`;
    frame.src = page;
    frame.onload = () => resolve(frame);
    document.body.replaceChildren(frame);
  });
}

/** The relative luminance of a colour, and the contrast ratio of two colours, by WCAG 2.2. */
function luminance([r, g, b]) {
  const linear = [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}
const numbers = colour => colour.match(/[\d.]+/g).map(Number);
function contrast(a, b) {
  const [low, high] = [luminance(numbers(a)), luminance(numbers(b))].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function background(element, view) {
  for (let e = element; e; e = e.parentElement) {
    const colour = numbers(view.getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return view.getComputedStyle(e).backgroundColor;
  }
  return "rgb(255, 255, 255)";
}

function check_contrast(frame, say) {
  const view = frame.contentWindow;
  const low = new Set();
  for (const element of frame.contentDocument.querySelectorAll("body *:not(script):not(svg *):not(.skip)")) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    if (!element.checkVisibility()) continue;
    const found = contrast(view.getComputedStyle(element).color, background(element, view));
    if (found < 4.5) low.add(`${element.tagName}.${element.className} ${found.toFixed(1)}`);
  }
  if (low.size) say(`too little contrast: ${[...low].slice(0, 3)}`);
}

/** Moves each slider through all positions, and expects the sentence and the slider's text of each, and a view that changes. */
function check_sliders(figure, say) {
  const name = figure.querySelector("figcaption").textContent;
  const views = JSON.parse(figure.querySelector("script").textContent);
  const sliders = [...figure.querySelectorAll("input")];
  const shown = new Set();
  for (const slider of sliders) {
    const start = slider.value;
    for (let at = 0; at <= slider.max; ++at) {
      slider.value = at;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      const key = sliders.map(other => other.value).join();
      if (figure.querySelector(".sentence").textContent !== views[key]?.[0]) say(`${name}: ${key} shows another sentence`);
      if (slider.getAttribute("aria-valuetext") !== slider.previousElementSibling.textContent) say(`${name}: the slider's text`);
      shown.add(figure.querySelector(".view").innerHTML);
    }
    slider.value = start;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
  if (shown.size < 2) say(`${name}: nothing changes`);
}

function check_quiz(quiz, say) {
  for (const choice of quiz.querySelectorAll("input")) {
    choice.click();
    if (quiz.querySelector("[role=status]").textContent !== choice.dataset.why) say("a choice is not explained");
  }
}

function check_predictions(form, say) {
  const results = () => [...form.querySelectorAll("span")].filter(span => span.checkVisibility()).length;
  form.querySelector("button").click();
  if (results()) say("the results are shown before there is a prediction");
  const fields = [...form.querySelectorAll("input")];
  for (const field of fields) field.value = "a guess";
  form.querySelector("button").click();
  if (results() !== fields.length) say("the results are not shown beside the predictions");
}

async function use(page, width) {
  const frame = await open(page, width);
  const { contentDocument: root, contentWindow: view } = frame;
  const say = text => problems.push(`${page} at ${width}: ${text}`);
  for (const folded of root.querySelectorAll("details")) {
    if (folded.open) say("an answer is open from the beginning");
    folded.open = true;
  }
  for (const form of root.querySelectorAll("form.predict")) check_predictions(form, say);
  for (const quiz of root.querySelectorAll("fieldset.quiz")) check_quiz(quiz, say);
  for (const figure of root.querySelectorAll("figure")) {
    if (figure.querySelector("script")) check_sliders(figure, say);
  }
  const found = root.documentElement.scrollWidth;
  if (found > width) say(`${found} pixels wide`);
  if (view.performance.getEntriesByType("resource").length) say("something is fetched");
  const paper = () => view.getComputedStyle(root.querySelector("main")).backgroundColor;
  const first = paper();
  check_contrast(frame, say);
  root.getElementById("theme").click();
  if (paper() === first) say("the switch does not change the colours");
  check_contrast(frame, say);
  root.getElementById("theme").click();
  if (paper() !== first) say("the switch does not go back");
  await next();
}

(async () => {
  for (const page of pages) {
    for (const width of [360, 1280]) {
      try { await use(page, width); } catch (error) { problems.push(`${page} at ${width}: ${error}`); }
    }
  }
  document.body.replaceChildren();
  document.title = problems.length ? `${problems.length} problems: ${problems.slice(0, 12).join("; ")}` : `as they should be: ${pages.length} pages`;
})();
