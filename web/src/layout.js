// Arrays in memory: a picture of one shape, and the layouts chosen for a chip.
import { h, bytes, seconds, notice, table } from "./dom.js";

const CHIPS = ["v4", "v5e", "v5p", "v6e", "7x"];
const SHAPES = ["f32[5,130]{1,0:T(8,128)}", "bf16[20,256]{1,0:T(8,128)(2,1)}", "f32[3,5]{1,0:T(2,4)}", "f32[4,6]{0,1}", "s8[40,128]{1,0:T(8,128)(4,1)}"];

export const chipChoice = (value, onchange) => h("label", {}, "Chip ", h("select", { onchange: (event) => onchange(event.target.value) },
  CHIPS.map((chip) => h("option", { value: chip, ...(chip === value ? { selected: true } : {}) }, chip))));

export class LayoutView {
  #panel; #app; #shape = SHAPES[2];
  /** Whether the user chose the shape; otherwise it is the program's array with the most padding. */
  #chosen = false;
  /** The name of the program's array that has this shape, if it came from the program. */
  #name = ""; #input; #picture; #facts; #sliders; #assignment; #generation = 0; #drawing = 0;

  constructor(panel, app) {
    this.#panel = panel;
    this.#app = app;
    this.#input = h("input", { type: "text", id: "shape", value: this.#shape, spellcheck: "false", autocomplete: "off", list: "shapes", oninput: () => { this.shape = this.#input.value; } });
    this.#picture = h("div", { class: "picture-box", role: "group", tabindex: "0", "aria-label": "Picture of the array in memory" });
    this.#facts = h("div", { class: "facts", "aria-live": "polite" });
    this.#sliders = h("div", { class: "sliders" });
    this.#assignment = h("div", { class: "assignment" });
    // The panel stays hidden until its first picture, so that nothing jumps.
    panel.classList.add("undrawn");
    panel.append(
      h("section", {},
        h("h2", {}, "An array in memory"),
        h("p", { class: "note" }, "Type any shape with its layout and tiles, or move the sliders. Top: the address of each element. Bottom: memory in address order, with padding hatched. Each colour is a tile; red lines separate inner tiles."),
        h("div", { class: "form" }, h("label", { for: "shape" }, "Shape"), this.#input, h("datalist", { id: "shapes" }, SHAPES.map((value) => h("option", { value }))),
          h("button", { onclick: () => { this.#default(); } }, "Use the chip's default layout"), chipChoice(app.chip, (chip) => { app.chip = chip; this.update(); })),
        this.#sliders, this.#facts, this.#picture),
      h("section", {}, h("h2", {}, "Layouts chosen for this program"), this.#assignment));
  }

  get shape() { return this.#shape; }
  set shape(value) {
    this.#chosen = true;
    this.#show(value);
    this.#app.changed();
  }

  #show(value, name = "") {
    this.#shape = value;
    this.#name = name;
    if (this.#input.value !== value) this.#input.value = value;
    this.#draw();
  }

  /** The shape to store in a link; null unless the user chose it. */
  get chosen() { return this.#chosen ? this.#shape : null; }

  async #default() {
    try {
      const bare = this.#shape.replace(/\{.*$/, "");
      const { value } = await this.#app.ask({ ask: "layout", shape: bare, chip: this.#app.chip });
      this.shape = value.shape;
    } catch (error) {
      this.#facts.replaceChildren(h("p", { class: "error" }, error.message));
    }
  }

  async #draw() {
    const drawing = ++this.#drawing;
    try {
      const { value } = await this.#app.ask({ ask: "layout", shape: this.#shape, chip: null });
      if (drawing !== this.#drawing) return;
      const padding = value.padded_bytes - value.bytes;
      this.#facts.replaceChildren(h("p", {}, this.#name && h("b", {}, `${this.#name}: `), h("b", {}, `${value.elements.toLocaleString("en")} elements, ${bytes(value.bytes)}`), `; in memory ${bytes(value.padded_bytes)}${padding ? `, ${(100 * padding / value.padded_bytes).toFixed(1)} % of it padding` : ""}.`), h("p", {}, value.why));
      const template = document.createElement("template");
      template.innerHTML = value.svg;
      const svg = template.content.firstElementChild;
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", `${value.shape} in memory. ${value.why}`);
      this.#picture.replaceChildren(svg);
      this.#slide();
    } catch (error) {
      if (drawing !== this.#drawing) return;
      this.#facts.replaceChildren(h("p", { class: "error" }, error.message));
    }
    this.#panel.classList.remove("undrawn");
  }

  #slide() {
    const match = /^(\s*\w+)\[([\d,\s]+)\](.*)$/s.exec(this.#shape);
    const sizes = match?.[2].split(",").map(Number) ?? [];
    const inputs = [...this.#sliders.querySelectorAll("input")];
    if (inputs.length === sizes.length) {
      // Keep the sliders, so that the one being dragged is not replaced.
      inputs.forEach((input, at) => { if (Number(input.value) !== sizes[at]) { input.max = Math.max(64, Number(input.max), sizes[at]); input.value = sizes[at]; } input.nextElementSibling.textContent = sizes[at]; });
      return;
    }
    this.#sliders.replaceChildren(...sizes.map((size, at) => h("label", {}, `dimension ${at} `, h("input", {
      type: "range", min: 1, max: Math.max(64, size * 2), value: size,
      oninput: (event) => {
        const now = /^(\s*\w+)\[([\d,\s]+)\](.*)$/s.exec(this.#shape);
        if (!now) return;
        const next = now[2].split(",").map(Number);
        next[at] = Number(event.target.value);
        this.shape = `${now[1]}[${next.join(",")}]${now[3]}`;
      },
    }), h("output", {}, size))));
  }

  async update() {
    const generation = ++this.#generation;
    if (this.#chosen) this.#draw();
    try {
      const { value } = await this.#app.ask({ ask: "assignment", chip: this.#app.chip });
      if (generation !== this.#generation) return;
      if (!this.#chosen) {
        const padding = (array) => array.bytes - array.useful;
        const most = value.arrays.reduce((best, array) => (padding(array) > padding(best) ? array : best), value.arrays[0]);
        if (most) this.#show(most.shape, most.name);
        else this.#draw();
      }
      const show = (array) => { this.#chosen = true; this.#show(array.shape, array.name); this.#app.changed(); this.#panel.scrollTo({ top: 0 }); };
      const us = (time) => `${(time * 1e6).toFixed(3)} µs`;
      const rows = value.arrays.map((array) => {
        const more = array.alternatives.length > 0 || array.wishes.length > 0 || array.fixed;
        const why = more ? h("details", {}, h("summary", {}, array.fixed ? "no choice" : `${array.alternatives.length} alternative${array.alternatives.length === 1 ? "" : "s"}`),
          array.fixed && h("p", {}, array.fixed), array.wishes.map((wish) => h("p", {}, `preference: ${wish}`)),
          array.alternatives.length > 0 && table(["layout", "cost", "traffic", "missed preferences", "copies"], array.alternatives.map((a) => [h("code", {}, `${a.chosen ? "✓ " : ""}${a.layout}`), { number: us(a.traffic + a.denied + a.copies) }, { number: us(a.traffic) }, { number: us(a.denied) }, { number: us(a.copies) }]))) : "";
        const padding = array.bytes - array.useful;
        return [array.name, h("button", { class: "link", title: "Show it in memory", onclick: () => show(array) }, array.shape), { number: bytes(array.bytes) }, { number: padding > 0 ? h("button", { class: "link", title: "Why it is padded", onclick: () => show(array) }, `${(100 * padding / array.bytes).toFixed(0)} %`) : "–" }, h("span", {}, h("b", {}, array.space), ` ${array.place_reason}`), why];
      });
      this.#assignment.replaceChildren(
        h("p", {}, `On ${this.#app.chip}: ${seconds(value.seconds)} of memory traffic${value.is_best ? "; no assignment costs less" : ""}. VMEM: at most ${bytes(value.vmem_peak)} of ${bytes(value.vmem_bytes)} in use.`),
        h("div", { class: "wide" }, table(["array", "type and layout", "bytes", "padding", "memory, and why", "why this layout"], rows)));
    } catch (error) {
      if (generation !== this.#generation) return;
      if (!this.#chosen) this.#draw();
      this.#assignment.replaceChildren(notice("No layouts", error.message));
    }
  }
}
