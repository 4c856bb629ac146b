"use strict";
(() => {
  // Tables: click a heading to sort, type to search.
  const value = (cell) => {
    const raw = cell.dataset.value;
    return raw === undefined ? cell.textContent.trim().toLowerCase() : raw === "" ? -Infinity : Number(raw);
  };
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const body = table.tBodies[0];
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].map((row) => [value(row.cells[column]), row]);
        rows.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
        body.append(...rows.map(([, row]) => row));
      });
    });
  }
  for (const box of document.querySelectorAll("input[type=search]")) {
    const rows = [...document.querySelectorAll(box.dataset.rows)];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const count = document.getElementById(box.dataset.count);
    box.addEventListener("input", () => {
      const asked = box.value.trim().toLowerCase();
      let shown = 0;
      rows.forEach((row, i) => {
        row.hidden = !texts[i].includes(asked);
        shown += row.hidden ? 0 : 1;
      });
      if (count) count.textContent = asked ? `${shown} of ${rows.length}` : "";
    });
  }
  // Maps: click a layer or a head to look into it.
  const source = document.getElementById("maps");
  if (!source) return;
  const maps = JSON.parse(source.textContent);
  const style = () => getComputedStyle(document.documentElement);
  const parse = (name) => {
    const hex = style().getPropertyValue(name).trim().slice(1);
    return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
  };
  const press = (button, group) => {
    for (const other of document.querySelectorAll(`${group} .cell`)) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  };
  // Numbers along the sides of a map, at most nine: the positions of its cells' middles.
  const ticks = (id, side) => {
    const length = maps.length, steps = [1, 2, 5].flatMap((n) => [1, 10, 100, 1000, 1e4].map((t) => n * t));
    const step = Math.min(...steps.filter((n) => length / n <= 9));
    const box = document.getElementById(id);
    box.replaceChildren();
    for (let at = 0; at < length; at += step) {
      const mark = document.createElement("span");
      mark.textContent = String(at);
      mark.style[side] = `${(100 * (at + 0.5)) / length}%`;
      box.append(mark);
    }
  };
  let drawn = null;
  const draw = () => {
    if (!drawn) return;
    const canvas = document.getElementById("head-map");
    const cells = drawn.cells, n = cells.length;
    canvas.width = canvas.height = Math.max(1, n);
    const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
    const low = parse("--low"), high = parse("--high");
    cells.forEach((row, i) => row.forEach((share, j) => {
      const at = 4 * (i * n + j);
      for (let c = 0; c < 3; c++) image.data[at + c] = low[c] + (high[c] - low[c]) * share;
      image.data[at + 3] = 255;
    }));
    context.putImageData(image, 0, 0);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  for (const button of document.querySelectorAll("#heads .cell")) {
    button.addEventListener("click", () => {
      press(button, "#heads");
      const { layer, head } = button.dataset;
      drawn = maps.attention[layer][head];
      document.getElementById("head-detail").hidden = false;
      ticks("head-columns", "left");
      ticks("head-rows", "top");
      document.getElementById("head-title").textContent =
        `Layer ${drawn.layer}, head ${Number(head) + 1}: ${(100 * drawn.share).toFixed(1)} % covered`;
      draw();
    });
  }
  for (const button of document.querySelectorAll("#positions .cell")) {
    button.addEventListener("click", () => {
      press(button, "#positions");
      const layer = maps.hidden[button.dataset.layer], shares = layer.positions;
      const width = 560, height = 160, left = 40, bottom = 24, top = 8;
      const x = (i) => left + (shares.length > 1 ? (i / (shares.length - 1)) * (width - left - 8) : 0);
      const y = (share) => top + (1 - share) * (height - top - bottom);
      document.getElementById("layer-line").setAttribute(
        "d", shares.map((share, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(share).toFixed(1)}`).join(""));
      document.getElementById("layer-detail").hidden = false;
      document.getElementById("layer-title").textContent =
        `Words in layer ${layer.layer}: ${(100 * layer.share).toFixed(1)} % covered up to the longest text`;
      document.getElementById("layer-end").textContent = `position ${shares.length - 1}`;
    });
  }
})();
