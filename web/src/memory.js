// Memory and time on a CPU: the arena over the schedule, and a lower bound of each step's time.
import { h, s, bytes, seconds, notice, table } from "./dom.js";

const WIDTH = 900, LEFT = 70, HEIGHT = 240;

export class MemoryView {
  #panel; #app; #generation = 0; #machine = { flops: 100, bandwidth: 20 }; #memory = null; #body; #form;

  constructor(panel, app) {
    this.#panel = panel;
    this.#app = app;
    const number = (name, text, unit) => h("label", {}, `${text} `, h("input", { type: "number", min: "0.1", step: "any", value: this.#machine[name], oninput: (event) => { this.#machine[name] = Math.max(0.1, Number(event.target.value) || 1); this.#app.changed(); if (this.#memory) this.#draw(); } }), ` ${unit}`);
    this.#body = h("div", {});
    this.#form = h("div", { class: "form" }, h("span", {}, "On a machine with"), number("flops", "", "GFLOP/s"), number("bandwidth", "and", "GB/s of memory"));
    panel.append(this.#form, this.#body);
  }

  get state() { return this.#machine; }
  set state(state) {
    if (!state) return;
    Object.assign(this.#machine, state);
    const [flops, bandwidth] = this.#form.querySelectorAll("input");
    flops.value = this.#machine.flops;
    bandwidth.value = this.#machine.bandwidth;
  }

  async update() {
    const generation = ++this.#generation;
    try {
      const { value } = await this.#app.ask({ ask: "memory" });
      const units = await this.#app.ask({ ask: "kernels" });
      const graph = await this.#app.graph().catch(() => null);
      if (generation !== this.#generation) return;
      const kernels = new Map(units.value.map((kernel) => [kernel.name, kernel.units[0]]));
      for (const step of value.steps) {
        const unit = kernels.get(step.label);
        if (unit === undefined || !graph?.units[unit]) continue;
        step.unit = unit;
        step.label = `${step.label}: ${graph.units[unit].label}`;
      }
      this.#memory = value;
      this.#draw();
    } catch (error) {
      if (generation !== this.#generation) return;
      this.#memory = null;
      this.#body.replaceChildren(notice("No plan", error.message));
    }
  }

  #draw() {
    const { held, steps, arena_bytes: arena, outside_bytes: outside } = this.#memory;
    const time = (step) => step.bytes === null ? null : Math.max(step.bytes / (this.#machine.bandwidth * 1e9), step.operations / (this.#machine.flops * 1e9));
    const total = steps.reduce((sum, step) => sum + (time(step) ?? 0), 0);
    const most = steps.reduce((most, step) => Math.max(most, time(step) ?? 0), 1e-15);
    const rows = steps.map((step, number) => ({ step, number, time: time(step) })).sort((a, b) => (b.time ?? -1) - (a.time ?? -1));
    const shown = rows.slice(0, 60);
    this.#body.replaceChildren(
      h("section", {}, h("h2", {}, "The arena, step by step"),
        h("p", {}, arena === null ? `The arena takes ${this.#memory.arena} bytes, which depends on sizes known at run time.` : `Intermediate arrays take at most ${bytes(arena)}; inputs, constants and results take another ${bytes(outside)}.`),
        arena > 0 && held.length > 0 ? this.#arena() : h("p", { class: "note" }, "The arena is empty: no intermediate array is written.")),
      h("section", {}, h("h2", {}, "Where the time goes"),
        ...this.#slowest(rows[0], total),
        h("p", { class: "note" }, `A lower bound: each step takes as long as its arithmetic or its memory traffic, whichever is longer; ${seconds(total)} in total. Steps in loops are counted once.`),
        h("div", { class: "wide" }, table(["step", "what", "operations", "bytes", "at least", "bound by", ""], shown.map(({ step, number, time: t }) => {
          const computes = t !== null && step.operations / (this.#machine.flops * 1e9) > step.bytes / (this.#machine.bandwidth * 1e9);
          return [number, [step.unit === undefined ? step.label : h("button", { class: "link", title: "Show its code", onclick: () => this.#app.showKernel(step.unit) }, step.label), `${step.depth ? " (in a loop)" : ""}${step.strips > 1 ? ` (${step.strips} strips)` : ""}`], { number: step.operations === null ? "?" : Math.round(step.operations).toLocaleString("en") }, { number: step.bytes === null ? "?" : bytes(Math.round(step.bytes)) }, { number: t === null ? "?" : seconds(t) }, t === null ? "" : computes ? "arithmetic" : "memory", h("span", { class: `meter ${computes ? "arithmetic" : "traffic"}`, style: `width:${(100 * (t ?? 0) / most).toFixed(1)}px` })];
        }))), rows.length > shown.length && h("p", { class: "note" }, `and ${rows.length - shown.length} shorter steps.`)));
  }

  /** A sentence about the slowest step and what bounds it. */
  #slowest(row, total) {
    if (!row || row.time === null || row.time === 0) return [];
    const { step, time } = row;
    const moving = step.bytes / (this.#machine.bandwidth * 1e9), computing = step.operations / (this.#machine.flops * 1e9);
    const move = `moving its ${bytes(Math.round(step.bytes))} to and from memory takes ${seconds(moving)}`;
    const compute = `computing its ${Math.round(step.operations).toLocaleString("en")} operations takes ${seconds(computing)}`;
    return [h("p", { class: "slowest" }, h("b", {}, `The slowest step is ${row.number}, ${step.label}`), `, with ${(100 * time / total).toFixed(0)} % of the time. It is bound by ${computing > moving ? `arithmetic: ${compute}, ${move}` : `memory: ${move}, ${compute}`}.`,
      step.unit !== undefined && h("span", { class: "buttons" }, h("button", { onclick: () => this.#app.showUnit(step.unit) }, "Show it in the graph"), h("button", { onclick: () => this.#app.showKernel(step.unit) }, "Show its code")))].filter(Boolean);
  }

  #arena() {
    const { held, steps, arena_bytes: arena } = this.#memory;
    const x = (step) => LEFT + step / steps.length * (WIDTH - LEFT), y = (at) => HEIGHT * (1 - at / arena);
    const rects = held.map((value, number) => s("rect", { class: `held h${number % 6}`, x: x(value.from), y: y(value.offset + value.bytes), width: Math.max(1, x(value.to + 1) - x(value.from)), height: Math.max(1, value.bytes / arena * HEIGHT) },
      s("title", {}, `${value.value} ${value.shape}: ${bytes(value.bytes)} from byte ${value.offset}, steps ${value.from} to ${value.to}`)));
    const every = Math.max(1, 10 ** Math.ceil(Math.log10(steps.length / 12)));
    const ticks = [];
    for (let at = 0; at < steps.length; at += every) ticks.push(s("text", { x: x(at + 0.5), y: HEIGHT + 16, "text-anchor": "middle" }, at));
    const sides = [0, 0.5, 1].map((share) => s("text", { x: LEFT - 6, y: Math.min(HEIGHT, Math.max(10, y(share * arena) + 4)), "text-anchor": "end" }, bytes(Math.round(share * arena))));
    return h("div", { class: "wide" }, s("svg", { class: "arena", viewBox: `0 0 ${WIDTH} ${HEIGHT + 40}`, role: "img", "aria-label": `${held.length} arrays in an arena of ${bytes(arena)} over ${steps.length} steps` },
      s("rect", { class: "ground", x: LEFT, y: 0, width: WIDTH - LEFT, height: HEIGHT }), rects, ticks, sides,
      s("text", { x: LEFT + (WIDTH - LEFT) / 2, y: HEIGHT + 36, "text-anchor": "middle" }, "horizontal: step of the schedule; vertical: bytes of the arena")));
  }
}
