// Places boxes and edges of a graph, in a worker of its own: a large graph takes seconds, in which the
// page goes on. A placing that is asked for again, or is stopped, ends with its worker.

/* global PLACER_SOURCE */

/** A placing that was given up. */
export class PlacingStopped extends Error {}

export class Placer {
  #source = URL.createObjectURL(new Blob([PLACER_SOURCE], { type: "text/javascript" }));
  #worker = null;
  #waiting = null;

  constructor() {
    // Warm before it is needed.
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
   * Places a graph: boxes have `id`, `width`, `height` and maybe `cluster`; clusters `id` and maybe
   * `parent`; edges `from` and `to`. Gives `width`, `height`, places of boxes and clusters by id
   * (their middle), and the points of each edge.
   */
  place(graph) {
    this.stop();
    if (!this.#worker) this.#start();
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#worker.postMessage(graph);
    });
  }

  /** Gives up what is being placed. */
  stop() {
    if (!this.#waiting) return;
    const { reject } = this.#waiting;
    this.#waiting = null;
    this.#worker.terminate();
    this.#worker = null;
    reject(new PlacingStopped("stopped"));
  }
}
