// Zoom, drag and search of a map of words. The page is complete without it.
"use strict";
for (const figure of document.querySelectorAll(".map")) {
  const svg = figure.querySelector("svg"), tools = figure.previousElementSibling;
  const words = [...svg.querySelectorAll("g")].map(g => ({
    g, x: +g.dataset.x, y: +g.dataset.y, width: +g.dataset.width, order: +g.dataset.order }));
  const byOrder = [...words].sort((a, b) => a.order - b.order);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  let scale = 1, left = 0, top = 0, held = null;

  function draw() {
    for (const w of words) {
      w.u = (w.x - left) * scale;
      w.v = (w.y - top) * scale;
      w.g.setAttribute("transform", `translate(${w.u.toFixed(1)} ${w.v.toFixed(1)})`);
    }
    const kept = [];
    for (const w of byOrder) {
      const box = [w.u - 3, w.u + 6 + w.width, w.v - 9, w.v + 4];
      const seen = w.u > -w.width && w.u < width && w.v > 0 && w.v < height;
      const free = seen && kept.every(k => k[0] > box[1] || k[1] < box[0] || k[2] > box[3] || k[3] < box[2]);
      w.g.classList.toggle("bare", !free);
      if (free) kept.push(box);
    }
  }
  function zoom(factor, u, v) {
    const next = Math.min(60, Math.max(1, scale * factor));
    left += u / scale - u / next;
    top += v / scale - v / next;
    scale = next;
    draw();
  }
  function reset() { scale = 1; left = 0; top = 0; draw(); }
  function place(event) {
    const box = svg.getBoundingClientRect();
    return [(event.clientX - box.left) * width / box.width, (event.clientY - box.top) * height / box.height];
  }
  svg.addEventListener("wheel", event => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), ...place(event));
  }, { passive: false });
  svg.addEventListener("pointerdown", event => { held = place(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointerup", () => { held = null; });
  svg.addEventListener("pointermove", event => {
    if (!held) return;
    const now = place(event);
    left -= (now[0] - held[0]) / scale;
    top -= (now[1] - held[1]) / scale;
    held = now;
    draw();
  });
  tools.querySelector("input").addEventListener("input", event => {
    const sought = event.target.value.trim().toLowerCase();
    const found = sought ? words.filter(w => w.g.dataset.word.toLowerCase().includes(sought)) : [];
    for (const w of words) w.g.classList.toggle("found", found.includes(w));
    figure.classList.toggle("searching", found.length > 0);
    tools.querySelector("output").textContent = sought ? `${found.length} found` : "";
  });
  const [closer, farther, whole] = tools.querySelectorAll("button");
  closer.addEventListener("click", () => zoom(1.6, width / 2, height / 2));
  farther.addEventListener("click", () => zoom(1 / 1.6, width / 2, height / 2));
  whole.addEventListener("click", reset);
  tools.hidden = false;
  draw();
}
