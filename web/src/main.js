// The page: its editor, its views, and its state.
import { Compiler, ProblemError, StoppedError } from "./compiler.js";
import { makeEditor } from "./editor.js";
import { examples } from "./examples.js";
import { decode, encode } from "./link.js";
import { GraphView } from "./graph.js";
import { LayoutView } from "./layout.js";
import { CodeView } from "./code.js";
import { MemoryView } from "./memory.js";
import { TpuView } from "./tpu.js";
import { h, seconds } from "./dom.js";

const TABS = ["graph", "layout", "code", "memory", "tpu"];
/** When the text changes, requests that have run for longer than this (in ms) are cancelled. */
const WORTH_WAITING = 150;
/** After this many milliseconds, the page shows a Stop button. */
const PATIENCE = 700;

const byId = (id) => document.getElementById(id);
const compiler = new Compiler();
let tab = "graph", isKernel = false, lastGood = null, problem = null, editor, selection = null, graphAnswer = null, opened = false;
/** The values of symbolic sizes, by name, and whether all sizes stay symbolic. */
let sizes = { values: {}, leave_open: false };
/** The views that are up to date. */
const fresh = new Set();

const status = (text, isError = false) => {
  byId("status-text").textContent = text;
  byId("status").classList.toggle("error", isError);
};

const app = {
  chip: "v5e",
  /** Sends a request about the program; a worker that was stopped opens it again first. */
  ask: (request) => compiler.ask(request),
  changed: () => { clearTimeout(app.timer); app.timer = setTimeout(remember, 300); },
  mark: (line, scroll) => editor.mark(line, scroll),
  takeSelection: () => { const taken = selection; selection = null; return taken; },
  showShape: (shape) => { views.layout.shape = shape; choose("layout"); },
  showKernel: (unit) => { views.code.want(unit); fresh.delete("code"); choose("code"); },
  choose: (name) => choose(name),
  showUnit: (unit) => { views.graph.want(unit); choose("graph"); },
  /** The graph, requested once for each text. */
  graph: () => {
    if (graphAnswer === null) {
      graphAnswer = compiler.ask({ ask: "graph" }).then(({ value }) => value);
      graphAnswer.catch(() => {});
    }
    return graphAnswer;
  },
  findings: (findings) => {
    if (isKernel) editor.show(findings.map(({ code, problem: p, is_error }) => ({ ...p, message: `${code}: ${p.message}`, severity: is_error ? "error" : "warning" })).filter((p) => p.line > 0));
  },
  showTip: (element, content) => {
    const tip = byId("tip");
    tip.replaceChildren(...content);
    tip.hidden = false;
    const box = element.querySelector(".line").getBoundingClientRect();
    const x = Math.min(window.innerWidth - tip.offsetWidth - 8, Math.max(8, box.x + box.width / 2 + 14));
    const y = Math.min(window.innerHeight - tip.offsetHeight - 8, box.y + box.height / 2);
    tip.style.left = `${x}px`;
    tip.style.top = `${Math.max(8, y)}px`;
  },
  hideTip: () => { byId("tip").hidden = true; },
};
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
tip.setAttribute("role", "tooltip");
document.body.append(tip);

const views = {
  graph: new GraphView(byId("view-graph"), app),
  layout: new LayoutView(byId("view-layout"), app),
  code: new CodeView(byId("view-code"), app),
  memory: new MemoryView(byId("view-memory"), app),
  tpu: new TpuView(byId("view-tpu"), app),
};

async function remember() {
  const state = { text: editor.text, tab, chip: app.chip, select: views.graph.state, shape: views.layout.chosen, code: views.code.state, machine: views.memory.state, sizes };
  const fragment = await encode(state);
  // A very large program does not fit in a link.
  if (fragment.length < 200_000) history.replaceState(null, "", fragment);
  return fragment;
}

/** Shows a view and updates it. */
async function choose(name) {
  tab = name;
  for (const each of TABS) {
    const button = byId(`tab-${each}`), chosen = each === name;
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    byId(`view-${each}`).hidden = !chosen;
  }
  app.hideTip();
  app.changed();
  await refresh();
}

async function refresh() {
  if (!opened || fresh.has(tab)) return;
  const shown = tab;
  fresh.add(shown);
  await views[shown].update();
}

let opening = 0, timer = 0;
/** A text to open as soon as the compiler has answered earlier requests. */
let waiting = null;

/** Opens a text that was typed: at once, or after earlier requests that finish soon. */
function typed(text) {
  if (select.value !== "" && examples[Number(select.value)].text !== text) select.value = "";
  app.hideTip();
  app.changed();
  waiting = text;
  clearTimeout(timer);
  if (!compiler.isBusy) openWaiting();
  else timer = setTimeout(openWaiting, Math.max(0, WORTH_WAITING + 1 - (performance.now() - busySince)));
}

function openWaiting() {
  clearTimeout(timer);
  const text = waiting;
  waiting = null;
  if (text !== null) open(text);
}

/** Opens the text, then updates the visible view. */
async function open(text) {
  const number = ++opening;
  const started = performance.now();
  // Responses about an older text are useless.
  if (compiler.isBusy && performance.now() - busySince >= WORTH_WAITING) compiler.stop();
  try {
    const reading = compiler.ask({ ask: "open", text, ...sizes });
    // The graph is requested before the text is known to be valid, to save time. If it is invalid, the
    // response is about the previous program and is ignored.
    const shown = graphAnswer;
    graphAnswer = null;
    const next = tab === "graph" ? app.graph() : null;
    const { value } = await reading.catch((error) => { if (number === opening) graphAnswer = shown; throw error; });
    if (number !== opening) return;
    showSizes(value.sizes);
    problem = value.problem;
    isKernel = value.is_kernel;
    graphAnswer = next;
    lastGood = text;
    opened = true;
    fresh.clear();
    editor.show(problem ? [problem].filter((p) => p.line > 0) : []);
    byId("views").classList.remove("stale");
    for (const each of TABS) byId(`tab-${each}`).disabled = isKernel && !["tpu", "layout"].includes(each);
    if (isKernel && !["tpu", "layout"].includes(tab)) await choose("tpu");
    else await refresh();
    if (number !== opening) return;
    const time = performance.now() - started;
    window.tegula.updated = { number, milliseconds: time };
    status(problem ? `Read, but not compiled: ${problem.message}` : `Up to date, in ${seconds(time / 1000)}`, problem !== null);
  } catch (error) {
    if (error instanceof StoppedError || number !== opening) return;
    if (!(error instanceof ProblemError)) throw error;
    const { problem: p } = error;
    // The views keep showing the previous program, dimmed, and still answer requests about it.
    if (!compiler.hasProgram) compiler.reopen()?.catch(() => {});
    byId("views").classList.add("stale");
    editor.show(p.line > 0 ? [p] : []);
    status(`${p.line > 0 ? `Line ${p.line}, column ${p.column}: ` : ""}${p.message}${p.help ? ` — ${p.help}` : ""}`, true);
    window.tegula.updated = { number, milliseconds: performance.now() - started, error: p };
  }
}

/** Shows a slider for each symbolic size. */
function showSizes(open) {
  const bar = byId("sizes");
  bar.hidden = open.length === 0;
  const names = open.map(({ name }) => name).join();
  if (bar.dataset.names !== names) {
    bar.dataset.names = names;
    const set = (name, value) => {
      sizes.values[name] = value;
      typed(editor.text);
    };
    bar.replaceChildren(h("b", {}, "Sizes"), ...open.map(({ name, lower, upper, value }) => h("label", {}, h("code", {}, name), " ", h("input", {
      type: "range", min: Math.max(lower, 1), max: Math.min(upper, Math.max(64, 2 * (value ?? 8))), value: value ?? 8, "data-size": name,
      oninput: (event) => { event.target.nextElementSibling.textContent = event.target.value; set(name, Number(event.target.value)); },
    }), h("output", {}, value ?? "any"))),
    h("label", {}, h("input", { type: "checkbox", id: "leave-open", onchange: (event) => { sizes.leave_open = event.target.checked; typed(editor.text); } }), " keep symbolic"));
  }
  for (const { name, value } of open) {
    const input = bar.querySelector(`[data-size="${CSS.escape(name)}"]`);
    input.disabled = value === null;
    if (value !== null) {
      if (Number(input.max) < value) input.max = value;
      if (document.activeElement !== input) input.value = value;
    }
    input.nextElementSibling.textContent = value ?? "any";
  }
  const leave = byId("leave-open");
  if (leave) leave.checked = sizes.leave_open;
}

let busySince = null, patience = 0;
/** The status text that was replaced by "Working…". */
let before = null;
compiler.onbusy = (isBusy) => {
  if (isBusy) {
    if (busySince !== null) return;
    busySince = performance.now();
    patience = setTimeout(() => {
      byId("stop").hidden = false;
      before ??= [byId("status-text").textContent, byId("status").classList.contains("error")];
      status("Working…");
    }, PATIENCE);
    return;
  }
  clearTimeout(patience);
  busySince = null;
  byId("stop").hidden = true;
  if (before) status(...before);
  before = null;
  if (waiting !== null) queueMicrotask(openWaiting);
};
byId("stop").addEventListener("click", () => {
  compiler.stop();
  fresh.clear();
  status("Stopped. The views still show earlier results; change the program to continue.", true);
  compiler.reopen()?.catch(() => {});
});

// Tabs by keyboard.
byId("views").querySelector("[role=tablist]").addEventListener("keydown", (event) => {
  const enabled = TABS.filter((each) => !byId(`tab-${each}`).disabled);
  const at = enabled.indexOf(tab);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: enabled.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const next = enabled[(to + enabled.length) % enabled.length];
  choose(next);
  byId(`tab-${next}`).focus();
});
for (const each of TABS) byId(`tab-${each}`).addEventListener("click", () => choose(each));

// Examples.
const select = byId("examples");
select.append(new Option("Choose…", ""), ...examples.map(({ name }, at) => new Option(name, String(at))));
select.addEventListener("change", () => {
  const example = examples[Number(select.value)];
  if (select.value === "" || !example) return;
  editor.text = example.text;
  choose(example.tab ?? (isKernel ? "graph" : tab));
});

// Light and dark.
const theme = (value) => {
  if (value) document.documentElement.dataset.theme = value;
  fresh.clear();
  refresh();
};
byId("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme(dark ? "light" : "dark");
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(null));

byId("share").addEventListener("click", async () => {
  const fragment = await remember();
  try {
    await navigator.clipboard.writeText(location.href.replace(/#.*$/, "") + fragment);
    status("The link was copied. It contains the whole program; nothing was sent to a server.");
  } catch {
    status("The link is in the address bar. It contains the whole program; nothing was sent to a server.");
  }
});

// The width of the editor.
const divider = byId("divider");
const widen = (share) => {
  const kept = Math.min(70, Math.max(15, share));
  divider.setAttribute("aria-valuenow", kept.toFixed(0));
  document.documentElement.style.setProperty("--left", `${kept}%`);
};
divider.addEventListener("pointerdown", (event) => divider.setPointerCapture(event.pointerId));
divider.addEventListener("pointermove", (event) => { if (divider.hasPointerCapture(event.pointerId)) widen(event.clientX / window.innerWidth * 100); });
divider.addEventListener("keydown", (event) => {
  const now = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--left"));
  if (event.key === "ArrowLeft") widen(now - 3);
  if (event.key === "ArrowRight") widen(now + 3);
});

async function restore(state) {
  if (state.chip) app.chip = state.chip;
  selection = state.select ?? null;
  if (state.shape) views.layout.shape = state.shape;
  views.code.state = state.code;
  if (state.sizes?.values) sizes = { values: { ...state.sizes.values }, leave_open: Boolean(state.sizes.leave_open) };
  views.memory.state = state.machine;
  tab = TABS.includes(state.tab) ? state.tab : "graph";
}

async function begin() {
  window.tegula = { updated: null, loaded: null };
  const given = JSON.parse(byId("initial").textContent);
  const state = await decode(location.hash) ?? given ?? { text: examples[0].text };
  let ready = false;
  editor = makeEditor(byId("editor"), state.text, (text) => { if (ready) typed(text); });
  await compiler.load();
  window.tegula.loaded = performance.now();
  await restore(state);
  for (const each of TABS) byId(`view-${each}`).hidden = each !== tab;
  choose(tab);
  // The user may have typed while the compiler was loading.
  ready = true;
  await open(editor.text);
}
window.addEventListener("hashchange", async () => {
  const state = await decode(location.hash);
  if (!state) return;
  await restore(state);
  fresh.clear();
  editor.text = state.text;
  choose(tab);
});
begin().catch((error) => {
  status(`The explorer did not start: ${error.message}`, true);
  throw error;
});
