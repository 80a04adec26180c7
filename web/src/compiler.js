// Sends requests to the compiler in its worker. A worker that takes too long or fails is replaced by
// a new one, which opens the same program.

/* global WORKER_SOURCE */

/** An error from the compiler. Its fields are those of `Problem`. */
export class ProblemError extends Error {
  constructor(problem) {
    super(problem.message);
    this.problem = problem;
  }
}

/** The error of a request that was cancelled. */
export class StoppedError extends Error {}

const broken = (message, help) => new ProblemError({ message, help, line: 0, column: 0, from: 0, to: 0 });

export class Compiler {
  #module;
  #source = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));
  #worker = null;
  #waiting = new Map();
  #next = 0;
  /** The request that opened the current program; a new worker repeats it first. */
  #opened = null;
  /** Whether the worker has an open program. */
  hasProgram = false;
  onbusy = () => {};

  /** Compiles the page's WebAssembly. */
  async load() {
    const text = document.getElementById("wasm").textContent;
    const decoded = atob(text), { length } = decoded;
    // A plain loop, because `Uint8Array.from` takes 0.2 s.
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length; at++) bytes[at] = decoded.charCodeAt(at);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const response = new Response(stream, { headers: { "content-type": "application/wasm" } });
    this.#module = await WebAssembly.compileStreaming(response);
    await this.#start();
  }

  #start() {
    const worker = new Worker(this.#source);
    this.#worker = worker;
    return new Promise((resolve) => {
      worker.onmessage = ({ data }) => {
        if (data.ready) resolve();
        else this.#answered(data);
      };
      worker.postMessage({ module: this.#module });
    });
  }

  #answered({ id, answer, failed, milliseconds }) {
    const question = this.#waiting.get(id);
    if (!question) return;
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.onbusy(false);
    if (failed !== undefined) {
      const lost = [question, ...this.#waiting.values()];
      this.#waiting.clear();
      this.onbusy(false);
      this.#restart();
      // The other views need the program, unless opening it was what failed.
      if (question.request.ask !== "open") this.reopen()?.catch(() => {});
      for (const { reject } of lost) reject(broken(`The compiler failed: ${failed}`, "Change the program to try again; the page still works."));
      return;
    }
    const { ok, error } = JSON.parse(answer);
    if (ok && question.request.ask === "open") {
      this.#opened = question.request;
      this.hasProgram = true;
    }
    if (error) question.reject(new ProblemError(error));
    else question.resolve({ value: ok, milliseconds });
  }

  /** Sends a request; resolves to the response's value and the time it took. */
  ask(request) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { request, resolve, reject });
      this.onbusy(true);
      this.#worker.postMessage({ id, request: JSON.stringify(request) });
    });
  }

  get isBusy() {
    return this.#waiting.size > 0;
  }

  /** Cancels all requests. */
  stop() {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    this.onbusy(false);
    this.#restart();
    for (const { reject } of waiting) reject(new StoppedError("stopped"));
  }

  #restart() {
    this.hasProgram = false;
    this.#worker.terminate();
    this.#start();
  }

  /** Opens the current program again, in a new worker. */
  reopen() {
    return this.#opened === null ? null : this.ask(this.#opened);
  }
}
