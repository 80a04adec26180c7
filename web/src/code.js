// A kernel on its way to machine code: the kernel language before and after each pass, Cranelift's
// form, assembly.
import { h, notice } from "./dom.js";

/** Lines of two texts side by side: those that are in both, by the longest common subsequence. */
export function difference(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  if (a.length * b.length > 4e6) return b.map((text) => ({ text, kind: "same" }));
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const lines = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { lines.push({ text: b[j], kind: "same" }); i++; j++; }
    else if (j < b.length && (i === a.length || longest[i * width + j + 1] >= longest[(i + 1) * width + j])) lines.push({ text: b[j++], kind: "added" });
    else lines.push({ text: a[i++], kind: "removed" });
  }
  return lines;
}

export class CodeView {
  #panel; #app; #bar; #columns; #kernel = 0; #isa = "x86_v3"; #generation = 0; #wanted = null;

  constructor(panel, app) {
    this.#panel = panel;
    this.#app = app;
    this.#bar = h("div", { class: "form" });
    this.#columns = h("div", { class: "columns" });
    panel.append(this.#bar, this.#columns);
  }

  get state() { return { kernel: this.#kernel, isa: this.#isa }; }
  set state(state) { if (state) { this.#kernel = state.kernel ?? 0; this.#isa = state.isa ?? this.#isa; } }

  /** Shows the kernel of a unit of the graph at the next update. */
  want(unit) { this.#wanted = unit; }

  async update() {
    const generation = ++this.#generation;
    try {
      const { value: kernels } = await this.#app.ask({ ask: "kernels" });
      if (generation !== this.#generation) return;
      if (kernels.length === 0) {
        this.#bar.replaceChildren();
        this.#columns.replaceChildren(notice("No kernel of its own", "The program is library calls and copies only."));
        return;
      }
      if (this.#wanted !== null) {
        this.#kernel = kernels.find((kernel) => kernel.units.includes(this.#wanted))?.kernel ?? this.#kernel;
        this.#wanted = null;
      }
      if (!kernels.some((kernel) => kernel.kernel === this.#kernel)) this.#kernel = kernels[0].kernel;
      const units = (await this.#app.graph())?.units;
      const label = (kernel) => {
        const unit = units?.[kernel.units[0]];
        return `${kernel.name}${unit ? `: ${unit.label}` : ""}${kernel.units.length > 1 ? ` (${kernel.units.length} times)` : ""}`;
      };
      this.#bar.replaceChildren(
        h("label", {}, "Kernel ", h("select", { id: "kernel", onchange: (event) => { this.#kernel = Number(event.target.value); this.#app.changed(); this.update(); } },
          kernels.map((kernel) => h("option", { value: kernel.kernel, ...(kernel.kernel === this.#kernel ? { selected: true } : {}) }, label(kernel))))),
        h("label", {}, "Instructions ", h("select", { onchange: (event) => { this.#isa = event.target.value; this.#app.changed(); this.update(); } },
          [["x86_v2", "x86-64-v2 (SSE4.2)"], ["x86_v3", "x86-64-v3 (AVX2)"], ["x86_v4", "x86-64-v4 (AVX-512)"]].map(([value, text]) => h("option", { value, ...(value === this.#isa ? { selected: true } : {}) }, text)))));
      const { value: code } = await this.#app.ask({ ask: "code", kernel: this.#kernel, isa: this.#isa });
      if (generation !== this.#generation) return;
      this.#draw(code);
    } catch (error) {
      if (generation !== this.#generation) return;
      this.#bar.replaceChildren();
      this.#columns.replaceChildren(notice("No code", error.message));
    }
  }

  #draw(code) {
    const text = (content, name) => h("pre", { class: "listing", tabindex: "0", "aria-label": name }, content);
    const passes = [{ pass: "as fused", text: code.text }, ...code.passes];
    const shown = h("div", { class: "pass" });
    const show = (at) => {
      // What a pass decided is no kernel: it is shown as it is.
      const isKernel = ({ text }) => text.includes("kernel(");
      const before = isKernel(passes[at]) ? passes.slice(0, at).findLast(isKernel)?.text : undefined;
      const lines = before === undefined ? passes[at].text.split("\n").map((line) => ({ text: line, kind: "same" })) : difference(before, passes[at].text);
      shown.replaceChildren(h("pre", { class: "listing", tabindex: "0", "aria-label": `the kernel ${at === 0 ? "as fused" : `after ${passes[at].pass}`}` },
        lines.map(({ text: line, kind }) => h("span", { class: `line ${kind}` }, `${{ same: "  ", added: "+ ", removed: "- " }[kind]}${line}\n`))));
      for (const [number, button] of [...steps.children].entries()) button.setAttribute("aria-pressed", String(number === at));
    };
    const steps = h("div", { class: "steps", role: "group", "aria-label": "Passes that changed the kernel" }, passes.map(({ pass }, at) => h("button", { onclick: () => show(at) }, pass)));
    const listing = (result, name) => (result.Ok !== undefined ? text(result.Ok, name) : h("p", { class: "note" }, result.Err));
    this.#columns.replaceChildren(
      h("section", {}, h("h2", {}, "Kernel"), h("p", { class: "note" }, passes.length > 1 ? "Choose a pass to see what it changed." : "No pass changed it."), steps, shown),
      h("section", {}, h("h2", {}, "Cranelift IR"), listing(code.clif, "Cranelift IR")),
      h("section", {}, h("h2", {}, "Assembly"), listing(code.assembly, "Assembly")));
    show(0);
  }
}
