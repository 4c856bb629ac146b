"use strict";
(() => {
  // A map of many dots: drawn on a canvas, found again by a grid of buckets.
  const data = JSON.parse(document.getElementById("spot-data").textContent);
  const canvas = document.getElementById("spots"), said = document.getElementById("spot-text");
  const names = ["test", "traffic within reach", "traffic beyond reach, not flagged", "flagged"];
  const wide = 10000, n = data.x.length;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Apart in lightness too, so that they can be told without seeing colours.
  const hues = [12, 265, 140, 320, 45, 200, 95, 290, 350, 170, 70, 230];
  const colour = (kind, group) => {
    if (kind === 0) return dark.matches ? "#7d8797" : "#9aa3b2";
    if (kind === 1) return dark.matches ? "#5b9bd8" : "#2f6fb0";
    if (kind === 2) return dark.matches ? "#d8b45b" : "#a8801f";
    return `hsl(${hues[group % hues.length]} 75% ${(dark.matches ? 68 : 42) - 8 * (group % 2)}%)`;
  };
  const hidden = new Set();
  let zoom = 1, left = 0, top = 0, marked = -1;
  const size = () => canvas.clientWidth;
  const px = (i) => ((data.x[i] / wide - left) * zoom * 0.94 + 0.03) * size();
  const py = (i) => ((1 - data.y[i] / wide - top) * zoom * 0.94 + 0.03) * size();
  const label = (i) => (data.kind[i] === 3 ? `flagged, group ${data.group[i] + 1}` : names[data.kind[i]]);
  const key = (i) => (data.kind[i] === 3 ? `3.${data.group[i]}` : String(data.kind[i]));
  const keys = new Map();
  for (let i = 0; i < n; i++) {
    const one = keys.get(key(i)) || { at: i, dots: [] };
    one.dots.push(i);
    keys.set(key(i), one);
  }
  const order = [...keys.keys()].sort();
  const draw = () => {
    const scale = devicePixelRatio || 1;
    canvas.width = canvas.height = Math.max(1, Math.round(size() * scale));
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    for (const name of order) {
      if (hidden.has(name)) continue;
      const { at, dots } = keys.get(name), flagged = data.kind[at] === 3;
      context.fillStyle = colour(data.kind[at], data.group[at]);
      context.globalAlpha = flagged ? 0.9 : 0.45;
      const r = flagged ? 2.2 : 1.4;
      for (const i of dots) context.fillRect(px(i) - r, py(i) - r, 2 * r, 2 * r);
    }
    if (marked >= 0) {
      context.globalAlpha = 1;
      context.strokeStyle = getComputedStyle(canvas).color;
      context.lineWidth = 2;
      context.strokeRect(px(marked) - 5, py(marked) - 5, 10, 10);
    }
  };
  const cells = 128, buckets = new Map();
  const bucket = (x, y) => Math.floor((x * cells) / wide) * 1000 + Math.floor((y * cells) / wide);
  for (let i = 0; i < n; i++) {
    const at = bucket(data.x[i], data.y[i]);
    (buckets.get(at) || buckets.set(at, []).get(at)).push(i);
  }
  const nearest = (x, y) => {  // in pixels
    const mx = ((x / size() - 0.03) / 0.94 / zoom + left) * wide;
    const my = (1 - ((y / size() - 0.03) / 0.94 / zoom + top)) * wide;
    let best = -1, far = 12 * 12;
    const reach = Math.ceil((12 / size() / zoom) * cells) + 1, step = wide / cells;
    for (let a = -reach; a <= reach; a++) {
      for (let b = -reach; b <= reach; b++) {
        for (const i of buckets.get(bucket(mx + a * step, my + b * step)) || []) {
          const d = (px(i) - x) ** 2 + (py(i) - y) ** 2;
          if (d <= far && !hidden.has(key(i))) [best, far] = [i, d];
        }
      }
    }
    return best;
  };
  const show = (i) => {
    if (i === marked) return;
    marked = i;
    said.textContent = i < 0 ? "\u00a0" : `${label(i)}: ${data.text[i]}`;
    draw();
  };
  const list = document.getElementById("spot-keys");
  for (const name of order) {
    const { at, dots } = keys.get(name), item = document.createElement("li");
    const box = document.createElement("label"), input = document.createElement("input");
    input.type = "checkbox";
    input.checked = true;
    input.addEventListener("change", () => {
      if (input.checked) hidden.delete(name);
      else hidden.add(name);
      draw();
    });
    const dot = document.createElement("span");
    dot.className = "dot";
    dot.style.background = colour(data.kind[at], data.group[at]);
    box.append(input, dot, `${label(at)} (${dots.length.toLocaleString("en")})`);
    item.append(box);
    list.append(item);
  }
  let from = null;
  canvas.addEventListener("pointerdown", (event) => { from = [event.offsetX, event.offsetY]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { from = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return show(nearest(event.offsetX, event.offsetY));
    left -= (event.offsetX - from[0]) / size() / zoom;
    top -= (event.offsetY - from[1]) / size() / zoom;
    from = [event.offsetX, event.offsetY];
    draw();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const x = event.offsetX / size(), y = event.offsetY / size(), before = zoom;
    zoom = Math.min(60, Math.max(1, zoom * Math.exp(-event.deltaY / 400)));
    left += x / before - x / zoom;
    top += y / before - y / zoom;
    if (zoom === 1) left = top = 0;
    draw();
  }, { passive: false });
  dark.addEventListener("change", draw);
  addEventListener("resize", draw);
  draw();
})();
