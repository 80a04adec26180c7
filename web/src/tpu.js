// A simulated TPU core: shows the report that `tegula simulate --report` writes.
import { h, notice } from "./dom.js";
import { chipChoice } from "./layout.js";
import reportStyle from "../../crates/draw/src/tpu_report/style.css";
import { zoomPictures } from "../../crates/draw/src/tpu_report/script.js";

export class TpuView {
  #app; #generation = 0; #bar; #host; #after;

  constructor(panel, app) {
    this.#app = app;
    this.#bar = h("div", { class: "form" });
    this.#host = h("div", { class: "report" });
    this.#host.attachShadow({ mode: "open" });
    this.#after = h("div", {});
    panel.append(this.#bar, this.#host, this.#after);
  }

  async update() {
    const generation = ++this.#generation;
    this.#bar.replaceChildren(chipChoice(this.#app.chip, (chip) => { this.#app.chip = chip; this.#app.changed(); this.update(); }), h("span", { class: "note" }, "Timing only, without values, from the chip's published specifications. Hold Control and turn the wheel to zoom a picture; drag to move it."));
    const root = this.#host.shadowRoot;
    try {
      const { value } = await this.#app.ask({ ask: "tpu", chip: this.#app.chip });
      if (generation !== this.#generation) return;
      root.replaceChildren(h("style", {}, reportStyle), h("style", {}, `:host { display: block; color: var(--text); } section { background: var(--panel); }`));
      const template = document.createElement("template");
      // Safe to insert: the compiler wrote this HTML and escapes all names.
      template.innerHTML = value.summary + value.sections.map(({ id, title, html }) => `<section id="${id}"><h2>${title}</h2>${html}</section>`).join("");
      root.append(template.content);
      if (document.documentElement.dataset.theme) this.#host.dataset.theme = document.documentElement.dataset.theme;
      zoomPictures(root);
      this.#after.replaceChildren(...[
        value.assumed_loops.length > 0 && h("p", { class: "note" }, `Assumed, because it is not known: ${value.assumed_loops.map(([name, trips]) => `${name} runs ${trips} times`).join(", ")}.`),
        value.kernel && h("details", { class: "kernel-text" }, h("summary", {}, "The kernel to which the program was lowered"), h("pre", { class: "listing", tabindex: "0" }, value.kernel)),
      ].filter(Boolean));
      this.#app.findings(value.findings);
    } catch (error) {
      if (generation !== this.#generation) return;
      root.replaceChildren();
      this.#after.replaceChildren(notice("Not simulated", error.message));
      this.#app.findings([]);
    }
  }
}
