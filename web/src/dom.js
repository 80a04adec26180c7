// Helpers that create elements and format numbers.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Creates an HTML element. */
export const h = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);

/** Creates an SVG element. */
export const s = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** Formats a number of bytes with a unit. */
export function bytes(count) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (count >= size) return `${Number((count / size).toPrecision(4))} ${unit}`;
  }
  return `${count} B`;
}

/** Formats seconds with a unit. */
export function seconds(time) {
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
    if (time >= size) return `${Number((time / size).toPrecision(3))} ${unit}`;
  }
  return `${Number((time * 1e9).toPrecision(3))} ns`;
}

/** A message that is shown instead of a view. */
export const notice = (title, text) => h("div", { class: "notice" }, h("h2", {}, title), text && h("p", {}, text));

/** A table. Cells are text or elements; numbers are right-aligned. */
export function table(heads, rows) {
  const cell = (content) => h("td", { class: typeof content === "number" || content?.number !== undefined ? "number" : null },
    content?.number ?? (typeof content === "number" ? String(content) : content));
  return h("table", {},
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows.map((row) => h("tr", row.attributes ?? {}, (row.cells ?? row).map(cell)))));
}
