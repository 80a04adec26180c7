// A kernel at each stage of compilation: the kernel language before and after each pass, Cranelift IR,
// and assembly. Lines generated from the same line of the kernel are highlighted together.
import { h, notice } from "./dom.js";

/** A line diff of two texts, by the longest common subsequence. */
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

/** What a pass does, in a few words. */
const PASSES = {
  "loop-unswitch": "moves a loop-invariant branch out of a loop",
  "loop-coalesce": "merges two nested loops into one",
  "jam-short-dims": "computes all points of a short dimension together",
  "loop-interchange": "swaps nested loops, so that memory is read in order",
  "unroll-and-jam": "computes several points of an outer loop together",
  "index-set-split": "splits the domain into parts in each of which a branch always goes the same way",
  "select-loops": "chooses the loops to vectorise, and says why others are not vectorised",
  "pack-operand": "copies a small array once, so that vectors read it contiguously",
};

const MACHINES = [["x86_v2", "x86-64-v2 (SSE4.2)"], ["x86_v3", "x86-64-v3 (AVX2)"], ["x86_v4", "x86-64-v4 (AVX-512)"], ["aarch64", "AArch64 (128-bit vectors)"]];
const COLOURS = 6;

export class CodeView {
  #panel; #app; #bar; #say; #columns; #kernel = 0; #isa = "x86_v3"; #generation = 0; #wanted = null;
  /** The line of the kernel that was clicked; 0 if none was. */
  #pinned = 0;
  /** The pass that is shown; null for the kernel from which code is generated. */
  #pass = null;
  #code = null;

  constructor(panel, app) {
    this.#panel = panel;
    this.#app = app;
    this.#bar = h("div", { class: "form" });
    this.#say = h("p", { class: "links-note note", role: "status", "aria-live": "polite" });
    this.#columns = h("div", { class: "columns code" });
    panel.append(this.#bar, this.#say, this.#columns);
    this.#columns.addEventListener("pointerover", (event) => this.#light(this.#sourceOf(event.target) || this.#pinned));
    this.#columns.addEventListener("pointerleave", () => this.#light(this.#pinned));
    this.#columns.addEventListener("click", (event) => {
      const source = this.#sourceOf(event.target);
      if (source === null) return;
      this.#pin(source === this.#pinned ? 0 : source, event.target.closest(".listing"));
    });
    this.#columns.addEventListener("keydown", (event) => this.#key(event));
  }

  get state() { return { kernel: this.#kernel, isa: this.#isa, pinned: this.#pinned, pass: this.#pass }; }
  set state(state) {
    if (!state) return;
    this.#kernel = state.kernel ?? 0;
    this.#isa = MACHINES.some(([value]) => value === state.isa) ? state.isa : this.#isa;
    this.#pinned = Number(state.pinned) || 0;
    this.#pass = state.pass ?? null;
  }

  /** Selects the kernel of a unit of the graph; the next update shows it. */
  want(unit) { this.#wanted = unit; }

  async update() {
    const generation = ++this.#generation;
    try {
      const { value: kernels } = await this.#app.ask({ ask: "kernels" });
      if (generation !== this.#generation) return;
      if (kernels.length === 0) {
        this.#bar.replaceChildren();
        this.#say.textContent = "";
        this.#columns.replaceChildren(notice("No kernels", "The program consists of library calls and copies only."));
        return;
      }
      if (this.#wanted !== null) {
        const wanted = kernels.find((kernel) => kernel.units.includes(this.#wanted))?.kernel ?? this.#kernel;
        if (wanted !== this.#kernel) [this.#pinned, this.#pass] = [0, null];
        this.#kernel = wanted;
        this.#wanted = null;
      }
      if (!kernels.some((kernel) => kernel.kernel === this.#kernel)) this.#kernel = kernels[0].kernel;
      const units = (await this.#app.graph().catch(() => null))?.units;
      const label = (kernel) => {
        const unit = units?.[kernel.units[0]];
        return `${kernel.name}${unit ? `: ${unit.label}` : ""}${kernel.units.length > 1 ? ` (${kernel.units.length} times)` : ""}`;
      };
      const choose = (change) => { change(); this.#pinned = 0; this.#app.changed(); this.update(); };
      this.#bar.replaceChildren(
        h("label", {}, "Kernel ", h("select", { id: "kernel", onchange: (event) => choose(() => { this.#kernel = Number(event.target.value); this.#pass = null; }) },
          kernels.map((kernel) => h("option", { value: kernel.kernel, ...(kernel.kernel === this.#kernel ? { selected: true } : {}) }, label(kernel))))),
        h("label", {}, "Instructions ", h("select", { id: "isa", onchange: (event) => choose(() => { this.#isa = event.target.value; }) },
          MACHINES.map(([value, text]) => h("option", { value, ...(value === this.#isa ? { selected: true } : {}) }, text)))));
      const { value: code } = await this.#app.ask({ ask: "code", kernel: this.#kernel, isa: this.#isa });
      if (generation !== this.#generation) return;
      this.#code = code;
      this.#draw();
    } catch (error) {
      if (generation !== this.#generation) return;
      this.#bar.replaceChildren();
      this.#say.textContent = "";
      this.#columns.replaceChildren(notice("No code", error.message));
    }
  }

  #draw() {
    const code = this.#code;
    const kernel = code.compiled.replace(/\n$/, "").split("\n");
    const used = new Set([...(code.clif.Ok?.sources ?? []), ...(code.assembly.Ok?.sources ?? [])]);
    const line = (text, source) => h("span", source > 0 ? { class: `line linked l${source % COLOURS}`, "data-source": source } : { class: "line" }, `${text}\n`);
    const listing = (lines, sources, name) => h("pre", { class: "listing", tabindex: "0", "aria-label": name }, lines.map((text, at) => line(text, sources[at])));
    const passes = [{ pass: "as fused", text: code.text }, ...code.passes];
    const shown = h("div", { class: "pass" });
    const about = h("p", { class: "note" });
    const show = (name) => {
      const at = passes.findIndex(({ pass }) => pass === name);
      this.#pass = at < 0 ? null : name;
      for (const button of steps.children) button.setAttribute("aria-pressed", String(button.dataset.pass === (this.#pass ?? "")));
      if (at < 0) {
        about.textContent = "The final kernel, from which code is generated.";
        shown.replaceChildren(listing(kernel, kernel.map((_, number) => (used.has(number + 1) ? number + 1 : 0)), "the kernel from which code is generated"));
      } else {
        // A pass that only decides something prints no kernel; its text is shown without a diff.
        const isKernel = ({ text }) => text.includes("kernel(");
        const before = isKernel(passes[at]) ? passes.slice(0, at).findLast(isKernel)?.text : undefined;
        const lines = before === undefined ? passes[at].text.split("\n").map((text) => ({ text, kind: "same" })) : difference(before, passes[at].text);
        const count = (kind) => lines.filter((each) => each.kind === kind).length;
        about.textContent = at === 0 ? "Before all passes." : `${name} ${PASSES[name] ?? "changed it"}.${before === undefined ? "" : ` ${count("added")} lines added, ${count("removed")} removed.`}`;
        shown.replaceChildren(h("pre", { class: "listing", tabindex: "0", "aria-label": `the kernel ${at === 0 ? "as fused" : `after ${name}`}` },
          lines.map(({ text, kind }) => h("span", { class: `line ${kind}` }, `${{ same: "  ", added: "+ ", removed: "- " }[kind]}${text}\n`))));
      }
      this.#light(this.#pinned);
    };
    const steps = h("div", { class: "steps", role: "group", "aria-label": "Passes that changed the kernel" },
      [...passes.map(({ pass }) => [pass, pass]), ["", "compiled"]].map(([name, text]) => h("button", { "data-pass": name, onclick: () => { show(name); this.#app.changed(); } }, text)));
    const result = (code, name) => (code.Ok ? listing(code.Ok.lines, code.Ok.sources, name) : h("p", { class: "note refused" }, code.Err));
    this.#columns.replaceChildren(
      h("section", { class: "kernel" }, h("h2", {}, "Kernel"), steps, about, shown),
      h("section", { class: "clif" }, h("h2", {}, "Cranelift IR"), result(code.clif, "Cranelift IR")),
      h("section", { class: "assembly" }, h("h2", {}, `Assembly, ${MACHINES.find(([value]) => value === this.#isa)[1]}`), result(code.assembly, "Assembly")));
    show(this.#pass);
    if (this.#pinned) this.#pin(this.#pinned, null);
  }

  #sourceOf(element) {
    const line = element.closest?.("[data-source]");
    return line ? Number(line.dataset.source) : null;
  }

  /** Highlights the lines generated from one line of the kernel. */
  #light(source) {
    for (const line of this.#columns.querySelectorAll(".lit")) line.classList.remove("lit");
    const counts = {};
    if (source) {
      for (const line of this.#columns.querySelectorAll(`[data-source="${source}"]`)) {
        line.classList.add("lit");
        const column = line.closest("section").className;
        counts[column] = (counts[column] ?? 0) + 1;
      }
    }
    const many = (count, what) => `${count ?? 0} ${what}${count === 1 ? "" : "s"}`;
    const text = source ? this.#code?.compiled.split("\n")[source - 1]?.trim() : "";
    this.#say.textContent = source && text
      ? `Line ${source}, ${text.length > 70 ? `${text.slice(0, 69)}…` : text}: ${many(counts.clif, "line")} of Cranelift IR, ${many(counts.assembly, "instruction")}.${source === this.#pinned ? " Pinned: click it again to unpin it." : " Click to pin it and scroll to its lines."}`
      : "Point at a line to highlight the lines generated from it, or the line it was generated from. Click to pin it.";
  }

  /** Pins a line, and scrolls the other columns to the lines generated from it. */
  #pin(source, own) {
    this.#pinned = source;
    for (const line of this.#columns.querySelectorAll(".pinned")) line.classList.remove("pinned");
    if (source) {
      for (const line of this.#columns.querySelectorAll(`[data-source="${source}"]`)) line.classList.add("pinned");
      for (const listing of this.#columns.querySelectorAll(".listing")) {
        const first = listing.querySelector(`[data-source="${source}"]`);
        if (listing !== own && first) listing.scrollTop = first.offsetTop - listing.offsetTop - listing.clientHeight / 3;
      }
    }
    this.#light(source);
    this.#app.changed();
  }

  /** Up and down move between linked lines; Escape unpins. */
  #key(event) {
    const listing = event.target.closest?.(".listing");
    if (!listing) return;
    if (event.key === "Escape" && this.#pinned) { this.#pin(0, listing); return; }
    if (!["ArrowUp", "ArrowDown"].includes(event.key)) return;
    const lines = [...listing.querySelectorAll("[data-source]")];
    if (lines.length === 0) return;
    event.preventDefault();
    const down = event.key === "ArrowDown";
    const last = lines.indexOf(listing.querySelector(".current"));
    const at = last < 0 ? (down ? 0 : lines.length - 1) : Math.min(lines.length - 1, Math.max(0, last + (down ? 1 : -1)));
    listing.querySelector(".current")?.classList.remove("current");
    lines[at].classList.add("current");
    lines[at].scrollIntoView({ block: "nearest" });
    this.#pin(Number(lines[at].dataset.source), listing);
  }
}
