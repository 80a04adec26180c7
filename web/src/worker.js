// The compiler in a worker: it answers one request at a time.
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
    // A trap: out of memory, a stack overflow, or a bug. The instance may be corrupt, so it is replaced.
    self.postMessage({ id: data.id, failed: String(error) });
  }
};
