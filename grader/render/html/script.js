"use strict";
const root = document.documentElement;
const tip = document.getElementById("tip");

// ── light and dark: what the system says, until the reader says otherwise ──
const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
function label() {
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-label", `${button.textContent} colours`);
}
button.hidden = false;
button.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  label();
});
system.addEventListener("change", label);
label();

// ── a link to a line, a finding or a run opens what hides it and puts the focus there ──
function reveal(id, smooth) {
  const target = id && document.getElementById(id);
  if (!target) return;
  for (let inner = target; inner; inner = inner.parentElement) if (inner.tagName === "DETAILS") inner.open = true;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const block = target.classList.contains("line") ? "center" : "start";
  target.scrollIntoView({ block, behavior: smooth && !still ? "smooth" : "auto" });
  const place = target.tagName === "DETAILS" ? target.querySelector("summary") : target;
  if (place.tabIndex < 0 && !place.hasAttribute("tabindex")) place.tabIndex = -1;
  place.focus({ preventScroll: true });
}
addEventListener("hashchange", () => reveal(location.hash.slice(1), false));
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  hide();
  history.pushState(null, "", link.getAttribute("href"));
  // pushState leaves :target as it was, so the line that was asked for is marked here.
  for (const old of document.querySelectorAll(".asked")) old.classList.remove("asked");
  const id = link.getAttribute("href").slice(1);
  document.getElementById(id)?.classList.add("asked");
  reveal(id, true);
});
addEventListener("popstate", () => reveal(location.hash.slice(1), false));
if (location.hash) reveal(location.hash.slice(1), false);

// ── where the file is longer than its place, it begins with what matters ──
for (const pane of document.querySelectorAll(".source")) {
  const first = pane.querySelector(".marked");
  if (first && !location.hash && pane.scrollHeight > pane.clientHeight)
    pane.scrollTop = first.getBoundingClientRect().top - pane.getBoundingClientRect().top - pane.clientHeight / 3;
}

// ── where a drawing is wider than the window, it begins with how it went wrong ──
for (const drawing of document.querySelectorAll(".run.wrong .drawing")) drawing.scrollLeft = drawing.scrollWidth;

// ── bars: one of each timeline is in the order of the Tab key, arrow keys reach the others ──
const barOf = (event) => event.target instanceof Element && event.target.closest("svg.timeline .bar");
for (const drawing of document.querySelectorAll("svg.timeline")) {
  const first = drawing.querySelector(".bar.stuck") || drawing.querySelector(".bar");
  first?.setAttribute("tabindex", "0");
}
function middle(bar) {
  const box = bar.getBoundingClientRect();
  return { x: box.left + Math.min(box.width / 2, 12), y: box.top + box.height / 2 };
}
function next(bar, key) {
  const all = [...bar.closest("svg").querySelectorAll(".bar")];
  if (key === "Home") return all[0];
  if (key === "End") return all[all.length - 1];
  const here = middle(bar);
  const along = key === "ArrowLeft" || key === "ArrowRight";
  const sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  let best = null, least = Infinity;
  for (const other of all) {
    if (other === bar) continue;
    const there = middle(other);
    const dx = there.x - here.x, dy = there.y - here.y;
    const aside = along ? Math.abs(dy) > 3 : Math.abs(dy) <= 3;
    if (aside || Math.sign(along ? dx : dy) !== sign) continue;
    const far = along ? Math.abs(dx) : Math.abs(dy) * 1000 + Math.abs(dx);
    if (far < least) { best = other; least = far; }
  }
  return best;
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hide();
  const bar = barOf(event);
  if (!bar || !/^(Arrow(Left|Right|Up|Down)|Home|End)$/.test(event.key)) return;
  event.preventDefault();
  const other = next(bar, event.key);
  if (!other) return;
  for (const old of bar.closest("svg").querySelectorAll(".bar[tabindex='0']")) old.setAttribute("tabindex", "-1");
  other.setAttribute("tabindex", "0");
  other.focus();
});

// ── the words about a bar, and the calls of the other ranks that belong to it ──
let told = null;
function row(kind, text) {
  const element = document.createElement(kind);
  element.textContent = text;
  return element;
}
function show(bar) {
  const [name, ...rest] = bar.getAttribute("aria-label").split(" · ");
  tip.replaceChildren(row("strong", name), ...rest.map((text) => row("span", text)));
  if (bar.hasAttribute("href")) tip.append(row("em", "Enter or click: to the line"));
  tip.hidden = false;
  together(bar);
  told = bar;
  place();
}
function place() {
  if (!told) return;
  const box = told.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const x = box.left + Math.min(box.width, 160) / 2 - size.width / 2;
  const below = box.bottom + size.height + 8 < innerHeight;
  tip.style.left = `${Math.max(8, Math.min(x, innerWidth - size.width - 8))}px`;
  tip.style.top = `${Math.max(4, below ? box.bottom + 6 : box.top - size.height - 6)}px`;
}
function together(bar) {
  for (const old of document.querySelectorAll(".bar.same")) old.classList.remove("same");
  const call = bar?.dataset.call;
  if (!call) return;
  for (const other of bar.closest("svg").querySelectorAll(".bar"))
    other.classList.toggle("same", other.dataset.call === call);
}
function hide() {
  tip.hidden = true;
  told = null;
  together(null);
}
document.addEventListener("pointerover", (event) => {
  const bar = barOf(event), kept = barOf({ target: document.activeElement });
  if (bar || kept) show(bar || kept);
  else hide();
});
document.addEventListener("focusin", (event) => {
  const bar = barOf(event);
  if (bar) show(bar);
  else hide();
});
addEventListener("scroll", place, { capture: true, passive: true });
addEventListener("resize", place);

// ── on paper nothing that went wrong is folded away ──
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.wrong:not([open]), details.check:not([open])")];
  for (const part of opened) part.open = true;
});
addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
