// Lays out a graph with dagre.
import * as dagre from "@dagrejs/dagre";

/** With more boxes than this, the faster `tight-tree` ranker is used: `network-simplex` takes many seconds. */
const LARGE = 450;

function place({ boxes, edges, clusters }) {
  const layout = new dagre.graphlib.Graph({ compound: true, multigraph: true });
  const ranker = boxes.length > LARGE ? "tight-tree" : "network-simplex";
  layout.setGraph({ rankdir: "TB", nodesep: 14, ranksep: 26, marginx: 12, marginy: 12, ranker });
  layout.setDefaultEdgeLabel(() => ({}));
  for (const { id, width, height } of boxes) layout.setNode(id, { width, height });
  for (const { id } of clusters) layout.setNode(id, {});
  for (const { id, parent } of clusters) if (parent && layout.hasNode(parent)) layout.setParent(id, parent);
  for (const { id, cluster } of boxes) if (cluster && layout.hasNode(cluster)) layout.setParent(id, cluster);
  edges.forEach(({ from, to }, number) => layout.setEdge(from, to, {}, String(number)));
  dagre.layout(layout);
  const { width = 100, height = 100 } = layout.graph();
  const places = {};
  for (const { id } of [...boxes, ...clusters]) {
    const { x, y, width: w, height: t } = layout.node(id);
    places[id] = { x, y, width: w, height: t };
  }
  const points = edges.map(({ from, to }, number) => layout.edge(from, to, String(number)).points.map(({ x, y }) => [x, y]));
  return { width, height, places, points };
}

self.onmessage = ({ data }) => {
  try {
    self.postMessage(place(data));
  } catch (error) {
    self.postMessage({ failed: String(error) });
  }
};
