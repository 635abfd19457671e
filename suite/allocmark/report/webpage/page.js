"use strict";
(() => {
  const root = document.documentElement;
  const keep = (name, value) => { try { localStorage.setItem("allocmark-" + name, value); } catch { /* a page from a file may keep nothing */ } };
  const kept = name => { try { return localStorage.getItem("allocmark-" + name); } catch { return null; } };
  root.dataset.js = "";

  const speak = lang => {
    root.lang = lang;
    document.title = document.body.dataset["title" + (lang === "zh" ? "Zh" : "En")];
    for (const e of document.querySelectorAll("main [data-title-en]")) e.title = e.dataset["title" + (lang === "zh" ? "Zh" : "En")];
    for (const b of document.querySelectorAll("[data-to]")) b.setAttribute("aria-pressed", b.dataset.to === lang);
  };
  for (const b of document.querySelectorAll("[data-to]"))
    b.addEventListener("click", () => { speak(b.dataset.to); keep("lang", b.dataset.to); });
  speak(kept("lang") || root.lang);

  const theme = document.getElementById("theme");
  const paint = name => {
    if (name) root.dataset.theme = name;
    theme.setAttribute("aria-pressed", dark());
  };
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme:dark)").matches ? "dark" : "light")) === "dark";
  theme.addEventListener("click", () => { const next = dark() ? "light" : "dark"; paint(next); keep("theme", next); });
  paint(kept("theme"));

  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    target.scrollIntoView();
  };
  const menu = document.querySelector(".menu");
  const shut = event => { if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false; };
  addEventListener("click", shut);
  addEventListener("keydown", event => { if (event.key === "Escape") menu.open = false; });
  addEventListener("hashchange", open);
  open();

  const unpack = async base64 => {
    const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).blob();
  };
  for (const b of document.querySelectorAll(".csv"))
    b.addEventListener("click", async () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([await unpack(b.dataset.csv)], {type: "text/csv"}));
      link.download = b.dataset.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });

  // What is wider than its box says so on a phone, where no scroll bar is seen.
  const seen = new ResizeObserver(all => { for (const {target: box} of all) box.classList.toggle("over", box.scrollWidth > box.clientWidth); });
  for (const box of document.querySelectorAll(".tb .box")) seen.observe(box);

  const word = cell => ((cell.querySelector(`[lang=${root.lang}]`) || cell).textContent).trim();
  const compare = (a, b) => {
    const x = a.dataset.v, y = b.dataset.v;
    if (x !== undefined && y !== undefined) return x - y;
    if (a.localName === "td" && b.localName === "td" && (x !== undefined || y !== undefined)) return 0;
    return word(a).localeCompare(word(b), root.lang, {numeric: true});
  };
  const sort = (table, column, up) => {
    const body = table.tBodies[0];
    const rows = table.first ||= [...body.rows];
    const lacks = row => row.cells[column].className === "n";
    const sorted = up === null ? rows : [...rows].sort((p, q) =>
      lacks(p) - lacks(q) || compare(p.cells[column], q.cells[column]) * (up ? 1 : -1));
    body.append(...sorted);
  };
  for (const table of document.querySelectorAll(".tb table"))
    for (const head of table.tHead.rows[0].cells) {
      const b = document.createElement("button");
      b.type = "button";
      b.append(...head.childNodes);
      head.append(b);
      b.addEventListener("click", () => {
        const was = head.ariaSort;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        if (was !== "descending") head.ariaSort = was === "ascending" ? "descending" : "ascending";
        sort(table, head.cellIndex, was === "descending" ? null : was !== "ascending");
      });
    }
})();
