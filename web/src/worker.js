// The compiler in a worker: one question at a time, each with its answer.
import { initSync, Explorer } from "../build/explorer.js";

let explorer;
self.onmessage = ({ data }) => {
  if (data.module) {
    initSync({ module: data.module });
    explorer = new Explorer();
    self.postMessage({ ready: true });
    return;
  }
  const started = performance.now();
  try {
    const answer = explorer.ask(data.request);
    self.postMessage({ id: data.id, answer, milliseconds: performance.now() - started });
  } catch (error) {
    // A trap: memory or stack was used up, or a bug. What it holds is not to be trusted any more.
    self.postMessage({ id: data.id, failed: String(error) });
  }
};
