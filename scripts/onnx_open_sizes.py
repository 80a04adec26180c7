#!/usr/bin/env python3
"""Makes small models whose sizes are open, with onnxruntime's results at sizes that are easily forgotten.

usage: onnx_open_sizes.py OUT [--only TEXT]

Writes OUT/open in the form that `onnx_suite.py --kinds open` runs. Each model runs at several sizes: 0 and 1
among them where its operators take them, and sizes that exchange places.
"""
import argparse

import numpy as np
from onnx import TensorProto, helper

from onnx_operators import model_of, rng_of, write

CASES = {}


def case(name, shapes, sizes, nodes, constants, outputs=("y",), types=None):
    """A model of nodes `(operator, inputs, outputs, attributes)` whose inputs have these shapes.

    Shapes are lists of names and numbers; `sizes` are the runs: what the names are.
    """
    CASES[name] = (shapes, sizes, nodes, constants, outputs, types or {})


def ints(*values):
    return np.array(values, np.int64)


def graph(name, nodes, inputs, outputs):
    """A body: inputs and outputs as `(name, type, shape)`, `None` where there is no shape."""
    info = [helper.make_tensor_value_info(*value) for value in inputs]
    results = [helper.make_tensor_value_info(*value) for value in outputs]
    return helper.make_graph([node(*n) for n in nodes], name, info, results)


def node(op, inputs, outputs, attributes=None):
    return helper.make_node(op, inputs.split(","), outputs.split(","), **(attributes or {}))


I64, F32, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
LENGTHS = [{"n": 5}, {"n": 1}, {"n": 2}]
EMPTY = [{"n": 3}, {"n": 0}]
SQUARES = [{"s": 5, "t": 6}, {"s": 3, "t": 4}, {"s": 1, "t": 1}]

# A size that is 1 whatever the open sizes are.
case("less_its_first", {"x": ["n", 4]}, LENGTHS, [
    ("Slice", "x,zero,one,zero", "first"), ("Sub", "x,first", "y"),
], {"zero": ints(0), "one": ints(1)})
case("by_its_last", {"x": [2, "n"]}, LENGTHS, [
    ("Slice", "x,minus,end,one", "last"), ("Div", "x,last", "y"),
], {"minus": ints(-1), "end": ints(2**62), "one": ints(1)})
case("where_its_first", {"x": ["n", 4]}, LENGTHS, [
    ("Slice", "x,zero,one,zero", "first"), ("Greater", "x,first", "more"), ("Where", "more,x,first", "y"),
], {"zero": ints(0), "one": ints(1)})

# A size that is 1 for short sounds only.
case("parts_of_a_sound", {"x": ["n"]}, [{"n": 1024}, {"n": 512}], [
    ("Shape", "x", "n_"), ("Div", "n_,hop", "whole"), ("Max", "whole,one", "some"),
    ("Add", "n_,less", "more"), ("Div", "more,hop", "all"),
    ("Slice", "x,zero,some", "a"), ("Slice", "x,zero,all", "b"), ("Mul", "a,b", "y"),
], {"hop": ints(256), "less": ints(255), "zero": ints(0), "one": ints(1)})

# Sizes that exchange places.
case("exchanged_sizes", {"x": ["s", "t"]}, SQUARES, [
    ("Shape", "x", "sizes"), ("Gather", "sizes,order", "to"), ("Reshape", "x,to", "y"),
], {"order": ints(1, 0)})
case("relative_shift", {"x": [2, "s", "t"]}, SQUARES, [
    ("Pad", "x,pads", "padded"), ("Shape", "padded", "sizes"), ("Gather", "sizes,order", "to"),
    ("Reshape", "padded,to", "turned"), ("Slice", "turned,one,end,one", "y"),
], {"pads": ints(0, 0, 1, 0, 0, 0), "order": ints(0, 2, 1), "one": ints(1), "end": ints(2**62)})

# Indices into nothing, of which there are none.
case("gather_none", {"x": ["n", 4], "i": ["m"]}, [{"n": 3, "m": 2}, {"n": 3, "m": 0}, {"n": 0, "m": 0}], [
    ("Gather", "x,i", "y", {"axis": 0}),
], {}, types={"i": np.int64})
case("gather_elements_none", {"x": ["n", 4], "i": ["m", 4]}, [{"n": 3, "m": 2}, {"n": 0, "m": 0}], [
    ("GatherElements", "x,i", "y", {"axis": 0}),
], {}, types={"i": np.int64})
case("gather_nd_none", {"x": ["n", 4], "i": ["m", 1]}, [{"n": 3, "m": 2}, {"n": 0, "m": 0}], [
    ("GatherND", "x,i", "y"),
], {}, types={"i": np.int64})
case("taken_where_positive", {"x": ["n", 4]}, EMPTY, [
    ("ReduceSum", "x,one", "sums", {"keepdims": 0}), ("Greater", "sums,zero", "is"), ("NonZero", "is", "at"),
    ("Squeeze", "at,first", "rows"), ("Gather", "x,rows", "y"),
], {"one": ints(1), "zero": np.float32(0), "first": ints(0)})

# Operators of nothing, whose results' sizes the elements decide.
case("unique_of_none", {"x": ["n"]}, EMPTY, [("Unique", "x", "y,first,back,counts")], {},
     outputs=("y", "first", "back", "counts"))
case("sums_of_none", {"x": ["n", 4]}, EMPTY, [("CumSum", "x,zero", "y")], {"zero": np.int64(0)})
case("largest_of_none", {"x": ["n"]}, EMPTY, [
    ("Shape", "x", "sizes"), ("Min", "sizes,two", "k"), ("TopK", "x,k", "y,at"),
], {"two": ints(2)}, outputs=("y", "at"))
case("boxes_of_none", {"boxes": [1, "n", 4], "scores": [1, 1, "n"]}, EMPTY, [
    ("NonMaxSuppression", "boxes,scores,most,overlap", "chosen"), ("Slice", "chosen,two,three,one", "row"),
    ("Squeeze", "row,one", "rows"), ("Squeeze", "boxes,zero", "all"), ("Gather", "all,rows", "y"),
], {"most": ints(5), "overlap": np.float32(0.5), "zero": ints(0), "one": ints(1), "two": ints(2), "three": ints(3)})

# Loops whose state grows, and loops of no times.
grow = graph("grow", [("Concat", "state,state", "next", {"axis": 0}), ("Identity", "go", "on")],
             [("i", I64, []), ("go", BOOL, []), ("state", F32, None)], [("on", BOOL, []), ("next", F32, None)])
case("state_that_grows", {"x": ["n", 2]}, LENGTHS, [
    ("Loop", "times,yes,x", "y", {"body": grow}),
], {"times": np.int64(3), "yes": np.bool_(True)})
collect = graph("collect", [("Add", "sum,sum", "next"), ("Identity", "go", "on"), ("Identity", "next", "kept")],
                [("i", I64, []), ("go", BOOL, []), ("sum", F32, [2])],
                [("on", BOOL, []), ("next", F32, [2]), ("kept", F32, [2])])
case("rows_of_a_loop", {"x": ["n", 2]}, LENGTHS + [{"n": 0}], [
    ("Shape", "x", "sizes"), ("Gather", "sizes,zero", "times"),
    ("Loop", "times,yes,start", "total,y", {"body": collect}),
], {"zero": np.int64(0), "yes": np.bool_(True), "start": np.ones(2, np.float32)}, outputs=("total", "y"))

# Padding by amounts that follow from sizes.
PADDED = [{"n": 5}, {"n": 8}, {"n": 11}]
case("padded_to_a_multiple", {"x": [1, "n", 3]}, PADDED, [
    ("Shape", "x", "sizes"), ("Gather", "sizes,one", "n_"), ("Neg", "n_", "less"), ("Mod", "less,four", "amount"),
    ("Concat", "zeros,amount,zero", "pads", {"axis": 0}), ("Pad", "x,pads", "y"),
], {"one": ints(1), "four": ints(4), "zeros": ints(0, 0, 0, 0), "zero": ints(0)})
case("padded_or_cut_to_ten", {"x": [1, "n", 3]}, PADDED, [
    ("Shape", "x", "sizes"), ("Gather", "sizes,one", "n_"), ("Sub", "ten,n_", "amount"),
    ("Concat", "zeros,amount,zero", "pads", {"axis": 0}), ("Pad", "x,pads", "y"),
], {"one": ints(1), "ten": ints(10), "zeros": ints(0, 0, 0, 0), "zero": ints(0)})
case("padded_after_strides", {"x": [1, 2, "n"]}, [{"n": 21}, {"n": 32}], [
    ("Conv", "x,w", "c", {"strides": [4]}), ("Shape", "c", "sizes"), ("Gather", "sizes,two", "n_"),
    ("Mod", "n_,four", "rest"), ("Sub", "four,rest", "lacking"), ("Mod", "lacking,four", "amount"),
    ("Concat", "zeros,amount", "pads", {"axis": 0}), ("Pad", "c,pads", "y"),
], {"w": rng_of("w").standard_normal((2, 2, 4)).astype(np.float32), "two": ints(2), "four": ints(4),
    "zeros": ints(0, 0, 0, 0, 0)})

# A signal without its dimension of parts, as PyTorch's exporter writes it.
case("spectra_of_real_rows", {"x": [2, "n"]}, [{"n": 40}, {"n": 16}], [
    ("STFT", "x,step,window", "y"),
], {"step": np.int64(8), "window": np.hanning(16).astype(np.float32)})

# Pools whose positions are rounded up: the last window may reach behind the array, but begins within it.
IMAGES = [{"s": size, "t": size + 1} for size in (3, 4, 5, 6, 8)]
POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
case("largest_rounded_up", {"x": [1, 2, "s", "t"]}, IMAGES, [("MaxPool", "x", "y", POOL)], {})
case("largest_by_steps_of_three", {"x": [1, 2, "s", "t"]}, IMAGES, [
    ("MaxPool", "x", "y", {**POOL, "kernel_shape": [2, 3], "strides": [3, 3], "pads": [0, 1, 1, 1]}),
], {})
case("mean_rounded_up", {"x": [1, 2, "s", "t"]}, IMAGES, [
    ("AveragePool", "x", "a", {**POOL, "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("AveragePool", "x", "b", {**POOL, "pads": [1, 1, 1, 1]}), ("Sub", "a,b", "y"),
], {})


def build(name):
    shapes, runs, nodes, constants, outputs, types = CASES[name]
    rng = rng_of(name)

    def array(input_name, sizes):
        shape = [sizes.get(size, size) for size in shapes[input_name]]
        if types.get(input_name) == np.int64:
            return np.zeros(shape, np.int64)
        return rng.standard_normal(shape).astype(np.float32)

    runs = [{name: array(name, sizes) for name in shapes} for sizes in runs]
    names = {
        name: {at: size for at, size in enumerate(shape) if isinstance(size, str)}
        for name, shape in shapes.items()
    }
    return model_of([node(*n) for n in nodes], runs[0], constants, outputs, names), runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    for name in CASES:
        if args.only in name:
            model, runs = build(name)
            write(args.out, "open", name, model, runs)


if __name__ == "__main__":
    main()
