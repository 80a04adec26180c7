// The example programs.
import softmax from "../../examples/models/softmax.hlo";
import attention from "../../examples/models/attention.hlo";
import convolution from "../examples/conv_bn.hlo";
import pooling from "../examples/max_pool.hlo";
import matmul from "../examples/transposed_matmul.hlo";
import scan from "../examples/scan.hlo";
import nested from "../examples/nested_loops.hlo";
import openSizes from "../examples/open_sizes.hlo";
import doubleBuffer from "../examples/double_buffer.kernel";
import tooLarge from "../examples/too_large.kernel";

export const examples = [
  { name: "Softmax", text: softmax },
  { name: "Attention", text: attention },
  { name: "Convolution, batch norm, relu", text: convolution },
  { name: "Max pooling", text: pooling },
  { name: "Transposed matrix product", text: matmul },
  { name: "Recurrence (a loop)", text: scan },
  { name: "Nested loops", text: nested },
  { name: "Symbolic sizes", text: openSizes },
  { name: "TPU kernel: double buffer", text: doubleBuffer, tab: "tpu" },
  { name: "TPU kernel: exceeds VMEM", text: tooLarge, tab: "tpu" },
];
