"use strict";
const root = document.documentElement;
const tip = document.getElementById("tip");

// ── light and dark: what the system says, until the reader says otherwise ──
const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
const label = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
button.hidden = false;
button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
system.addEventListener("change", label);
label();

// ── a link to a line, a finding or a run opens what hides it and puts the focus there ──
function reveal(id, smooth) {
  const target = id && document.getElementById(id);
  if (!target) return;
  for (let inner = target; inner; inner = inner.parentElement) if (inner.tagName === "DETAILS") inner.open = true;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  target.scrollIntoView({ block: target.classList.contains("line") ? "center" : "start", behavior: smooth && !still ? "smooth" : "auto" });
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

// ── bars: one of each timeline is in the order of the Tab key, arrow keys reach the others ──
const barOf = (event) => event.target instanceof Element && event.target.closest("svg.timeline .bar");
for (const drawing of document.querySelectorAll("svg.timeline")) {
  const first = drawing.querySelector(".bar.stuck") || drawing.querySelector(".bar");
  first?.setAttribute("tabindex", "0");
}
const middle = (bar) => { const box = bar.getBoundingClientRect(); return { x: box.left + Math.min(box.width / 2, 12), y: box.top + box.height / 2 }; };
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
    if (along ? Math.abs(dy) > 3 || Math.sign(dx) !== sign : Math.abs(dy) <= 3 || Math.sign(dy) !== sign) continue;
    const far = along ? Math.abs(dx) : Math.abs(dy) * 1000 + Math.abs(dx);
    if (far < least) { best = other; least = far; }
  }
  return best;
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hide();
  const bar = barOf(event);
  if (!bar || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
  event.preventDefault();
  const other = next(bar, event.key);
  if (!other) return;
  for (const old of bar.closest("svg").querySelectorAll(".bar[tabindex='0']")) old.setAttribute("tabindex", "-1");
  other.setAttribute("tabindex", "0");
  other.focus();
});

// ── the words about a bar, and the calls of the other ranks that belong to it ──
function show(bar) {
  const [name, ...rest] = bar.getAttribute("aria-label").split(" · ");
  const head = document.createElement("strong");
  head.textContent = name;
  tip.replaceChildren(head, ...rest.map((text) => { const row = document.createElement("span"); row.textContent = text; return row; }));
  if (bar.hasAttribute("href")) { const row = document.createElement("em"); row.textContent = "Enter or click: to the line"; tip.append(row); }
  tip.hidden = false;
  const box = bar.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const x = Math.min(box.left, Math.max(box.left + box.width / 2 - size.width / 2, 8));
  tip.style.left = `${Math.max(8, Math.min(Math.max(x, box.left + Math.min(box.width, 40) / 2 - size.width / 2), innerWidth - size.width - 8))}px`;
  tip.style.top = `${box.bottom + size.height + 8 < innerHeight ? box.bottom + 6 : Math.max(4, box.top - size.height - 6)}px`;
  together(bar);
}
function together(bar) {
  for (const old of document.querySelectorAll(".bar.same")) old.classList.remove("same");
  const call = bar?.dataset.call;
  if (call) for (const other of bar.closest("svg").querySelectorAll(".bar")) if (other.dataset.call === call) other.classList.add("same");
}
function hide() { tip.hidden = true; together(null); }
document.addEventListener("pointerover", (event) => { const bar = barOf(event); if (bar) show(bar); else if (!barOf({ target: document.activeElement })) hide(); });
document.addEventListener("focusin", (event) => { const bar = barOf(event); if (bar) show(bar); else hide(); });
document.addEventListener("scroll", hide, { capture: true, passive: true });

// ── on paper nothing that went wrong is folded away ──
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.wrong:not([open]), details.check:not([open])")];
  for (const part of opened) part.open = true;
});
addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
