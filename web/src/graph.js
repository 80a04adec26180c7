// The program as a graph. Operations are boxes, and frames around them are fused units. In large
// programs, each unit is one box, and so are repeated layers; a unit can be opened to show its operations.
import { Placer, PlacingStopped } from "./placer.js";
import { h, s, notice } from "./dom.js";
import { drawArray, unravel } from "./arrays.js";

/** Programs with more operations than this are drawn unit by unit at first. */
const MOST_OPERATIONS = 120;
/** At most this many boxes are drawn, the first of the program: more would be slow and unreadable. */
const MOST_BOXES = 600;
/** After this many milliseconds of graph layout, the page shows its progress and a Stop button. */
const PATIENCE = 250;
const CHARACTER = 7.2;

const dims = (shape) => shape.replace(/\{[^}]*\}/g, "");

export class GraphView {
  #panel; #app; #graph = null; #key = ""; #selected = null; #focus = null; #byUnits = null; #open = new Set();
  #scope = "kernel"; #picked = null; #box = null; #canvas; #details; #bar; #summary; #generation = 0;
  #placer = new Placer(); #placing; #drawing = 0;
  /** The index of the shown result of the selected operation. */
  #result = 0;
  /** The shown iteration of each loop, by the number of its node; the last for loops not listed. */
  #iterations = {};
  /** The unit that another view asked to show. */
  #wanted = null;

  constructor(panel, app) {
    this.#panel = panel;
    this.#app = app;
    this.#canvas = h("div", { class: "graph", tabindex: "0", "aria-label": "Graph: drag to move, turn the wheel to zoom; or use the keys plus, minus, 0 and arrows" });
    this.#details = h("aside", { class: "details", "aria-label": "Selection", "aria-live": "polite" });
    this.#summary = h("span", { class: "summary" });
    this.#bar = h("div", { class: "bar" });
    const zoom = (factor) => () => this.#zoom(factor);
    const zooms = h("div", { class: "zooms" }, h("button", { "aria-label": "zoom out", onclick: zoom(1 / 1.3) }, "−"), h("button", { title: "show all", onclick: () => this.#fit() }, "Fit"), h("button", { "aria-label": "zoom in", onclick: zoom(1.3) }, "+"));
    this.#placing = h("div", { class: "placing", role: "status", hidden: true }, h("span", {}), h("button", { onclick: () => this.#placer.stop() }, "Stop"));
    panel.append(this.#bar, h("div", { class: "split" }, h("div", { class: "graph-area" }, this.#canvas, zooms, this.#placing), this.#details));
    this.#zoomable();
  }

  get state() {
    return { node: this.#selected === null ? null : this.#graph?.nodes[this.#selected]?.name, picked: this.#picked, scope: this.#scope, iterations: this.#iterations, result: this.#result };
  }

  async update() {
    const generation = ++this.#generation;
    let graph;
    try {
      graph = await this.#app.graph();
    } catch (error) {
      if (generation === this.#generation) this.#failed(error);
      return;
    }
    if (generation !== this.#generation) return;
    const kept = this.#app.takeSelection() ?? this.state;
    const key = JSON.stringify([graph.nodes.map((n) => [n.name, n.opcode, n.operands, n.units]), graph.values.map((v) => [v.shape, v.in_memory])]);
    const changed = key !== this.#key;
    this.#graph = graph;
    this.#key = key;
    if (changed) {
      this.#focus = null;
      this.#open.clear();
      this.#byUnits = graph.nodes.length > MOST_OPERATIONS;
      await this.#draw(true);
      if (generation !== this.#generation) return;
    }
    this.#selected = null;
    this.#picked = null;
    const node = graph.nodes.find((n) => n.name === kept?.node);
    if (kept?.scope) this.#scope = kept.scope;
    if (node) this.select(node.id, kept.picked, false, kept.iterations ?? {}, kept.result ?? null);
    else this.#welcome();
    this.#showWanted();
  }

  #failed(error) {
    this.#graph = null;
    this.#key = "";
    this.#bar.replaceChildren();
    this.#canvas.replaceChildren(notice("No graph", error.message));
    this.#details.replaceChildren();
  }

  #welcome() {
    const results = this.#graph.results.map((v) => this.#graph.values[v].node).filter((n) => n !== null);
    const go = (tab, text) => h("button", { class: "link", onclick: () => this.#app.choose(tab) }, text);
    this.#details.replaceChildren(
      h("h2", {}, "What do you want to know?"),
      h("dl", { class: "hints" },
        h("dt", {}, "What is fused, and why not?"), h("dd", {}, "Coloured frames are kernels: the operations inside are computed together. Select an operation, or point at an edge between two frames, to see why."),
        h("dt", {}, "Which inputs does an element depend on?"), h("dd", {}, "Select an operation, then click an element of its array or drag over a tile."),
        h("dt", {}, "Why is an array padded?"), h("dd", {}, go("layout", "Layout"), " lists all arrays with their padding; select one to see it in memory."),
        h("dt", {}, "What code is generated for a kernel?"), h("dd", {}, go("code", "Code"), " shows it after each pass, as Cranelift IR and as assembly."),
        h("dt", {}, "Where does the time go?"), h("dd", {}, go("memory", "Memory & time"), " lists the slowest steps first; ", go("tpu", "TPU"), " simulates the program on a TPU and reports problems.")),
      ...(results.length > 0 ? [h("button", { onclick: () => this.select(results[0]) }, `Show the result, ${this.#graph.nodes[results[0]].name}`)] : []));
  }

  /** Draws the graph. With `aim`, the view is centred on that box. */
  async #draw(fit, aim = null) {
    const graph = this.#graph;
    const toggle = h("button", { "aria-pressed": String(!this.#byUnits), onclick: () => { this.#byUnits = !this.#byUnits; this.#focus = null; this.#draw(true); } },
      this.#byUnits ? "Show operations" : "Show kernels only");
    const close = this.#open.size > 0 && this.#focus === null && h("button", { onclick: () => { this.#open.clear(); this.#draw(true); } }, "Close layers");
    const back = this.#focus !== null && h("button", { onclick: () => { this.#focus = null; this.#draw(true); } }, "← Whole program");
    this.#summary.textContent = graph.summary;
    const calls = graph.units.some(({ kind }) => kind === "library");
    this.#bar.replaceChildren(...[this.#summary, back, this.#focus === null && toggle, close,
      h("span", { class: "legend" }, h("i", { class: "memory" }), "written to memory", h("i", { class: "fused" }), "fused, never written", ...(calls && this.#byUnits ? [h("i", { class: "library" }), "library call"] : []))].filter(Boolean));
    const drawn = this.#focus !== null || !this.#byUnits ? this.#operations(this.#focus) : this.#units();
    const { length } = drawn.boxes;
    if (length > MOST_BOXES) {
      drawn.boxes.length = MOST_BOXES;
      const kept = new Set(drawn.boxes.map((box) => box.id));
      drawn.edges = drawn.edges.filter(({ from, to }) => kept.has(from) && kept.has(to));
      const used = new Set(drawn.boxes.map((box) => box.cluster));
      for (const { id, parent } of drawn.clusters) if (used.has(id)) used.add(parent);
      drawn.clusters = drawn.clusters.filter(({ id }) => used.has(id));
      this.#summary.textContent += `; the first ${MOST_BOXES} of ${length} boxes are drawn`;
    }
    const drawing = ++this.#drawing;
    if (length === 0) {
      this.#canvas.replaceChildren(notice("Nothing to draw", "The program computes nothing."));
      this.#box = null;
      return;
    }
    for (const box of drawn.boxes) {
      box.width = Math.min(260, 22 + CHARACTER * Math.max(box.title.length, box.text.length));
      box.height = 38;
    }
    const started = performance.now();
    const say = () => {
      this.#placing.hidden = false;
      this.#placing.firstChild.textContent = `Laying out ${drawn.boxes.length} boxes: ${((performance.now() - started) / 1000).toFixed(0)} s`;
    };
    const patience = setTimeout(say, PATIENCE), clock = setInterval(say, 1000);
    try {
      const placed = await this.#placer.place({
        boxes: drawn.boxes.map(({ id, width, height, cluster }) => ({ id, width, height, cluster })),
        edges: drawn.edges.map(({ from, to }) => ({ from, to })),
        clusters: drawn.clusters.map(({ id, parent }) => ({ id, parent })),
      });
      if (drawing !== this.#drawing) return;
      this.#render(drawn, placed);
      if (fit) this.#fit();
      else if (aim && placed.places[aim]) this.#centre(placed.places[aim]);
    } catch (error) {
      if (drawing !== this.#drawing) return;
      const stopped = error instanceof PlacingStopped;
      this.#canvas.replaceChildren(notice(stopped ? "Stopped" : "Not drawn", stopped ? `The layout of ${drawn.boxes.length} boxes was stopped. Show kernels only, or open a smaller part.` : error.message));
    } finally {
      clearTimeout(patience);
      clearInterval(clock);
      if (drawing === this.#drawing) this.#placing.hidden = true;
    }
  }

  /** Returns a function from a unit to the id of the box that stands for its layer; null if there is none. */
  #layers() {
    const { repeat } = this.#graph;
    const layerOf = (number) => {
      if (!repeat || number < repeat.start || number >= repeat.start + repeat.period * repeat.count) return null;
      const layer = Math.floor((number - repeat.start) / repeat.period);
      return this.#open.has(layer) ? null : layer;
    };
    // Consecutive closed layers share one box.
    return (number) => {
      let layer = layerOf(number);
      if (layer === null) return null;
      while (layer > 0 && !this.#open.has(layer - 1)) layer--;
      return `l${layer}`;
    };
  }

  #layerBox(id, units) {
    const { period } = this.#graph.repeat;
    const layer = Number(id.slice(1)), many = Math.round(units / period);
    return { id, layer, many, title: many > 1 ? `${many} equal layers` : `layer ${layer + 1}`, text: `${period} steps each · click to open one`, kind: "layers", cluster: null };
  }

  /** The boxes and edges of all operations, or of those in one unit. */
  #operations(unit) {
    const graph = this.#graph;
    const boxes = [], edges = [], clusters = [];
    const layer = unit === null ? this.#layers() : () => null;
    // For each operation in a closed layer, the box of the layer.
    const closed = new Map();
    if (unit === null) {
      for (const node of graph.nodes) {
        const own = node.units.length > 0 ? layer(node.units[0]) : null;
        if (own !== null) closed.set(node.id, own);
      }
      const units = new Map();
      graph.units.forEach((_, number) => { const own = layer(number); if (own !== null) units.set(own, (units.get(own) ?? 0) + 1); });
      for (const [id, count] of units) boxes.push(this.#layerBox(id, count));
    }
    const shown = new Set(unit === null ? graph.nodes.map((n) => n.id) : graph.units[unit].nodes);
    const between = new Set();
    const values = new Set();
    for (const id of shown) {
      const node = graph.nodes[id];
      if (closed.has(id)) {
        const to = closed.get(id);
        for (const operand of node.operands) {
          const { node: source } = graph.values[operand];
          const from = source === null ? null : closed.get(source) ?? `n${source}`;
          if (from === null || from === to || between.has(`${from} ${to}`)) continue;
          between.add(`${from} ${to}`);
          edges.push({ from, to, inMemory: true });
        }
        continue;
      }
      const value = graph.values[node.results[0]];
      const result = node.results.some((v) => graph.results.includes(v));
      boxes.push({
        id: `n${id}`, node: id, title: node.name, text: node.results.length === 1 ? `${node.opcode} ${dims(value.shape)}` : `${node.opcode}, ${node.results.length} results`,
        kind: value?.in_memory ? "memory" : "fused", result,
        cluster: node.units.length > 0 ? `u${unit ?? node.units[0]}` : node.parent === null ? null : `w${node.parent}`,
      });
      node.operands.forEach((operand, position) => {
        const from = graph.values[operand];
        if (from.kind === "constant") return;
        const inside = from.node !== null && shown.has(from.node);
        if (inside && closed.has(from.node)) {
          edges.push({ from: closed.get(from.node), to: `n${id}`, node: id, operand: position, inMemory: true });
          return;
        }
        if (!inside) values.add(operand);
        edges.push({ from: inside ? `n${from.node}` : `v${operand}`, to: `n${id}`, node: id, operand: position, inMemory: from.in_memory });
      });
    }
    for (const id of values) {
      const value = graph.values[id];
      boxes.push({ id: `v${id}`, value: id, title: value.name, text: `${value.kind === "node" ? "computed before" : value.kind} ${dims(value.shape)}`, kind: "given", cluster: null });
    }
    // Parameters and constants that are results themselves.
    if (unit === null) for (const id of graph.results) {
      const value = graph.values[id];
      if (value.node !== null || boxes.some((box) => box.id === `v${id}`)) continue;
      boxes.push({ id: `v${id}`, value: id, title: value.name, text: `${value.kind} ${dims(value.shape)}`, kind: "given", result: true, cluster: null });
    }
    const own = new Set(boxes.map((box) => box.cluster));
    graph.units.forEach((info, number) => {
      if (!own.has(`u${number}`)) return;
      const parent = info.parent === null || unit !== null ? null : `w${info.parent}`;
      // A loop operation is a box; the frame is that of its body.
      clusters.push({ id: `u${number}`, unit: number, kind: info.kind, label: info.kind === "kernel" ? `kernel: ${info.label}` : info.label, parent });
    });
    const loops = new Set(graph.nodes.filter((n) => shown.has(n.id) && n.parent !== null).map((n) => n.parent));
    if (unit === null) for (const loop of loops) clusters.push({ id: `w${loop}`, kind: "loop", label: `${graph.nodes[loop].opcode === "conditional" ? "branches" : "body"} of ${graph.nodes[loop].name}`, parent: graph.nodes[loop].parent === null ? null : `w${graph.nodes[loop].parent}` });
    return { boxes, edges, clusters };
  }

  /** The boxes and edges of units; repeated layers are one box. */
  #units() {
    const graph = this.#graph;
    const boxes = [], edges = new Map(), writer = new Map();
    const layer = this.#layers();
    const layers = new Map();
    const boxOf = (number) => layer(number) ?? `u${number}`;
    graph.units.forEach((unit, number) => {
      const id = boxOf(number);
      // A copy has no box: its result comes from the box that wrote its source.
      for (const value of unit.writes) writer.set(value, unit.kind === "copy" ? writer.get(unit.reads[0]) ?? `v${unit.reads[0]}` : id);
      if (id.startsWith("l")) {
        layers.set(id, (layers.get(id) ?? 0) + 1);
        return;
      }
      if (unit.kind === "copy") return;
      const shapes = unit.writes.map((v) => dims(graph.values[v].shape));
      boxes.push({ id, unit: number, title: unit.label, text: `${shapes[0] ?? ""}${shapes.length > 1 ? ` and ${shapes.length - 1} more` : ""} · ${unit.nodes.length} op${unit.nodes.length === 1 ? "" : "s"}`, kind: unit.kind, result: unit.writes.some((v) => graph.results.includes(v)) });
    });
    for (const [id, count] of layers) boxes.push(this.#layerBox(id, count));
    graph.units.forEach((unit, number) => {
      const to = boxOf(number);
      for (const value of unit.reads) {
        const info = graph.values[value];
        if (info.kind === "constant") continue;
        let from = writer.get(value);
        if (from === undefined) {
          if (info.kind !== "parameter") continue;
          // Hundreds of weights would hide the graph, so only the first and last parameter are drawn.
          if (graph.parameters.length > 24 && value !== graph.parameters.at(-1) && value !== graph.parameters[0]) continue;
          from = `v${value}`;
          if (!boxes.some((box) => box.id === from)) boxes.push({ id: from, value, title: info.name, text: `${info.kind} ${dims(info.shape)}`, kind: "given" });
        }
        if (from !== to && boxes.some((box) => box.id === from) && boxes.some((box) => box.id === to)) edges.set(`${from} ${to}`, { from, to, inMemory: true });
      }
    });
    return { boxes, edges: [...edges.values()], clusters: [] };
  }

  #render({ boxes, edges, clusters }, { width, height, places, points }) {
    const root = s("svg", { class: "drawing", role: "group", "aria-label": this.#graph.summary });
    root.append(s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: "7", refY: "4", markerUnits: "userSpaceOnUse", markerWidth: "8", markerHeight: "8", orient: "auto" }, s("path", { d: "M0,0 L8,4 L0,8 z" }))));
    const parents = new Map(clusters.map(({ id, parent }) => [id, parent]));
    const depth = (id) => { let n = 0; for (let at = parents.get(id); at; at = parents.get(at)) n++; return n; };
    // The nesting level of each frame: its label is drawn above the frames inside it.
    const levels = new Map();
    for (const { id } of clusters) {
      let level = 0;
      for (let at = id; at && (levels.get(at) ?? -1) < level; at = parents.get(at)) levels.set(at, level++);
    }
    for (const cluster of [...clusters].sort((a, b) => depth(a.id) - depth(b.id))) {
      const { x, y, width: w, height: t } = places[cluster.id];
      if (!Number.isFinite(x) || !w) continue;
      const fitting = Math.max(6, Math.floor(w / 6.2)), rise = 8 + 14 * levels.get(cluster.id);
      root.append(s("g", { class: `cluster ${cluster.kind}` },
        s("rect", { x: x - w / 2, y: y - t / 2 - rise, width: w, height: t + rise, rx: 8 }),
        s("text", { x: x - w / 2 + 8, y: y - t / 2 - rise + 13 }, cluster.label.length > fitting ? `${cluster.label.slice(0, fitting - 1)}…` : cluster.label),
        s("title", {}, cluster.label)));
    }
    for (const [number, edge] of edges.entries()) {
      const path = points[number].map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
      const element = s("g", { class: `edge ${edge.inMemory ? "memory" : "fused"}`, "data-to": edge.to, "data-from": edge.from },
        s("path", { d: path, class: "hit" }), s("path", { d: path, class: "line", "marker-end": "url(#arrow)" }));
      if (edge.node !== undefined) {
        element.dataset.edge = `${edge.node}:${edge.operand}`;
        element.addEventListener("pointerenter", () => this.#hoverEdge(edge, element));
        element.addEventListener("pointerleave", () => this.#app.hideTip());
      }
      root.append(element);
    }
    for (const box of boxes) {
      const { x, y, width: w } = places[box.id];
      const cut = (text) => (text.length * CHARACTER > w - 14 ? `${text.slice(0, Math.floor((w - 14) / CHARACTER) - 1)}…` : text);
      const element = s("g", { class: `box ${box.kind}${box.result ? " result" : ""}`, id: `box-${box.id}`, transform: `translate(${x - w / 2},${y - 19})`, tabindex: "0", role: "button", "data-name": box.title, "aria-description": `${box.title}, ${box.text}${box.result ? ", a result" : ""}` },
        s("rect", { width: w, height: 38, rx: box.kind === "given" ? 19 : 5 }),
        box.kind === "layers" && box.many > 1 && s("rect", { x: 4, y: 4, width: w, height: 38, rx: 5, class: "behind" }),
        s("text", { x: w / 2, y: 16, class: "title" }, cut(box.title)), s("text", { x: w / 2, y: 30, class: "text" }, cut(box.text)));
      const choose = () => {
        if (box.node !== undefined) this.select(box.node);
        else if (box.unit !== undefined) this.#showUnit(box.unit);
        else if (box.layer !== undefined) {
          this.#open.add(box.layer);
          const { start, period } = this.#graph.repeat;
          this.#draw(false, `u${start + box.layer * period}`);
        }
        else this.#showValue(box.value);
      };
      element.addEventListener("click", choose);
      element.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } });
      root.append(element);
    }
    this.#canvas.replaceChildren(root);
    this.#size = { width, height };
    const first = boxes.filter(({ kind }) => kind !== "given").reduce((best, { id }) => (best === null || places[id].y < places[best].y ? id : best), null);
    this.#anchor = first === null ? width / 2 : places[first].x;
    this.#mark();
  }

  #size = { width: 100, height: 100 };
  /** The horizontal position of the topmost operation. */
  #anchor = 0;

  #mark() {
    for (const element of this.#canvas.querySelectorAll(".selected, .near")) element.classList.remove("selected", "near");
    if (this.#selected === null) return;
    this.#canvas.querySelector(`#box-n${this.#selected}`)?.classList.add("selected");
    for (const edge of this.#canvas.querySelectorAll(`[data-to="n${this.#selected}"], [data-from="n${this.#selected}"]`)) edge.classList.add("near");
  }

  async #hoverEdge(edge, element) {
    const node = this.#graph.nodes[edge.node];
    const from = this.#graph.values[node.operands[edge.operand]];
    try {
      const { value } = await this.#app.ask({ ask: "edge", node: edge.node, operand: edge.operand });
      const verdict = from.node !== null && h("p", { class: from.in_memory ? "verdict memory" : "verdict fused" }, h("b", {}, from.in_memory ? "Not fused" : "Fused"), `: ${from.name} is ${from.in_memory ? "written to memory" : "computed where it is read"}: ${from.why}`);
      this.#app.showTip(element, [h("b", {}, `${node.name} reads ${from.name}`), verdict, ...this.#maps(value, false)].filter(Boolean));
    } catch (error) {
      this.#app.showTip(element, [error.message]);
    }
  }

  #maps(edge, whole) {
    if (edge.unknown) return [h("p", {}, `No map: ${edge.unknown}`)];
    return edge.maps.flatMap((map) => [
      h("pre", { class: "map" }, map.simplified),
      !map.exact && h("p", { class: "note" }, "A superset: the operation may read fewer elements."),
      ...map.data.map((text) => h("p", { class: "note" }, text)),
      map.raw !== map.simplified && (whole
        ? h("details", {}, h("summary", {}, `Simplified by ${map.steps.length} rule${map.steps.length === 1 ? "" : "s"}`),
          h("p", {}, "From ", h("code", {}, map.raw)),
          h("ol", {}, map.steps.map((step) => h("li", {}, h("code", {}, step.before), " becomes ", h("code", {}, step.after), ` by ${step.rule}`, step.identity && h("span", { class: "note" }, ` (${step.identity})`), step.because && h("div", { class: "note" }, `because ${step.because}`)))))
        : h("p", { class: "note" }, `simplified from ${map.raw}${map.steps.length ? ` by ${[...new Set(map.steps.map((step) => step.rule))].join(", ")}` : ""}`)),
    ]).filter(Boolean);
  }

  #showUnit(number) {
    const unit = this.#graph.units[number];
    const name = (value) => `${this.#graph.values[value].name} ${dims(this.#graph.values[value].shape)}`;
    this.#details.replaceChildren(...[
      h("h2", {}, unit.kind === "kernel" ? "Kernel" : unit.label),
      h("p", {}, unit.kind === "kernel" ? `Computes ${unit.nodes.length} operation${unit.nodes.length === 1 ? "" : "s"} together.` : `A ${unit.kind} step.`),
      h("button", { onclick: () => { this.#focus = number; this.#draw(true); } }, "Show its operations"),
      unit.kind === "kernel" && h("button", { onclick: () => this.#app.showKernel(number) }, "Show its code"),
      h("h3", {}, "Reads from memory"), h("ul", {}, unit.reads.map((v) => h("li", {}, name(v)))),
      h("h3", {}, "Writes to memory"), h("ul", {}, unit.writes.map((v) => h("li", {}, name(v), h("div", { class: "note" }, `why: ${this.#graph.values[v].why}`))))].filter(Boolean));
  }

  #showValue(id) {
    const value = this.#graph.values[id];
    this.#details.replaceChildren(h("h2", {}, value.name), h("p", {}, h("code", {}, value.shape)), h("p", {}, `A ${value.kind} of the program: in memory before it runs${this.#graph.results.includes(id) ? ", and returned unchanged" : ""}.`),
      h("button", { onclick: () => this.#app.showShape(value.shape) }, "Show it in memory"));
  }

  /** Shows a kernel or a library call as soon as the graph is up to date. */
  want(unit) {
    this.#wanted = unit;
    this.#showWanted();
  }

  #showWanted() {
    if (this.#wanted === null || !this.#graph?.units[this.#wanted]) return;
    const unit = this.#wanted;
    this.#wanted = null;
    this.#selected = null;
    this.#mark();
    this.#showUnit(unit);
  }

  /** The index of the result to show first: one that the program returns, or else the largest. */
  #mainResult(node) {
    const graph = this.#graph;
    const rank = (value) => (graph.results.includes(value) ? 1e18 : 0) + (graph.values[value].dims ?? []).reduce((n, d) => n * d, 1);
    const ranks = node.results.map(rank);
    return Math.max(0, ranks.indexOf(Math.max(...ranks)));
  }

  /** Selects an operation; `picked` are elements of its result. */
  async select(id, picked = null, mark = true, iterations = {}, result = null) {
    const graph = this.#graph;
    const node = graph.nodes[id];
    this.#result = node.results[result] === undefined ? this.#mainResult(node) : result;
    this.#selected = id;
    this.#picked = null;
    this.#iterations = iterations;
    this.#mark();
    this.#app.mark(node.line, mark);
    const value = graph.values[node.results[this.#result]];
    const units = node.units.map((number) => graph.units[number]);
    const where = units.length === 0 ? "" : units.length === 1 ? `In the ${units[0].kind === "kernel" ? `kernel of ${units[0].nodes.length} operation${units[0].nodes.length === 1 ? "" : "s"}` : `${units[0].label} call`}.` : `Recomputed in each of the ${units.length} kernels that read it.`;
    const maps = h("div", { class: "maps" });
    const array = h("div", {});
    const reads = h("div", { class: "reads" });
    const scopes = [["operation", "its operands"], ["kernel", "what the kernel reads"], ["program", "the inputs"]];
    const scope = h("fieldset", { class: "scope" }, h("legend", {}, "Follow elements to"), scopes.map(([name, text]) =>
      h("label", {}, h("input", { type: "radio", name: "scope", value: name, ...(this.#scope === name ? { checked: true } : {}), onchange: () => { this.#scope = name; if (this.#picked) pick(this.#picked); } }), text)));
    let drawing = null;
    const pick = async (elements, iterations = this.#iterations) => {
      this.#picked = elements;
      this.#iterations = iterations;
      try {
        const asked = await this.#app.ask({ ask: "reads", value: value.id, elements, scope: this.#scope, iterations: Object.entries(iterations).map(([loop, at]) => [Number(loop), at]) });
        if (this.#selected === id && this.#iterations === iterations) this.#showReads(reads, drawing, value, elements, asked.value, pick);
      } catch (error) {
        reads.replaceChildren(h("p", { class: "note" }, error.message));
      }
      this.#app.changed();
    };
    if (value?.dims) {
      drawing = drawArray({ name: value.name, dims: value.dims, onpick: pick });
      const hasElements = value.dims.every((size) => size > 0);
      array.append(h("h3", {}, "Elements"), ...(hasElements ? [h("p", { class: "note" }, "Click an element, or drag over a tile, to see what it is computed from."), drawing, scope] : [drawing]));
    }
    this.#details.replaceChildren(...[
      h("h2", {}, node.name),
      h("p", {}, h("code", {}, `${node.opcode}: ${value?.shape ?? ""}`)),
      node.results.length > 1 && h("label", { class: "result" }, "Result ", h("select", { id: "result", onchange: (event) => this.select(id, null, false, {}, Number(event.target.value)) },
        node.results.map((each, at) => h("option", { value: at, ...(at === this.#result ? { selected: true } : {}) }, `${at}: ${dims(graph.values[each].shape)}`)))),
      h("p", { class: value?.in_memory ? "verdict memory" : "verdict fused" }, h("b", {}, value?.in_memory ? "Written to memory" : "Fused"), ": ", value?.why ?? ""),
      h("p", { class: "note" }, where),
      h("div", { class: "buttons" }, value?.dims && h("button", { onclick: () => this.#app.showShape(value.shape) }, "Show it in memory"), units[0]?.kind === "kernel" && h("button", { onclick: () => this.#app.showKernel(node.units[0]) }, "Show the code")),
      array, reads, h("h3", {}, "What it reads"), maps].filter(Boolean));
    this.#app.changed();
    if (picked?.length) pick(picked);
    for (const [operand, source] of node.operands.entries()) {
      const from = graph.values[source];
      const entry = h("section", { class: "operand" }, h("h4", {}, from.node === null ? `${from.name} (${from.kind})` : h("button", { class: "link", onclick: () => this.select(from.node) }, from.name), ` ${dims(from.shape)}`, h("span", { class: "note" }, from.in_memory ? " from memory" : " fused")));
      maps.append(entry);
      try {
        const { value: edge } = await this.#app.ask({ ask: "edge", node: id, operand });
        if (this.#selected !== id) return;
        entry.append(...this.#maps(edge, true));
      } catch (error) {
        entry.append(h("p", { class: "note" }, error.message));
      }
    }
  }

  #showReads(place, drawing, value, elements, reads, pick) {
    drawing?.update({ elements, all: false, exact: true });
    const what = elements.length === 1 ? `Element [${unravel(elements[0], value.dims).join(", ")}]` : `The tile of ${elements.length} elements`;
    const others = reads.sets.filter((set) => set.value !== value.id);
    const leaves = others.filter((set) => set.leaf && this.#graph.values[set.value].kind !== "constant");
    const between = others.filter((set) => !set.leaf);
    const one = (set) => {
      const count = set.dims.reduce((n, d) => n * d, 1);
      return h("section", { class: "read", "data-value": set.name, "data-count": set.count },
        h("h4", {}, set.name, " ", h("span", { class: "note" }, `${set.all ? "all " : ""}${set.count.toLocaleString("en")} of ${count.toLocaleString("en")} elements${set.exact ? "" : ", at most"}`)),
        set.note && h("p", { class: "note" }, set.note), set.dims.length > 0 && drawArray({ name: set.name, dims: set.dims, set }));
    };
    // Another iteration changes only the loops' part; the rest stays, because a slider may be held.
    const question = JSON.stringify([value.id, elements, this.#scope]);
    if (place.dataset.question === question && reads.loops.length > 0) {
      this.#showLoops(place.querySelector(".loops"), reads.loops, elements, one, pick);
      return;
    }
    place.dataset.question = question;
    place.replaceChildren(h("h3", {}, `${what} needs`), ...leaves.map(one));
    if (leaves.length === 0) place.append(h("p", { class: "note" }, "Nothing: it is computed from constants or from its own index only."));
    if (between.length > 0) place.append(h("details", {}, h("summary", {}, `Intermediate arrays, never written to memory: ${between.length}`), between.map(one)));
    if (reads.loops.length > 0) {
      const loops = h("div", { class: "loops" });
      this.#showLoops(loops, reads.loops, elements, one, pick);
      place.append(loops);
    }
    for (const element of this.#canvas.querySelectorAll(".needed")) element.classList.remove("needed");
    for (const set of reads.sets) {
      const { node } = this.#graph.values[set.value];
      (this.#canvas.querySelector(`#box-v${set.value}`) ?? this.#canvas.querySelector(`#box-n${node}`))?.classList.add("needed");
    }
  }

  /** Shows the loops, nested as in the program. Loops that the shown iterations do not reach are removed. */
  #showLoops(place, loops, elements, one, pick) {
    const sections = new Map([...place.querySelectorAll(".iterations")].map((section) => [Number(section.dataset.loop), section]));
    const now = new Set(loops.map(({ node }) => node));
    for (const [node, section] of sections) if (!now.has(node)) section.remove();
    for (const loop of loops) {
      let section = sections.get(loop.node);
      if (!section?.isConnected || !place.contains(section)) {
        section = this.#loop(loop, loops.find(({ node }) => node === loop.parent), elements, pick);
        sections.set(loop.node, section);
        const around = sections.get(loop.parent);
        (around?.querySelector(".inner") ?? place).append(section);
      }
      this.#iterate(section, loop, one);
    }
  }

  /** A section for the elements that one iteration of a loop needs, with a slider over the iterations. */
  #loop({ node, name, trips }, parent, elements, pick) {
    const slider = h("input", { type: "range", min: 0, max: Math.max(0, (trips ?? 1) - 1), "aria-label": `Iteration of ${name}`, oninput: (event) => pick(elements, { ...this.#iterations, [node]: Number(event.target.value) }) });
    return h("section", { class: "iterations", "data-loop": node, "data-name": name },
      h("h3", {}, `Loop ${name}`, parent && h("span", { class: "note" }, `, inside ${parent.name}`)),
      h("p", { class: "note trips" }),
      h("label", {}, "Iteration ", slider, " ", h("output", {})), h("div", { class: "states" }), h("div", { class: "inner" }));
  }

  #iterate(section, { trips, iteration, states, reads, parent }, one) {
    const [needed, read] = [states, reads].map((sets) => sets.filter((set) => set.count > 0 && this.#graph.values[set.value].kind !== "constant"));
    const own = (selector) => section.querySelector(`:scope > ${selector}`);
    section.dataset.iteration = iteration;
    const there = parent === null ? "" : " in the iteration selected above";
    own(".trips").textContent = trips === null
      ? `All iterations are shown together: ${[...states, ...reads].find(({ note }) => note)?.note ?? "the number of iterations is unknown"}.`
      : trips === 0 ? "It does not run: its results are its initial states." : `It runs ${trips} time${trips === 1 ? "" : "s"}${there}.`;
    const label = own("label");
    label.hidden = !(trips > 1);
    if (trips > 1) {
      const slider = label.querySelector("input");
      slider.max = trips - 1;
      slider.value = iteration;
      label.querySelector("output").textContent = `${iteration + 1} of ${trips}`;
    }
    own(".states").replaceChildren(
      ...(read.length > 0 ? [h("p", {}, trips === null ? "All iterations together read at most:" : "This iteration reads:"), ...read.map(one)] : []),
      ...(needed.length > 0 ? [h("p", {}, trips === null ? "They need at most these elements of the loop's state:" : "It needs these elements of the state that the previous iteration produced:"), ...needed.map(one)] : []),
      ...(trips !== 0 && needed.length + read.length === 0 ? [h("p", { class: "note" }, trips === null ? "Nothing." : "This iteration contributes nothing; try another one.")] : []));
  }

  // Moving and zooming.
  #fit() {
    const { width, height } = this.#size;
    const box = this.#canvas.getBoundingClientRect();
    const scale = Math.min(1.1, Math.max(0.5, Math.min(box.width / width, box.height / height)));
    const w = box.width / scale, t = box.height / scale;
    // A graph wider than the view is centred on its topmost operation.
    const middle = width < w ? width / 2 : Math.min(width - w / 2, Math.max(w / 2, this.#anchor));
    this.#box = { x: middle - w / 2, y: height < t ? (height - t) / 2 : 0, scale };
    this.#apply();
  }

  #centre({ x, y, height }) {
    if (!this.#box) return;
    const box = this.#canvas.getBoundingClientRect();
    this.#box.x = x - box.width / this.#box.scale / 2;
    this.#box.y = y - (height ?? 0) / 2 - 40;
    this.#apply();
  }

  #apply() {
    const svg = this.#canvas.querySelector("svg.drawing");
    if (!svg || !this.#box) return;
    const box = this.#canvas.getBoundingClientRect();
    svg.setAttribute("viewBox", `${this.#box.x} ${this.#box.y} ${Math.max(1, box.width / this.#box.scale)} ${Math.max(1, box.height / this.#box.scale)}`);
  }

  #zoom(factor, x = null, y = null) {
    if (!this.#box) return;
    const box = this.#canvas.getBoundingClientRect();
    const [px, py] = [x ?? box.width / 2, y ?? box.height / 2];
    const scale = Math.min(4, Math.max(0.05, this.#box.scale * factor));
    this.#box.x += px / this.#box.scale - px / scale;
    this.#box.y += py / this.#box.scale - py / scale;
    this.#box.scale = scale;
    this.#apply();
  }

  #zoomable() {
    const canvas = this.#canvas;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      this.#zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    let held = null;
    canvas.addEventListener("pointerdown", (event) => { if (!event.target.closest(".box")) held = [event.clientX, event.clientY]; });
    window.addEventListener("pointermove", (event) => {
      if (!held || !this.#box) return;
      this.#box.x -= (event.clientX - held[0]) / this.#box.scale;
      this.#box.y -= (event.clientY - held[1]) / this.#box.scale;
      held = [event.clientX, event.clientY];
      this.#apply();
    });
    window.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("keydown", (event) => {
      if (!this.#box) return;
      const move = 60 / this.#box.scale;
      const actions = { "+": () => this.#zoom(1.3), "-": () => this.#zoom(1 / 1.3), 0: () => this.#fit(), ArrowLeft: () => { this.#box.x -= move; }, ArrowRight: () => { this.#box.x += move; }, ArrowUp: () => { this.#box.y -= move; }, ArrowDown: () => { this.#box.y += move; } };
      if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      actions[event.key]();
      this.#apply();
    });
    new ResizeObserver(() => this.#apply()).observe(canvas);
  }
}
