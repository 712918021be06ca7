"use strict";
// Everything that comes from the data is written as text (textContent, attributes), never as HTML.
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

// Make an element; children are nodes or text. Attributes: "text", "on*" handlers, "--custom" properties, "width%".
function make(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else if (name === "css") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const el = (tag, attributes = {}, ...children) => make(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => make(document.createElementNS(SVG, tag), attributes, children);
const fill = (id, ...children) => $(id).replaceChildren(...children.filter((child) => child));

// Numbers as people read them.
const minus = (text) => text.replace("-", "\u2212");
const MISSING = "\u2013";
const fixed = (value, digits = 2) =>
  value === null ? MISSING : minus((Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits));
const signed = (value, digits = 2) =>
  value === null
    ? MISSING
    : (fixed(value, digits).startsWith("\u2212") || Number(value.toFixed(digits)) === 0 ? "" : "+") +
      fixed(value, digits);
const whole = (value) => (value === null ? MISSING : Math.round(value).toLocaleString("en-US"));
const percent = (value, digits = 0) => (value === null ? MISSING : `${(100 * value).toFixed(digits)}%`);
const brief = (value) =>
  value === 0
    ? "0"
    : minus(
        Math.abs(value) >= 1e5 || Math.abs(value) < 1e-4
          ? Number(value.toPrecision(2)).toExponential()
          : String(Number(value.toPrecision(3))),
      );
const interval = (low, high, digits = 2) => `${signed(low, digits)} to ${signed(high, digits)}`;
const short = (name, most) => (name.length <= most ? name : `${name.slice(0, most - 1)}\u2026`);
const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

const say = (text) => {
  $("live").textContent = text;
};

const scroller = (label, ...children) =>
  el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, ...children);
const listOf = (texts, alert = false) =>
  texts.length
    ? el("ul", { class: alert ? "notes alert" : "notes" }, ...texts.map((text) => el("li", { text })))
    : null;

// Draw at the width there is, and again when it changes, so that text keeps its size on a phone.
const watched = new Map();
const watcher = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const seen = watched.get(target);
    if (seen && contentRect.width > 0 && Math.abs(seen.width - contentRect.width) > 1)
      redraw(target, contentRect.width);
  }
});
function redraw(target, width) {
  const seen = watched.get(target);
  seen.width = width;
  target.replaceChildren(...[seen.draw(width)].flat());
}
function fitted(target, draw) {
  watched.set(target, { draw, width: 0 });
  redraw(target, target.clientWidth || 640);
  watcher.observe(target);
}

// One tooltip for whatever carries data-tip, on hover and on focus.
function showTip(target) {
  const tip = $("tip");
  tip.textContent = target.getAttribute("data-tip");
  tip.hidden = false;
  const at = target.getBoundingClientRect(),
    own = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left + at.width / 2 - own.width / 2), window.innerWidth - own.width - 8);
  const above = at.top - own.height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 4 ? above : at.bottom + 8}px`;
}
const hideTip = () => {
  $("tip").hidden = true;
};
for (const event of ["mouseover", "focusin"]) {
  document.addEventListener(event, (happened) => {
    const target = happened.target.closest?.("[data-tip]");
    if (target) showTip(target);
    else hideTip();
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
window.addEventListener("scroll", hideTip, { passive: true, capture: true });
