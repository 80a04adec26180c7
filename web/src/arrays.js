// Draws an array element by element. The last two dimensions are the rows and columns; one plane of
// the other dimensions is shown at a time. In large arrays, one square stands for several elements.
import { h } from "./dom.js";

const MOST_WIDTH = 330;
const MOST_HEIGHT = 240;
const CELL = 18;

/** The index of a row-major number. */
export function unravel(number, dims) {
  const index = [];
  for (let at = dims.length - 1; at >= 0; at--) {
    index[at] = number % dims[at];
    number = Math.floor(number / dims[at]);
  }
  return index;
}

/**
 * Draws an array. `set` has `dims`, `elements` (row-major numbers, ascending), `all`, `exact`.
 * `onpick(numbers)`, if given, is called with the elements that the user clicks or drags over.
 */
export function drawArray({ name, dims, set, onpick }) {
  const rows = dims.length > 1 ? dims.at(-2) : 1;
  const columns = dims.length > 0 ? dims.at(-1) : 1;
  const planeSize = rows * columns;
  const planes = dims.slice(0, -2).reduce((n, d) => n * d, 1);
  if (planeSize === 0 || planes === 0) return h("p", { class: "note" }, "The array has no elements.");
  const cell = Math.max(1, Math.min(CELL, Math.floor(MOST_WIDTH / columns), Math.floor(MOST_HEIGHT / rows)));
  // Elements per square, in each direction.
  const perX = Math.max(1, Math.ceil(columns / MOST_WIDTH)), perY = Math.max(1, Math.ceil(rows / MOST_HEIGHT));
  const across = Math.ceil(columns / perX), down = Math.ceil(rows / perY);
  const canvas = h("canvas", { width: across * cell * 2, height: down * cell * 2, role: "img" });
  canvas.style.width = `${across * cell}px`;
  canvas.style.height = `${down * cell}px`;
  let elements = set?.elements ?? [];
  let all = set?.all ?? false;
  let exact = set?.exact ?? true;
  let plane = elements.length > 0 ? Math.floor(elements[0] / planeSize) : 0;
  let dragged = null;

  const label = h("span", { class: "plane" });
  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    const colour = (variable) => style.getPropertyValue(variable).trim();
    const context = canvas.getContext("2d");
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.fillStyle = all ? colour(exact ? "--hit" : "--maybe") : colour("--cell");
    context.fillRect(0, 0, across * cell, down * cell);
    if (!all) {
      context.fillStyle = colour(exact ? "--hit" : "--maybe");
      const first = plane * planeSize;
      for (const element of elements) {
        const own = element - first;
        if (own < 0) continue;
        if (own >= planeSize) break;
        const x = Math.floor((own % columns) / perX), y = Math.floor(own / columns / perY);
        context.fillRect(x * cell, y * cell, cell, cell);
      }
    }
    if (cell >= 4) {
      context.strokeStyle = colour("--line");
      context.lineWidth = 0.5;
      context.beginPath();
      for (let x = 0; x <= across; x++) { context.moveTo(x * cell, 0); context.lineTo(x * cell, down * cell); }
      for (let y = 0; y <= down; y++) { context.moveTo(0, y * cell); context.lineTo(across * cell, y * cell); }
      context.stroke();
    }
    if (dragged) {
      const [x0, y0, x1, y1] = dragged;
      context.strokeStyle = colour("--text");
      context.lineWidth = 1.5;
      context.strokeRect(Math.min(x0, x1) * cell, Math.min(y0, y1) * cell, (Math.abs(x1 - x0) + 1) * cell, (Math.abs(y1 - y0) + 1) * cell);
    }
    const prefix = unravel(plane, dims.slice(0, -2));
    label.textContent = planes > 1 ? `[${[...prefix, "*", "*"].join(", ")}]` : "";
    const count = all ? "all elements" : `${elements.length} element${elements.length === 1 ? "" : "s"}`;
    canvas.setAttribute("aria-label", `${name}, ${dims.join(" by ") || "one element"}: ${count} highlighted`);
  };
  const step = (by) => { plane = (plane + by + planes) % planes; draw(); };

  if (onpick) {
    canvas.classList.add("pickable");
    canvas.setAttribute("tabindex", "0");
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      const at = (value, count) => Math.max(0, Math.min(count - 1, Math.floor(value / cell)));
      return [at(event.clientX - box.left, across), at(event.clientY - box.top, down)];
    };
    const pick = () => {
      const [x0, y0, x1, y1] = dragged;
      const picked = [];
      const tile = x0 !== x1 || y0 !== y1;
      const lastY = tile ? Math.min(rows, (Math.max(y0, y1) + 1) * perY) : Math.min(y0, y1) * perY + 1;
      const lastX = tile ? Math.min(columns, (Math.max(x0, x1) + 1) * perX) : Math.min(x0, x1) * perX + 1;
      for (let y = Math.min(y0, y1) * perY; y < lastY; y++) {
        for (let x = Math.min(x0, x1) * perX; x < lastX; x++) picked.push(plane * planeSize + y * columns + x);
      }
      dragged = null;
      onpick(picked);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      dragged = [...place(event), ...place(event)];
      draw();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!dragged) {
        const [x, y] = place(event);
        canvas.title = `element [${unravel(plane * planeSize + y * perY * columns + x * perX, dims).join(", ")}]`;
        return;
      }
      [dragged[2], dragged[3]] = place(event);
      draw();
    });
    canvas.addEventListener("pointerup", () => { if (dragged) pick(); });
    canvas.addEventListener("pointercancel", () => { dragged = null; draw(); });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      const own = (elements[0] ?? 0) - plane * planeSize;
      const x = Math.max(0, Math.min(columns - 1, (own % columns) + move[0]));
      const y = Math.max(0, Math.min(rows - 1, Math.floor(own / columns) + move[1]));
      onpick([plane * planeSize + y * columns + x]);
    });
  }
  draw();
  const figure = h("figure", { class: "array" }, canvas);
  if (planes > 1) {
    figure.append(h("div", { class: "planes" },
      h("button", { "aria-label": `previous plane of ${name}`, onclick: () => step(-1) }, "‹"), label,
      h("button", { "aria-label": `next plane of ${name}`, onclick: () => step(1) }, "›")));
  }
  /** Highlights another set of elements in the same drawing. */
  figure.update = (next) => {
    ({ elements, all, exact } = next);
    if (elements.length > 0) plane = Math.floor(elements[0] / planeSize);
    draw();
  };
  return figure;
}
