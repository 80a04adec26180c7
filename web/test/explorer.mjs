// Drives the explorer's page in a real browser. Usage: node test/explorer.mjs [--screenshots FOLDER] [--pictures FOLDER]
//
// `--pictures docs/book/images` makes the book's pictures of the page anew.
//
// CHROMIUM names the browser (/usr/bin/chromium), TEGULA_CORPUS a folder with larger programs, which are
// measured if it is there.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import axe from "axe-core";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const page_file = `file://${join(here, "../build/explorer.html")}`;
const root = join(here, "../..");
const at = process.argv.indexOf("--screenshots");
const screenshots = at > 0 ? process.argv[at + 1] : null;
if (screenshots) mkdirSync(screenshots, { recursive: true });

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const complaints = [];

async function newPage(options = {}, address = page_file) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => { if (/^https?:/.test(request.url()) && !request.url().startsWith("http://127.0.0.1")) complaints.push(`a request to ${request.url()}`); });
  await page.goto(address);
  await settled(page);
  return page;
}

/** Waits until the page has shown what it was told last. */
const settled = (page) => page.waitForFunction(() => window.tegula?.updated && /Up to date|Line|Read, but/.test(document.getElementById("status-text").textContent), null, { timeout: 60_000 });

/** Puts a text into the editor at once; gives the milliseconds from the change to updated views. */
async function put(page, text) {
  return page.evaluate(async (text) => {
    const before = window.tegula.updated?.number ?? 0;
    const content = document.querySelector(".cm-content");
    const view = content.cmTile?.view ?? content.cmView?.view ?? content.cmView?.rootView?.view;
    const started = performance.now();
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    while (!window.tegula.updated || window.tegula.updated.number <= before) await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => requestAnimationFrame(resolve));
    return performance.now() - started;
  }, text);
}

/** Types a key at a place, or at the end; gives the milliseconds from the key to the frame with updated views. */
async function press(page, key, at = -1) {
  await page.evaluate((at) => {
    const content = document.querySelector(".cm-content");
    const view = content.cmTile?.view ?? content.cmView?.view ?? content.cmView?.rootView?.view;
    view.focus();
    view.dispatch({ selection: { anchor: at < 0 ? view.state.doc.length : at }, scrollIntoView: true });
    const before = window.tegula.updated.number;
    window.pressed = new Promise((resolve) => {
      window.addEventListener("keydown", async ({ timeStamp }) => {
        while (window.tegula.updated.number <= before) await new Promise((next) => setTimeout(next));
        requestAnimationFrame(() => resolve(performance.now() - timeStamp));
      }, { once: true, capture: true });
    });
  }, at);
  await page.waitForTimeout(250);
  await page.keyboard.press(key);
  return page.evaluate(() => window.pressed);
}

const read = (name) => readFileSync(join(root, name), "utf8");
const programs = {
  softmax: read("examples/models/softmax.hlo"),
  attention: read("examples/models/attention.hlo"),
  convolution: read("web/examples/conv_bn.hlo"),
  pooling: read("web/examples/max_pool.hlo"),
  transposed: read("web/examples/transposed_matmul.hlo"),
  recurrence: read("web/examples/scan.hlo"),
};
const open = read("web/examples/open_sizes.hlo");
const tests = [];
const test = (name, run) => tests.push([name, run]);
const view = (page, name) => page.click(`#tab-${name}`);

test("every view on six programs", async () => {
  const page = await newPage();
  for (const [name, text] of Object.entries(programs)) {
    await put(page, text);
    await view(page, "graph");
    await page.waitForSelector(".drawing .box");
    assert.match(await page.textContent(".summary"), /operation/, name);
    await view(page, "layout");
    await page.waitForSelector("#view-layout .assignment table tbody tr");
    await page.waitForSelector("#view-layout .picture-box svg rect");
    await view(page, "code");
    await page.waitForSelector("#view-code .listing");
    assert.match(await page.textContent("#view-code"), /function/, name);
    await view(page, "memory");
    await page.waitForSelector("#view-memory table tbody tr");
    await view(page, "tpu");
    await page.waitForFunction(() => document.querySelector("#view-tpu .report").shadowRoot.querySelector("svg.over-time rect"));
  }
  await page.context().close();
});

test("an error is underlined, said, and mended", async () => {
  const page = await newPage();
  await put(page, programs.softmax.replace("exponential(", "exponental("));
  await page.waitForSelector(".cm-lintRange-error");
  assert.match(await page.textContent("#status-text"), /Line \d+, column \d+/);
  assert.equal(await page.locator("#views.stale").count(), 1);
  await put(page, programs.softmax);
  assert.equal(await page.locator(".cm-lintRange-error").count(), 0);
  assert.equal(await page.locator("#views.stale").count(), 0);
  await page.context().close();
});

test("a pooled pixel needs its window, through the fused addition", async () => {
  const page = await newPage();
  await put(page, programs.pooling);
  await page.click(".box[data-name=pooled]");
  const canvas = page.locator(".details .array canvas").first();
  const box = await canvas.boundingBox();
  // Row 2, column 1 of 6 by 6: rows 3 to 5, columns 1 to 3 of the image.
  await page.mouse.click(box.x + box.width * 1.5 / 6, box.y + box.height * 2.5 / 6);
  await page.waitForSelector(".read[data-value=image]");
  assert.equal(await page.getAttribute(".read[data-value=image]", "data-count"), "9");
  assert.equal(await page.getAttribute(".read[data-value=bias]", "data-count"), "3");
  // A tile, by dragging.
  await page.mouse.move(box.x + 3, box.y + 3);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 1.5 / 6, box.y + box.height * 1.5 / 6);
  await page.mouse.up();
  await page.waitForFunction(() => document.querySelector(".read[data-value=image]")?.dataset.count === "16");
  await page.context().close();
});

test("an edge says its map", async () => {
  const page = await newPage();
  await put(page, programs.pooling);
  await page.waitForSelector(".edge[data-edge]", { state: "attached" });
  await page.evaluate(() => document.querySelector(".edge[data-edge]").dispatchEvent(new PointerEvent("pointerenter")));
  await page.waitForSelector("#tip pre.map");
  assert.match(await page.textContent("#tip"), /\(d0/);
  await page.context().close();
});

test("a link carries the whole state", async () => {
  const page = await newPage();
  await put(page, programs.transposed);
  await page.click(".box[data-name=twice]");
  await page.waitForSelector(".details .verdict");
  await page.click("#share");
  await page.waitForTimeout(600);
  const address = page.url();
  assert.match(address, /#s=/);
  const other = await newPage({}, address);
  await other.waitForSelector(".details .verdict");
  assert.equal(await other.textContent(".details h2"), "twice");
  assert.match(await other.textContent(".cm-content"), /transposed_matmul/);
  await other.goto(`${page_file}#s=damaged`);
  await settled(other);
  await page.context().close();
  await other.context().close();
});

test("lines of the kernel, Cranelift IR and assembly are linked", async () => {
  const page = await newPage();
  await put(page, programs.softmax);
  await view(page, "code");
  const kernel = page.locator(".code .kernel .listing .linked");
  for (const isa of ["x86_v3", "x86_v2", "aarch64"]) {
    await page.selectOption("#isa", isa);
    await page.waitForFunction((isa) => document.querySelector(".code .assembly h2")?.textContent.includes({ x86_v3: "AVX2", x86_v2: "SSE4.2", aarch64: "AArch64" }[isa]), isa);
    const exponential = kernel.filter({ hasText: "exponential" }).first();
    await exponential.hover();
    const lit = (column) => page.locator(`.code .${column} .lit`);
    await page.waitForFunction(() => document.querySelectorAll(".code .assembly .lit").length > 10);
    const instructions = (await lit("assembly").allTextContents()).join("");
    // The polynomial's products and sums, each added with one rounding where the machine can.
    assert.match(instructions, { x86_v3: /vfn?madd/, x86_v2: /mulps/, aarch64: /fmla/ }[isa], isa);
    if (isa !== "x86_v3") assert.ok(await lit("clif").count() > 10, isa);
    // The other way: an instruction shows the line that it came from.
    await page.locator(".code .assembly .linked").filter({ hasText: isa === "aarch64" ? "fmla" : "mulps" }).first().hover();
    await page.waitForSelector(".code .kernel .lit");
    assert.match(await page.textContent(".links-note"), /Line \d+, .*: \d+ lines? of Cranelift IR, \d+ instructions?/);
  }
  // Pinned by a click, and carried by a link; let go by another.
  await kernel.filter({ hasText: "exponential" }).first().click();
  await page.mouse.move(5, 5);
  assert.ok(await page.locator(".code .assembly .lit").count() > 10);
  await page.waitForTimeout(600);
  const other = await newPage({}, page.url());
  await other.waitForSelector(".code .assembly .pinned");
  assert.equal(await other.inputValue("#isa"), "aarch64");
  await other.context().close();
  await page.focus(".code .kernel .listing");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.querySelectorAll(".code .pinned").length === 0);
  await page.keyboard.press("ArrowDown");
  await page.waitForSelector(".code .pinned");
  await page.context().close();
});

test("a pass shows what it changed", async () => {
  const page = await newPage();
  await put(page, programs.attention);
  await view(page, "code");
  await page.waitForSelector(".steps button");
  const passes = await page.locator(".steps button").allTextContents();
  assert.equal(passes[0], "as fused");
  assert.equal(passes.at(-1), "compiled");
  await page.click(".steps button:nth-child(2)");
  assert.ok(await page.locator(".kernel .note").first().textContent());
  await page.click(".steps button:first-child");
  assert.match(await page.textContent(".code .kernel .listing"), /kernel\(/);
  await page.context().close();
});

test("an element of a loop's result needs rows of each iteration", async () => {
  const page = await newPage();
  await put(page, programs.recurrence);
  await page.click(".box[data-name=loop]");
  await page.waitForSelector(".details canvas.pickable");
  await page.click(".scope input[value=program]");
  const canvas = page.locator(".details .array canvas").first();
  const box = await canvas.boundingBox();
  await page.mouse.click(box.x + box.width * 0.4, box.y + box.height / 2);
  await page.waitForSelector(".iterations input[type=range]");
  assert.equal(await page.getAttribute(".read[data-value=xs]", "data-count"), "10");
  assert.match(await page.textContent(".iterations"), /It runs 10 times/);
  // The fourth iteration reads one element of its row.
  await page.locator(".iterations input[type=range]").fill("3");
  await page.waitForFunction(() => document.querySelector(".iterations").dataset.iteration === "3");
  assert.equal(await page.getAttribute(".iterations .read[data-value=xs]", "data-count"), "1");
  assert.match(await page.textContent(".iterations"), /This iteration reads/);
  await page.waitForTimeout(600);
  const other = await newPage({}, page.url());
  await other.waitForSelector(".iterations[data-iteration='3']");
  await other.context().close();
  await page.context().close();
});

test("a loop in a loop has a slider of its own", async () => {
  const page = await newPage();
  await example(page, "Nested loops");
  await page.click(".box[data-name=rows]");
  await page.waitForSelector(".details canvas.pickable");
  await page.click(".scope input[value=program]");
  const canvas = page.locator(".details .array canvas").first();
  const box = await canvas.boundingBox();
  // Element 6 of 12: the last iteration of the outer loop only passes it on.
  await page.mouse.click(box.x + box.width * 6.5 / 12, box.y + box.height / 2);
  const outer = page.locator(".iterations[data-name=rows]"), inner = page.locator(".iterations[data-name=columns]");
  await outer.waitFor();
  assert.equal(await page.getAttribute(".reads > .read[data-value=xs]", "data-count"), "7");
  assert.match(await outer.textContent(), /It runs 12 times\./);
  await inner.waitFor();
  assert.equal(await inner.locator(".read[data-value=xs]").count(), 0);
  assert.match(await inner.textContent(), /It runs 12 times/);
  await outer.locator("input[type=range]").first().fill("6");
  await page.waitForSelector(".iterations[data-name=rows][data-iteration='6']");
  assert.match(await inner.textContent(), /inside rows/);
  assert.match(await inner.textContent(), /It runs 7 times/);
  await inner.locator("input[type=range]").fill("3");
  await page.waitForSelector(".iterations[data-name=columns][data-iteration='3']");
  assert.equal(await inner.locator(".read[data-value=xs]").getAttribute("data-count"), "1");
  // The row before has fewer columns, and does not add to the sum.
  await outer.locator("input[type=range]").first().fill("2");
  await page.waitForSelector(".iterations[data-name=rows][data-iteration='2'] .iterations[data-name=columns][data-iteration='2']");
  assert.match(await inner.textContent(), /It runs 3 times/);
  assert.equal(await inner.locator(".read[data-value=xs]").count(), 0);
  await outer.locator("input[type=range]").first().fill("6");
  await page.waitForSelector(".iterations[data-name=columns][data-iteration='3']");
  await page.waitForTimeout(600);
  const other = await newPage({}, page.url());
  await other.waitForSelector(".iterations[data-name=rows][data-iteration='6'] .iterations[data-name=columns][data-iteration='3']");
  await other.context().close();
  await page.context().close();
});

test("programs without operations or elements are shown", async () => {
  const page = await newPage();
  await put(page, "HloModule same\nENTRY main { ROOT x = f32[3] parameter(0) }");
  await page.click(".box[data-name=x]");
  await page.waitForFunction(() => /returned unchanged/.test(document.querySelector(".details").textContent));
  await put(page, "HloModule nothing\nENTRY main { ROOT t = () tuple() }");
  await page.waitForSelector("#view-graph .notice");
  await put(page, "HloModule none\nENTRY main { x = f32[0,3] parameter(0)\n ROOT y = f32[0,3] negate(x) }");
  await page.click(".box[data-name=y]");
  await page.waitForFunction(() => /has no elements/.test(document.querySelector(".details").textContent));
  await put(page, "hello");
  assert.match(await page.textContent("#status-text"), /HLO begins with/);
  await page.context().close();
});

test("sizes that are left open have sliders", async () => {
  const page = await newPage();
  await put(page, open);
  assert.equal(await page.isVisible("#sizes"), true);
  await page.click(".box.result");
  await page.waitForSelector(".details canvas.pickable");
  const before = await page.evaluate(() => window.tegula.updated.number);
  await page.locator("#sizes input[type=range]").first().fill("12");
  await page.waitForFunction((before) => window.tegula.updated.number > before, before);
  await page.waitForFunction(() => document.querySelector(".details code")?.textContent.includes("[12"));
  for (const name of ["layout", "code", "memory", "tpu"]) {
    await view(page, name);
    await page.waitForFunction((name) => !document.querySelector(`#view-${name} .notice`), name);
  }
  await view(page, "graph");
  await page.check("#leave-open");
  await page.waitForFunction(() => document.querySelector("#sizes output").textContent === "any");
  await put(page, programs.softmax);
  assert.equal(await page.isVisible("#sizes"), false);
  await page.context().close();
});

/** Chooses an element of a loop's result, and an iteration of both loops. */
async function nestedLoops(page) {
  await page.click(".box[data-name=rows]");
  await page.click(".scope input[value=program]");
  const box = await page.locator(".details .array canvas").first().boundingBox();
  await page.mouse.click(box.x + box.width * 6.5 / 12, box.y + box.height / 2);
  await page.locator(".iterations[data-name=rows] input[type=range]").first().fill("6");
  await page.locator(".iterations[data-name=columns] input[type=range]").fill("3");
  await page.waitForSelector(".iterations[data-name=columns][data-iteration='3']");
  await page.locator(".iterations[data-name=rows]").scrollIntoViewIfNeeded();
}

/** Chooses an example by its name, as a newcomer does. */
async function example(page, name) {
  const before = await page.evaluate(() => window.tegula.updated.number);
  await page.selectOption("#examples", { label: name });
  await page.waitForFunction((before) => window.tegula.updated.number > before, before, { timeout: 30_000 });
}

// What a newcomer wants to know: after these clicks the answer is on the screen.
test("task: why two operations are not fused", async () => {
  const page = await newPage();
  await example(page, "Attention");
  // Edges between two kernels: point at one.
  await page.waitForSelector(".edge.memory[data-edge]", { state: "attached" });
  const edge = page.locator(".edge.memory[data-edge][data-from^=n]").first();
  await edge.dispatchEvent("pointerenter");
  await page.waitForSelector("#tip .verdict.memory");
  assert.match(await page.textContent("#tip .verdict"), /Not fused: .* is written to memory: .{10,}/);
  // Or choose the operation.
  await page.locator(".box.memory").first().click();
  await page.waitForSelector(".details .verdict.memory");
  assert.match(await page.textContent(".details .verdict"), /Written to memory: .{10,}/);
  await page.context().close();
});

test("task: which input elements a pooled pixel needs", async () => {
  const page = await newPage();
  await example(page, "Max pooling");
  await page.click(".details button:has-text('Show the result')");
  const canvas = page.locator(".details .array canvas").first();
  const box = await canvas.boundingBox();
  await page.mouse.click(box.x + box.width * 2.5 / 6, box.y + box.height * 2.5 / 6);
  await page.waitForSelector(".read[data-value=image]");
  const text = await page.textContent(".reads");
  assert.match(text, /Element \[2, 2\] needs/);
  assert.match(text, /image 9 of 144 elements/);
  await page.context().close();
});

test("task: why an array is padded", async () => {
  const page = await newPage();
  await example(page, "Transposed matrix product");
  await view(page, "layout");
  await page.locator(".assignment button:has-text('%')").first().click();
  await page.waitForFunction(() => /rounded up/.test(document.querySelector("#view-layout .facts").textContent));
  assert.match(await page.textContent("#view-layout .facts"), /% of it padding/);
  assert.ok(await page.locator("#view-layout .picture-box svg").isVisible());
  await page.context().close();
});

test("task: what to change so that a double buffer fits VMEM", async () => {
  const page = await newPage();
  await example(page, "TPU kernel: exceeds VMEM");
  const report = () => page.evaluate(() => [...document.querySelector("#view-tpu .report").shadowRoot.querySelectorAll(".finding")].map((finding) => finding.textContent).join());
  await page.waitForFunction(() => /VMEM has 128 MiB/.test(document.querySelector("#view-tpu .report").shadowRoot.textContent));
  assert.match(await report(), /at most f32\[2,\d+,128\] for `a`/);
  const most = Number(/at most f32\[2,(\d+),128\]/.exec(await report())[1]);
  assert.ok(most >= 24576, `${most} rows`);
  await page.waitForSelector(".cm-lintRange-error");
  // What it says, done.
  await put(page, readFileSync(join(root, "web/examples/too_large.kernel"), "utf8").replaceAll("196608", "24576").replace("0..4", "0..32").replace("i + 1 < 4", "i + 1 < 32"));
  await page.waitForFunction(() => !/VMEM has 128 MiB/.test(document.querySelector("#view-tpu .report").shadowRoot.textContent));
  await page.waitForFunction(() => document.querySelectorAll(".cm-lintRange-error").length === 0);
  await page.context().close();
});

test("task: where the slowest kernel's time goes", async () => {
  const page = await newPage();
  await example(page, "Attention");
  await page.click(".details button:has-text('Memory & time')");
  await page.waitForSelector(".slowest");
  assert.match(await page.textContent(".slowest"), /The slowest step is \d+, .*, with \d+ % of the time. It is bound by (memory|arithmetic): .* takes/);
  await page.locator("#view-memory table button").first().click();
  await page.waitForSelector(".code .assembly .linked");
  await page.context().close();
});

test("a large graph is placed beside the page, and can be stopped", async () => {
  const page = await newPage();
  const lines = Array.from({ length: 1500 }, (_, i) => `  x${i + 1} = f32[${8 + i}] concatenate(x${i}, y), dimensions={0}`);
  await put(page, `HloModule long\nENTRY main {\n  x0 = f32[8] parameter(0)\n  y = f32[1] parameter(1)\n${lines.join("\n").replace(/f32\[(\d+)\] concat/g, (_, n) => `f32[${Number(n) + 1}] concat`)}\n  ROOT r = f32[1508] negate(x1500)\n}`);
  const gap = page.evaluate(() => new Promise((resolve) => {
    let worst = 0, last = performance.now();
    const until = last + 3000;
    const tick = (now) => { worst = Math.max(worst, now - last); last = now; if (now < until) requestAnimationFrame(tick); else resolve(worst); };
    requestAnimationFrame(tick);
  }));
  await page.click(".bar button:has-text('Show operations')");
  const worst = await gap;
  console.log(`  the longest frame while 600 boxes are placed: ${worst.toFixed(0)} ms`);
  if (await page.isVisible(".placing button")) {
    await page.click(".placing button");
    await page.waitForSelector("#view-graph .notice");
  }
  await page.click(".bar button:has-text('kernels only')");
  await page.waitForFunction(() => document.querySelector(".placing").hidden);
  await page.context().close();
});

test("the keyboard reaches everything", async () => {
  const page = await newPage();
  await page.focus("#tab-graph");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getAttribute("#tab-layout", "aria-selected"), "true");
  await page.keyboard.press("ArrowLeft");
  await page.waitForSelector(".drawing .box");
  await page.focus(".drawing .box.result");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".details .verdict");
  await page.focus(".details canvas.pickable");
  await page.keyboard.press("ArrowDown");
  await page.waitForSelector(".details .read");
  await page.context().close();
});

// Layout shifts by the browser's own measure: a page whose sum is below 0.1 is called stable (web.dev/cls).
test("nothing jumps", async () => {
  const page = await newPage();
  await page.evaluate(() => {
    window.shifts = [];
    const note = (list) => window.shifts.push(...list.getEntries().map(({ value }) => value));
    new PerformanceObserver(note).observe({ type: "layout-shift", buffered: true });
  });
  const held = async (when, most) => {
    await page.waitForTimeout(100);
    const sum = await page.evaluate(() => window.shifts.splice(0).reduce((sum, value) => sum + value, 0));
    assert.ok(sum <= most, `${when}: shifts of ${sum}`);
  };
  await held("the page appears", 0.01);
  for (const name of ["graph", "layout", "code", "memory", "tpu"]) {
    await view(page, name);
    await held(`the view ${name} appears`, 0.01);
    await press(page, "x", 2);
    await held(`a key in a comment beside the view ${name}`, 0.001);
    // The editor's own lines move.
    await put(page, programs.softmax.replace("ENTRY", "// a comment\nENTRY"));
    await held(`another program beside the view ${name}`, 0.02);
    await put(page, programs.softmax);
    await held(`the program as it was, beside the view ${name}`, 0.02);
  }
  await page.context().close();
});

test("hostile programs leave the page alive", async () => {
  const page = await newPage();
  const chain = Array.from({ length: 3000 }, (_, i) => `  x${i + 1} = f32[64,64] dot(x${i}, x${i}), lhs_contracting_dims={1}, rhs_contracting_dims={0}`);
  const hostile = [
    "(".repeat(100_000), "HloModule m ENTRY main { ROOT x = f32[9223372036854775807,9223372036854775807] parameter(0) }",
    "\u0000\uffff", `HloModule long\nENTRY main {\n  x0 = f32[64,64] parameter(0)\n${chain.join("\n")}\n  ROOT r = f32[64,64] negate(x3000)\n}`,
    "HloModule huge\nENTRY main { x = f32[1000000,1000000] parameter(0)\n ROOT t = f32[1000000,1000000] transpose(x), dimensions={1,0} }",
    `HloModule many\nENTRY main {\n  x0 = f32[4] parameter(0)\n${Array.from({ length: 100_000 }, (_, i) => `  x${i + 1} = f32[4] add(x${i}, x0)`).join("\n")}\n  ROOT r = f32[4] negate(x100000)\n}`,
    "HloModule endless\ngo { s = (s32[], f32[8]) parameter(0)\n ROOT yes = pred[] constant(true) }\nstep { s = (s32[], f32[8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[8] get-tuple-element(s), index=1\n y = f32[8] negate(x)\n ROOT r = (s32[], f32[8]) tuple(i, y) }\nENTRY main { i = s32[] constant(0)\n x = f32[8] parameter(0)\n t = (s32[], f32[8]) tuple(i, x)\n w = (s32[], f32[8]) while(t), condition=go, body=step\n ROOT r = f32[8] get-tuple-element(w), index=1 }",
    "kernel endless {\n  hbm x : f32[8,128] = parameter(0)\n  hbm y : f32[8,128] = result(0)\n  vmem a : f32[8,128]\n  sem s\n  for i in 0..4000000000 {\n    start x[:, :] -> a[:, :], s\n    wait s\n    start a[:, :] -> y[:, :], s\n    wait s\n  }\n}",
    "module { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = \"stablehlo.add\"(%a, %a) : (tensor<4x", "#loc = loc(unknown)\nmodule {", "ENTRY ENTRY {{{{", "HloModule m\nENTRY main { ROOT x = f32[-5] parameter(0) }",
  ];
  for (const text of hostile) {
    await page.evaluate((text) => {
      const content = document.querySelector(".cm-content");
      (content.cmTile?.view ?? content.cmView.rootView.view).dispatch({ changes: { from: 0, to: (content.cmTile?.view ?? content.cmView.rootView.view).state.doc.length, insert: text } });
    }, text);
    await page.waitForTimeout(1500);
    for (const name of ["tpu", "code", "layout", "memory", "graph"]) {
      if (await page.isEnabled(`#tab-${name}`)) await view(page, name);
      await page.waitForTimeout(150);
    }
    // The page itself answers; the compiler may have ended by itself meanwhile.
    const started = Date.now();
    assert.equal(await page.evaluate(() => 6 * 7), 42);
    assert.ok(Date.now() - started < 2000, text.slice(0, 60));
    if (await page.isVisible("#stop")) await page.click("#stop", { timeout: 2000 }).catch(() => {});
    if (await page.isVisible(".placing button")) await page.click(".placing button", { timeout: 2000 }).catch(() => {});
  }
  assert.ok(await put(page, programs.softmax) < 20_000);
  await view(page, "graph");
  await page.waitForSelector(".drawing .box");
  await page.context().close();
});

test("axe finds nothing serious", async () => {
  const page = await newPage();
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const name of ["graph", "layout", "code", "memory", "tpu"]) {
      await view(page, name);
      if (name === "graph") await page.click(".box.result");
      await page.waitForTimeout(700);
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
      assert.deepEqual(serious.map(({ id, nodes }) => `${scheme} ${name} ${id}: ${nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`), []);
    }
  }
  await page.context().close();
});

test("updates are fast", async () => {
  const page = await newPage();
  const loaded = await page.evaluate(() => window.tegula.loaded);
  console.log(`  usable ${loaded.toFixed(0)} ms after the page was asked for`);
  const corpus = process.env.TEGULA_CORPUS;
  const measured = [["attention", programs.attention]];
  for (const form of ["hlo", "mlir"]) {
    const path = corpus && join(corpus, `gpt2_small_fwd.${form}`);
    if (path && existsSync(path)) measured.push([`gpt2_small_fwd.${form}`, readFileSync(path, "utf8")]);
  }
  await view(page, "graph");
  for (const [label, text] of measured) {
    const fresh = await newPage();
    await view(fresh, "graph");
    console.log(`  ${label}: ${(await put(fresh, text)).toFixed(0)} ms the first time`);
    await fresh.context().close();
    // A name in the program that nothing reads: the graph is drawn anew. Then a comment: it is not.
    const entry = text.search(/ENTRY|@main/), name = text.slice(entry).search(/(?<=ROOT %?)[\w.-]/);
    await put(page, `${text}\n// `);
    for (const [what, at] of [["in the result's name", name < 0 ? null : entry + name], ["in a comment", -1]]) {
      if (at === null) continue;
      const times = [];
      for (let turn = 0; turn < 15; turn++) times.push(await press(page, "a", at));
      times.sort((a, b) => a - b);
      console.log(`  ${[0, 7, 14].map((at) => times[at].toFixed(0)).join(" / ")} ms (least / median / most of 15) from a key ${what} of ${label} to the frame with the updated graph`);
      // The goals are 50 ms and 1 s; twice that on a busy machine.
      assert.ok(times[7] < (label === "attention" ? 100 : 2000), `${times[7]} ms`);
    }
    await page.waitForSelector(".drawing .box");
  }
  await page.context().close();
});

if (screenshots) {
  test("screenshots", async () => {
    const corpus = process.env.TEGULA_CORPUS;
    for (const [width, height, name] of [[820, 1180, "tablet"], [1366, 768, "laptop"], [1920, 1080, "wide"]]) {
      for (const colorScheme of ["light", "dark"]) {
        const page = await newPage({ viewport: { width, height }, colorScheme });
        await page.screenshot({ path: join(screenshots, `${name}-${colorScheme}-first.png`) });
        await put(page, programs.pooling);
        await page.click(".box[data-name=pooled]");
        const box = await page.locator(".details .array canvas").first().boundingBox();
        await page.mouse.click(box.x + box.width * 2.5 / 6, box.y + box.height * 2.5 / 6);
        await page.waitForSelector(".read");
        await page.screenshot({ path: join(screenshots, `${name}-${colorScheme}-graph.png`) });
        await example(page, "Nested loops");
        await nestedLoops(page);
        await page.screenshot({ path: join(screenshots, `${name}-${colorScheme}-loops.png`) });
        await put(page, programs.attention);
        for (const tab of ["layout", "code", "memory", "tpu"]) {
          await view(page, tab);
          await page.waitForTimeout(900);
          await page.screenshot({ path: join(screenshots, `${name}-${colorScheme}-${tab}.png`) });
        }
        if (corpus && colorScheme === "light") {
          await view(page, "graph");
          await put(page, readFileSync(join(corpus, "gpt2_small_fwd.hlo"), "utf8"));
          await page.waitForTimeout(500);
          await page.screenshot({ path: join(screenshots, `${name}-${colorScheme}-gpt2.png`) });
        }
        await page.context().close();
      }
    }
  });
}

const picturesAt = process.argv.indexOf("--pictures");
if (picturesAt > 0) {
  // Light, on a ground of its own: readable on dark pages, too.
  test("pictures", async () => {
    const folder = process.argv[picturesAt + 1];
    const page = await newPage({ viewport: { width: 1280, height: 760 }, colorScheme: "light" });
    await example(page, "Max pooling");
    await page.click(".box[data-name=pooled]");
    const box = await page.locator(".details .array canvas").first().boundingBox();
    await page.mouse.click(box.x + box.width * 2.5 / 6, box.y + box.height * 2.5 / 6);
    await page.waitForSelector(".read[data-value=image]");
    await page.evaluate(() => document.querySelector(".details .array").scrollIntoView());
    await page.mouse.move(2, 2);
    await page.waitForTimeout(300);
    await page.screenshot({ path: join(folder, "explorer.png") });
    await example(page, "Nested loops");
    await nestedLoops(page);
    await page.mouse.move(2, 2);
    await page.setViewportSize({ width: 1280, height: 1400 });
    await page.locator(".iterations[data-name=rows]").screenshot({ path: join(folder, "explorer-loops.png") });
    await page.context().close();
  });
}

let failed = 0;
const only = process.env.ONLY;
for (const [name, run] of tests) {
  if (only && !name.includes(only)) continue;
  complaints.length = 0;
  try {
    await run();
    assert.deepEqual(complaints, [], "the console is silent");
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED ${name}\n${error.stack}\n${complaints.join("\n")}`);
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
