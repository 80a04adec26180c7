// Builds the explorer's page: one HTML file with everything in it, and that file compressed, which
// the command line carries. Usage: node build.mjs [OUTPUT.html.gz]
//
// The page holds the digest of the sources that it was made from; a test of the command line holds
// that against the sources that are there.
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { crc32, gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? join(here, "../crates/tegula-cli/assets/explorer.html.gz");
const file = (...path) => readFileSync(join(here, ...path));

/** What the page is made of, apart from the compiler: names and contents of all sources. */
function digest() {
  let sum = 0;
  const add = (bytes) => { sum = crc32(bytes, sum); };
  for (const folder of ["web/src", "web/examples", "crates/explorer/src"]) {
    const all = readdirSync(join(here, "..", folder), { recursive: true, withFileTypes: true });
    const path = (entry) => join(entry.parentPath, entry.name);
    const names = all.filter((entry) => entry.isFile()).map((entry) => relative(join(here, "..", folder), path(entry)));
    for (const name of names.sort()) {
      add(`${folder}/${name}\0`);
      add(file("..", folder, name));
      add("\0");
    }
  }
  return sum.toString(16).padStart(8, "0");
}

const options = {
  bundle: true, minify: true, write: false, format: "iife", target: "es2022", legalComments: "none",
  loader: { ".hlo": "text", ".kernel": "text", ".css": "text", ".svg": "text" },
  logLevel: "warning",
};
const worker = await build({ ...options, entryPoints: [join(here, "src/worker.js")], logOverride: { "empty-import-meta": "silent" } });
const placer = await build({ ...options, entryPoints: [join(here, "src/placer_worker.js")], metafile: true });
// The report's script is a plain script with one function; here it is a module.
const report = {
  name: "report",
  setup(plugin) {
    plugin.onLoad({ filter: /tpu_report\/script\.js$/ }, ({ path }) => ({
      contents: `${readFileSync(path, "utf8")}\nexport { zoomPictures };`,
    }));
  },
};
const main = await build({
  ...options,
  metafile: true,
  plugins: [report],
  entryPoints: [join(here, "src/main.js")],
  define: { WORKER_SOURCE: JSON.stringify(worker.outputFiles[0].text), PLACER_SOURCE: JSON.stringify(placer.outputFiles[0].text) },
});
/** The licences of the packages that are in the script. */
function licences() {
  const inputs = [main, placer].flatMap(({ metafile }) => Object.keys(metafile.inputs));
  const names = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
  const one = (name) => {
    const folder = join(here, "node_modules", name);
    const text = readdirSync(folder).find((each) => /^licen[sc]e/i.test(each));
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${text ? readFileSync(join(folder, text), "utf8").trim() : ""}`;
  };
  return [...new Set(names.filter(Boolean))].sort().map(one).join("\n\n----\n\n");
}
const wasm = gzipSync(file("build/explorer_bg.wasm"), { level: 9 });
const parts = {
  STYLE: file("src/style.css").toString(),
  SCRIPT: main.outputFiles[0].text.replaceAll("</script", "<\\/script"),
  WASM: wasm.toString("base64"),
  DIGEST: digest(),
  LICENCES: licences().replaceAll("<", "&lt;"),
};
const page = file("src/index.html").toString().replace(/%(STYLE|SCRIPT|WASM|DIGEST|LICENCES)%/g, (_, name) => parts[name]);
writeFileSync(join(here, "build/explorer.html"), page);
writeFileSync(output, gzipSync(page, { level: 9 }));
const size = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;
console.log(`wasm ${size(file("build/explorer_bg.wasm").length)}, compressed ${size(wasm.length)}; script ${size(parts.SCRIPT.length)}; page ${size(page.length)}`);
