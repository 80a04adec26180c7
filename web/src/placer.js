// Lays out the boxes and edges of a graph in its own worker, because a large graph takes seconds and
// the page must stay responsive. Stopping a layout, or starting another one, terminates the worker.

/* global PLACER_SOURCE */

/** The error of a layout that was stopped. */
export class PlacingStopped extends Error {}

export class Placer {
  #source = URL.createObjectURL(new Blob([PLACER_SOURCE], { type: "text/javascript" }));
  #worker = null;
  #waiting = null;

  constructor() {
    // Start the worker before it is needed.
    this.#start();
  }

  get isBusy() { return this.#waiting !== null; }

  #start() {
    const worker = new Worker(this.#source);
    this.#worker = worker;
    worker.onmessage = ({ data }) => {
      const waiting = this.#waiting;
      this.#waiting = null;
      if (data.failed !== undefined) waiting?.reject(new Error(data.failed));
      else waiting?.resolve(data);
    };
    worker.onerror = (event) => {
      const waiting = this.#waiting;
      this.#waiting = null;
      this.#worker = null;
      worker.terminate();
      waiting?.reject(new Error(event.message));
    };
  }

  /**
   * Lays out a graph. Boxes have `id`, `width`, `height` and optionally `cluster`; clusters `id` and
   * optionally `parent`; edges `from` and `to`. Resolves to `width`, `height`, the centres of boxes and
   * clusters by id, and the points of each edge.
   */
  place(graph) {
    this.stop();
    if (!this.#worker) this.#start();
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#worker.postMessage(graph);
    });
  }

  /** Stops the current layout. */
  stop() {
    if (!this.#waiting) return;
    const { reject } = this.#waiting;
    this.#waiting = null;
    this.#worker.terminate();
    this.#worker = null;
    reject(new PlacingStopped("stopped"));
  }
}
