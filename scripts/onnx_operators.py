#!/usr/bin/env python3
"""Makes small models of the operators of `com.microsoft` and `ai.onnx.ml`, with onnxruntime's results.

usage: onnx_operators.py OUT [--only TEXT]

Writes OUT/microsoft and OUT/ml in the form that `onnx_suite.py --kinds microsoft,ml` runs: a folder for
each case with model.onnx, set_0.npz and meta.json. Inputs come from a seed. Cases of `ml` are converted
from scikit-learn, LightGBM and XGBoost if these are installed (with skl2onnx and onnxmltools).
`steps` in meta.json is by how much integers may differ: results of quantised operators are rounded, and
two right sums of floats may round to neighbours.
"""
import argparse
import json
import os
import sys
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

onnxruntime.set_default_logger_severity(4)
CASES = {}


def case(kind, name):
    """Registers a function that gives nodes, inputs, constants and the number of results."""

    def add(make):
        CASES[kind, name] = make
        return make

    return add


def rng_of(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def open_shape(name, array, names):
    """The sizes of an input with names instead of numbers, all of them or those that have one."""
    if not isinstance(names, dict):
        return [f"{name}_{at}" for at in range(array.ndim)]
    return [names[name].get(at, size) for at, size in enumerate(array.shape)]


def model_of(nodes, inputs, constants, outputs, open_inputs=()):
    info = []
    for name, array in inputs.items():
        ty = helper.np_dtype_to_tensor_dtype(array.dtype)
        shape = open_shape(name, array, open_inputs) if name in open_inputs else array.shape
        info.append(helper.make_tensor_value_info(name, ty, shape))
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    initializers = [
        value if isinstance(value, TensorProto) else numpy_helper.from_array(value, name)
        for name, value in constants.items()
    ]
    graph = helper.make_graph(nodes, "case", info, results, initializers)
    opsets = [helper.make_opsetid(d, v) for d, v in [("", 21), ("com.microsoft", 1), ("ai.onnx.ml", 3)]]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    return model


def results_of(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
    given = {info.name: inputs[info.name] for info in session.get_inputs()}
    return [info.name for info in session.get_outputs()], session.run(None, given)


def write(out, kind, name, model, inputs, steps=0, atol=1e-5, rtol=1e-3):
    """Writes a case; `inputs` are arrays by name, or a list of such, each of them a run."""
    folder = os.path.join(out, kind, name)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    meta = {"kind": kind, "name": name, "rtol": rtol, "atol": atol, "steps": steps, "sets": []}
    for number, given in enumerate(inputs if isinstance(inputs, list) else [inputs]):
        meta["outputs"], results = results_of(model, given)
        # The rows of a ZipMap as an array.
        results = [
            np.array([list(row.values()) for row in r], np.float32) if isinstance(r, list) else r
            for r in results
        ]
        arrays = {f"in_{at}": given[info.name] for at, info in enumerate(model.graph.input)}
        arrays |= {f"out_{at}": result for at, result in enumerate(results)}
        np.savez_compressed(os.path.join(folder, f"set_{number}.npz"), **arrays)

        def values(prefix):
            return [{"enc": "npy", "shape": list(a.shape)} for k, a in arrays.items() if k.startswith(prefix)]

        meta["sets"].append({"in": values("in_"), "out": values("out_")})
    with open(os.path.join(folder, "meta.json"), "w") as file:
        json.dump(meta, file)


# --- com.microsoft -------------------------------------------------------------------------------


def microsoft(name, op, make, outputs=1, steps=0, open_inputs=(), atol=1e-5, results=None, **attributes):
    """One node: `make(rng)` gives inputs and constants, in the order of the node's inputs; None skips.

    `results` is how many of the outputs are compared.
    """

    def build(out):
        inputs, constants = {}, {}
        names = []
        for key, value in make(rng_of(name)).items():
            if value is None:
                names.append("")
                continue
            names.append(key)
            is_constant = isinstance(value, TensorProto) or key.startswith("c_")
            (constants if is_constant else inputs)[key] = value
        wanted = list(range(outputs)) if isinstance(outputs, int) else list(outputs)
        shown = [f"y{at}" if at in wanted else "" for at in range(max(wanted) + 1)]
        node = helper.make_node(op, names, shown, domain="com.microsoft", **attributes)
        compared = [name for name in shown if name][:results]
        model = model_of([node], inputs, constants, compared, open_inputs)
        write(out, "microsoft", name, model, inputs, steps, atol)

    CASES["microsoft", name] = build


def f(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def u8(rng, *shape):
    return rng.integers(0, 256, shape).astype(np.uint8)


def s8(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def num(value, ty=np.float32):
    return np.array(value, ty)


def activations():
    for op in ["FastGelu", "Gelu", "QuickGelu"]:
        microsoft(op.lower(), op, lambda r: {"x": f(r, 2, 5, 8)}, open_inputs=["x"])
    microsoft("quickgelu_alpha", "QuickGelu", lambda r: {"x": f(r, 2, 8)}, alpha=1.3)
    microsoft("fastgelu_bias", "FastGelu", lambda r: {"x": f(r, 2, 8), "b": f(r, 8)}, open_inputs=["x"])
    microsoft("biasgelu", "BiasGelu", lambda r: {"x": f(r, 2, 3, 8), "b": f(r, 8)})
    norm = lambda r: {"x": f(r, 2, 3, 8), "s": f(r, 2, 3, 8), "c_g": f(r, 8), "c_b": f(r, 8)}
    microsoft("skiplayernorm", "SkipLayerNormalization", norm, [0, 3], open_inputs=["x", "s"], epsilon=1e-5)
    microsoft("skiplayernorm_bias", "SkipLayerNormalization", lambda r: norm(r) | {"c_d": f(r, 8)}, [0, 3])
    microsoft("skiplayernorm_plain", "SkipLayerNormalization", lambda r: {k: v for k, v in norm(r).items() if k != "c_b"})
    microsoft("skiplayernorm_row", "SkipLayerNormalization", lambda r: norm(r) | {"s": f(r, 3, 8)})
    half = lambda r: {k: v.astype(np.float16) for k, v in norm(r).items()}
    microsoft("skiplayernorm_half", "SkipLayerNormalization", half, atol=1e-2)
    rms = lambda r: {"x": f(r, 2, 3, 8), "s": f(r, 2, 3, 8), "c_g": f(r, 8)}
    microsoft("skipsimplified", "SkipSimplifiedLayerNormalization", rms, [0, 3], open_inputs=["x", "s"], epsilon=1e-6)
    microsoft("skipsimplified_bias", "SkipSimplifiedLayerNormalization", lambda r: rms(r) | {"c_d": f(r, 8)}, [0, 3])

    def embed(r, mask=False, segments=True, places=False):
        ids = r.integers(0, 20, (2, 5)).astype(np.int32)
        seg = r.integers(0, 2, (2, 5)).astype(np.int32) if segments else None
        given = {"ids": ids, "seg": seg, "c_w": f(r, 20, 8), "c_p": f(r, 10, 8)}
        given |= {"c_s": f(r, 2, 8) if segments else None, "c_g": f(r, 8), "c_b": f(r, 8)}
        given["mask"] = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32) if mask else None
        if places:
            given["at"] = r.integers(0, 10, (2, 5)).astype(np.int32)
        elif not mask:
            given.pop("mask")
        return given

    microsoft("embedlayernorm", "EmbedLayerNormalization", embed, 2)
    microsoft("embedlayernorm_mask", "EmbedLayerNormalization", lambda r: embed(r, True), 3)
    microsoft("embedlayernorm_places", "EmbedLayerNormalization", lambda r: embed(r, True, False, True), 3)


def products():
    mm = "FusedMatMul"
    microsoft("fusedmatmul", mm, lambda r: {"a": f(r, 2, 3, 4), "b": f(r, 2, 4, 5)}, alpha=0.5, open_inputs=["a"])
    microsoft("fusedmatmul_a", mm, lambda r: {"a": f(r, 2, 4, 3), "b": f(r, 2, 4, 5)}, transA=1)
    microsoft("fusedmatmul_b", mm, lambda r: {"a": f(r, 2, 3, 4), "b": f(r, 5, 4)}, transB=1, alpha=2.0)
    microsoft("fusedmatmul_batch", mm, lambda r: {"a": f(r, 3, 2, 4), "b": f(r, 4, 2, 5)}, transBatchA=1, transBatchB=1)
    microsoft("fusedmatmul_batch_a", mm, lambda r: {"a": f(r, 4, 2, 3), "b": f(r, 2, 4, 5)}, transBatchA=1, transA=1)
    gemm = lambda r: {"a": f(r, 3, 4), "b": f(r, 5, 4), "c": f(r, 5)}
    microsoft("fusedgemm", "FusedGemm", gemm, transB=1, alpha=0.5, beta=2.0, activation="Relu")
    microsoft("fusedgemm_leaky", "FusedGemm", gemm, transB=1, activation="LeakyRelu", activation_alpha=0.1)
    conv = lambda r: {"x": f(r, 1, 3, 6, 6), "w": f(r, 4, 3, 3, 3), "b": f(r, 4)}
    microsoft("fusedconv", "FusedConv", conv, pads=[1, 1, 1, 1], activation="Relu")
    microsoft("fusedconv_sum", "FusedConv", lambda r: conv(r) | {"z": f(r, 1, 4, 6, 6)}, pads=[1, 1, 1, 1], activation="Relu")
    microsoft("fusedconv_clip", "FusedConv", conv, strides=[2, 2], activation="Clip", activation_params=[0.0, 1.0])
    microsoft("fusedconv_hard", "FusedConv", conv, activation="HardSigmoid", activation_params=[0.2, 0.5])
    microsoft("nhwcmaxpool", "NhwcMaxPool", lambda r: {"x": u8(r, 1, 6, 6, 3)}, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    microsoft("inverse", "Inverse", lambda r: {"x": f(r, 2, 5, 5) + 3 * np.eye(5, dtype=np.float32)})
    microsoft("trilu", "Trilu", lambda r: {"x": f(r, 2, 4, 5), "c_k": num(1, np.int64)}, upper=0)
    microsoft("expanddims", "ExpandDims", lambda r: {"x": f(r, 2, 3), "c_a": num(-1, np.int32)})
    microsoft("gathernd", "GatherND", lambda r: {"x": f(r, 2, 3, 4), "i": np.array([[0, 1], [1, 2]], np.int64)})
    microsoft("range", "Range", lambda r: {"c_a": num(1), "c_b": num(9), "c_c": num(2)})
    microsoft("pad", "Pad", lambda r: {"x": f(r, 2, 3), "c_p": np.array([1, 0, 0, 2], np.int64), "c_v": num([3.0])})
    microsoft("cdist", "CDist", lambda r: {"a": f(r, 4, 3), "b": f(r, 5, 3)}, metric="sqeuclidean")
    microsoft("cdist_root", "CDist", lambda r: {"a": f(r, 4, 3), "b": f(r, 5, 3)}, metric="euclidean")
    s16 = lambda r, *s: r.integers(-100, 100, s).astype(np.int16)
    microsoft("matmulinteger16", "MatMulInteger16", lambda r: {"a": s16(r, 3, 4), "b": s16(r, 4, 5)})


def attention():
    def plain(r, mask=None, past=0, bias=None, v=0):
        given = {"x": f(r, 2, 5, 12), "c_w": f(r, 12, 24 + 12 + v), "c_b": f(r, 36 + v), "mask": mask}
        given["past"] = f(r, 2, 2, 3, past, 4) if past else None
        given["bias"] = bias
        while list(given.values())[-1] is None:
            given.popitem()
        return given

    ends = np.array([3, 5], np.int32)
    raw = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    a = "Attention"
    microsoft("attention", a, plain, num_heads=3, open_inputs=["x"])
    microsoft("attention_ends", a, lambda r: plain(r, ends), num_heads=3)
    microsoft("attention_starts", a, lambda r: plain(r, np.array([5, 4, 1, 0], np.int32)), num_heads=3)
    microsoft("attention_raw", a, lambda r: plain(r, raw), num_heads=3)
    microsoft("attention_square", a, lambda r: plain(r, r.integers(0, 2, (2, 5, 5)).astype(np.int32)), num_heads=3)
    microsoft("attention_causal", a, plain, num_heads=3, unidirectional=1, scale=0.3)
    microsoft("attention_past", a, lambda r: plain(r, None, 4), 2, num_heads=3, unidirectional=1)
    microsoft("attention_bias", a, lambda r: plain(r, None, 0, f(r, 1, 3, 5, 5)), num_heads=3)
    microsoft("attention_sizes", a, lambda r: plain(r, v=-6), num_heads=3, qkv_hidden_sizes=[12, 12, 6])

    def quantized(r, mask=None, past=0):
        given = {"x": u8(r, 2, 5, 8), "c_w": u8(r, 8, 24), "c_b": f(r, 24), "c_xs": num(0.01), "c_ws": num(0.02)}
        given |= {"mask": mask, "c_xz": num(120, np.uint8), "c_wz": num(128, np.uint8)}
        if past:
            given["past"] = f(r, 2, 2, 2, past, 4)
        return given

    microsoft("qattention", "QAttention", quantized, num_heads=2)
    microsoft("qattention_mask", "QAttention", lambda r: quantized(r, ends), num_heads=2)
    microsoft("qattention_past", "QAttention", lambda r: quantized(r, None, 3), 2, num_heads=2, unidirectional=1)

    def multi(r, **more):
        given = {"q": f(r, 2, 5, 12), "k": f(r, 2, 7, 12), "v": f(r, 2, 7, 9)}
        return given | more

    m = "MultiHeadAttention"
    microsoft("multihead", m, multi, num_heads=3, open_inputs=["q", "k", "v"])
    microsoft("multihead_bias", m, lambda r: multi(r, c_b=f(r, 33)), num_heads=3)
    wide = np.array([[1] * 4 + [0] * 3, [1] * 7], np.int32)
    microsoft("multihead_mask", m, lambda r: multi(r, b=None, mask=wide), num_heads=3)
    microsoft("multihead_ends", m, lambda r: multi(r, b=None, mask=np.array([4, 7], np.int32)), num_heads=3)
    microsoft("multihead_added", m, lambda r: multi(r, b=None, mask=None, add=f(r, 2, 3, 5, 7)), num_heads=3)
    past = lambda r: {"q": f(r, 2, 1, 12), "k": f(r, 2, 1, 12), "v": f(r, 2, 1, 12), "b": None, "m": None, "a": None, "pk": f(r, 2, 3, 4, 4), "pv": f(r, 2, 3, 4, 4)}
    microsoft("multihead_past", m, past, 3, num_heads=3, open_inputs=["pk", "pv"])
    microsoft("multihead_causal", m, lambda r: {"q": f(r, 1, 5, 12), "k": f(r, 1, 5, 12), "v": f(r, 1, 5, 12)}, num_heads=3, unidirectional=1)
    cross = lambda r: {"q": f(r, 2, 2, 12), "k": f(r, 2, 3, 6, 4), "v": f(r, 2, 3, 6, 4)}
    microsoft("multihead_cross", m, cross, num_heads=3)

    def caches(r, n=16, half=4):
        angle = np.arange(n)[:, None] * (10000.0 ** (-np.arange(half) / half))[None]
        return {"c_cos": np.cos(angle).astype(np.float32), "c_sin": np.sin(angle).astype(np.float32)}

    t = "RotaryEmbedding"
    at = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]], np.int64)
    microsoft("rotary", t, lambda r: {"x": f(r, 2, 5, 24), "at": at} | caches(r), open_inputs=["x", "at"])
    microsoft("rotary_interleaved", t, lambda r: {"x": f(r, 2, 5, 24), "at": at} | caches(r), interleaved=1)
    microsoft("rotary_offset", t, lambda r: {"x": f(r, 2, 5, 24), "at": np.array([2], np.int64)} | caches(r))
    microsoft("rotary_heads", t, lambda r: {"x": f(r, 2, 3, 5, 8), "at": at} | caches(r))
    microsoft("rotary_part", t, lambda r: {"x": f(r, 2, 5, 24), "at": at} | caches(r, half=2), num_heads=3, rotary_embedding_dim=4)

    def group(r, new=5, past=0, lengths=(5, 5), rotary=True, total=None, packed=False, room=None, n=2, **more):
        total = total if total is not None else new + past
        given = {"q": f(r, n, new, 64), "k": f(r, n, new, 32), "v": f(r, n, new, 32)}
        if packed:
            given = {"q": f(r, n, new, 128), "k": None, "v": None}
        room = room if room is not None else past
        given |= {"pk": f(r, n, 2, room, 16), "pv": f(r, n, 2, room, 16)}
        given |= {"c_n": np.array(lengths, np.int32) - 1, "c_t": num(total, np.int32)}
        given |= caches(r, half=8) if rotary else {"cc": None, "cs": None}
        return given | more

    g = "GroupQueryAttention"
    heads = {"num_heads": 4, "kv_num_heads": 2}
    rot = heads | {"do_rotary": 1}
    new = {0: "batch", 1: "new"}
    cache = {"q": new, "k": new, "v": new, "pk": {0: "batch", 2: "past"}, "pv": {0: "batch", 2: "past"}}
    microsoft("groupquery_first", g, group, 3, **rot)
    microsoft("groupquery_plain", g, lambda r: group(r, rotary=False), 3, scale=0.3, **heads)
    microsoft("groupquery_next", g, lambda r: group(r, 1, 6, (7, 7)), 3, open_inputs=cache, **rot)
    microsoft("groupquery_several", g, lambda r: group(r, 3, 6, (9,), n=1), 3, **rot)
    microsoft("groupquery_ragged", g, lambda r: group(r, 1, 6, (7, 4)), 3, results=1, **rot)
    microsoft("groupquery_packed", g, lambda r: group(r, packed=True), 3, rotary_interleaved=1, **rot)
    microsoft("groupquery_softcap", g, group, softcap=2.0, **rot)
    microsoft("groupquery_window", g, lambda r: group(r, 1, 6, (7, 7)), 3, local_window_size=3, **rot)
    microsoft("groupquery_window_first", g, group, local_window_size=2, **rot)
    microsoft("groupquery_smooth", g, group, smooth_softmax=1, **rot)
    microsoft("groupquery_sink", g, lambda r: group(r, at=None, b=None, c_s=f(r, 4)), **rot)
    microsoft("groupquery_bias", g, lambda r: group(r, at=None, b=f(r, 2, 4, 5, 5)), **rot)
    microsoft("groupquery_half", g, lambda r: {k: v.astype(np.float16) if v is not None and v.dtype == np.float32 else v for k, v in group(r).items()}, 3, atol=2e-3, **rot)


def quantized():
    scales = lambda r, n: num(r.uniform(0.005, 0.05))
    for ty, make, zero in [("u8", u8, 120), ("s8", s8, 5)]:
        dtype = np.uint8 if ty == "u8" else np.int8
        z = lambda v=zero, d=dtype: num(v, d)

        def two(r, make=make, z=z, shape=(2, 3, 4), own=(3, 1)):
            given = {"a": make(r, *shape), "c_as": num(0.02), "c_az": z(), "b": make(r, *own), "c_bs": num(0.03)}
            return given | {"c_bz": z(), "c_ys": num(0.05), "c_yz": z()}

        for op in ["QLinearAdd", "QLinearMul"]:
            microsoft(f"{op.lower()}_{ty}", op, two, steps=1, open_inputs=["a"])
        unary = lambda r, make=make, z=z, shape=(2, 3, 4): {"x": make(r, *shape), "c_xs": num(0.05), "c_xz": z(), "c_ys": num(0.01), "c_yz": z()}
        microsoft(f"qlinearsigmoid_{ty}", "QLinearSigmoid", unary, steps=1)
        microsoft(f"qlinearleakyrelu_{ty}", "QLinearLeakyRelu", unary, steps=1, alpha=0.2)
        soft = lambda r, make=make, z=z: {"x": make(r, 3, 7), "c_xs": num(0.05), "c_xz": z(), "c_ys": num(1 / 256), "c_yz": z(0 if z().dtype == np.uint8 else -128)}
        microsoft(f"qlinearsoftmax_{ty}", "QLinearSoftmax", soft, steps=1, axis=-1, opset=13)
        image = lambda r, u=unary: u(r, shape=(1, 3, 6, 6))
        microsoft(f"qlinearglobalaveragepool_{ty}", "QLinearGlobalAveragePool", image, steps=1)
        microsoft(f"qlinearglobalaveragepool_last_{ty}", "QLinearGlobalAveragePool", image, steps=1, channels_last=1)
        microsoft(f"qlinearaveragepool_{ty}", "QLinearAveragePool", image, steps=1, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        parts = lambda r, make=make, z=z: {"c_ys": num(0.05), "c_yz": z(), "a": make(r, 2, 3), "c_as": num(0.02), "c_az": z(), "b": make(r, 2, 2), "c_bs": num(0.05), "c_bz": z()}
        microsoft(f"qlinearconcat_{ty}", "QLinearConcat", parts, steps=1, axis=1)
        pick = lambda r, make=make, z=z: {"c": r.integers(0, 2, (3, 4)).astype(bool), "a": make(r, 3, 4), "c_as": num(0.02), "c_az": z(), "b": make(r, 4), "c_bs": num(0.05), "c_bz": z(), "c_ys": num(0.03), "c_yz": z()}
        microsoft(f"qlinearwhere_{ty}", "QLinearWhere", pick, steps=1)
        gemm = lambda r, make=make, z=z: {"a": make(r, 3, 8), "c_as": num(0.02), "c_az": z(), "c_b": s8(r, 8, 5), "c_bs": num([0.01, 0.02, 0.03, 0.01, 0.02]), "c_bz": np.zeros(5, np.int8)}
        c = lambda r: r.integers(-200, 200, 5).astype(np.int32)
        microsoft(f"qgemm_{ty}", "QGemm", lambda r, g=gemm, z=z: g(r) | {"c_c": c(r), "c_ys": num(0.1), "c_yz": z()}, steps=1)
        microsoft(f"qgemm_float_{ty}", "QGemm", lambda r, g=gemm: g(r) | {"c_c": c(r)})
    mean = lambda r: {"x": u8(r, 2, 3, 4), "c_xs": num(0.05), "c_xz": num(3, np.uint8), "c_ys": num(0.02), "c_yz": num(9, np.uint8)}
    microsoft("qlinearconv_last", "QLinearConv", lambda r: {"x": u8(r, 1, 6, 6, 3), "c_xs": num(0.02), "c_xz": num(100, np.uint8), "c_w": s8(r, 4, 3, 3, 3), "c_ws": num(0.01), "c_wz": num(0, np.int8), "c_ys": num(0.5), "c_yz": num(128, np.uint8), "c_b": r.integers(-500, 500, 4).astype(np.int32)}, steps=1, channels_last=1, pads=[1, 1, 1, 1])
    dyn = lambda r: {"a": f(r, 2, 3, 8), "c_b": s8(r, 8, 5), "c_bs": num(0.02), "c_bz": num(3, np.int8), "c_c": f(r, 5)}
    microsoft("dynamicquantizematmul", "DynamicQuantizeMatMul", dyn, open_inputs=["a"])
    columns = lambda r: {"a": f(r, 3, 8), "c_b": u8(r, 8, 5), "c_bs": r.uniform(0.01, 0.03, 5).astype(np.float32), "c_bz": u8(r, 5)}
    microsoft("dynamicquantizematmul_columns", "DynamicQuantizeMatMul", columns)
    to_float = lambda r: {"a": u8(r, 3, 8), "c_b": s8(r, 8, 5), "c_as": num(0.02), "c_bs": num([0.01, 0.02, 0.03, 0.01, 0.02]), "c_az": num(120, np.uint8), "c_bz": np.zeros(5, np.int8), "c_c": f(r, 5)}
    microsoft("matmulintegertofloat", "MatMulIntegerToFloat", to_float, open_inputs=["a"])
    lstm = lambda r, n=1: {"x": f(r, 4, 2, 6), "c_w": s8(r, n, 6, 12), "c_r": s8(r, n, 3, 12), "c_b": f(r, n, 24), "l": None, "h": f(r, n, 2, 3), "c": f(r, n, 2, 3), "p": None, "c_ws": num([0.01] * n), "c_wz": np.zeros(n, np.int8), "c_rs": num([0.008] * n), "c_rz": np.zeros(n, np.int8)}
    microsoft("dynamicquantizelstm", "DynamicQuantizeLSTM", lstm, 3, hidden_size=3)
    microsoft("dynamicquantizelstm_both", "DynamicQuantizeLSTM", lambda r: lstm(r, 2), 3, hidden_size=3, direction="bidirectional")


def blocks():
    def weights(r, bits, n=6, k=40, block=16, zero=None):
        count = -(-k // block)
        given = {"a": f(r, 2, 3, k), "c_b": u8(r, n, count, block * bits // 8), "c_s": r.uniform(0.01, 0.1, (n, count)).astype(np.float32)}
        if zero == "packed":
            given["c_z"] = u8(r, n, -(-count * bits // 8))
        elif zero == "float":
            given["c_z"] = r.uniform(0, 2**bits, (n, count)).astype(np.float32)
        return given

    sizes = {"N": 6, "K": 40, "block_size": 16}
    m = "MatMulNBits"
    for bits in [2, 4, 8]:
        microsoft(f"matmulnbits_{bits}", m, lambda r, b=bits: weights(r, b), bits=bits, atol=1e-3, **sizes)
        microsoft(f"matmulnbits_{bits}_zero", m, lambda r, b=bits: weights(r, b, zero="packed"), bits=bits, atol=1e-3, open_inputs=["a"], **sizes)
    microsoft("matmulnbits_float_zero", m, lambda r: weights(r, 4, zero="float"), bits=4, atol=1e-3, **sizes)
    microsoft("matmulnbits_bias", m, lambda r: weights(r, 4, zero="packed") | {"g": None, "c_c": f(r, 6)}, bits=4, atol=1e-3, **sizes)
    bnb = lambda r: {"a": f(r, 2, 32), "c_b": u8(r, 5 * 32 // 2), "c_s": r.uniform(0.1, 1, 10).astype(np.float32)}
    microsoft("matmulbnb4_normal", "MatMulBnb4", bnb, K=32, N=5, block_size=16, quant_type=1)
    microsoft("matmulbnb4_float", "MatMulBnb4", bnb, K=32, N=5, block_size=16, quant_type=0)
    rows = np.array([[0, 3], [2, 2]], np.int64)

    def gather(r, ty, zero=False):
        data = helper.make_tensor("c_d", ty, [4, 32], r.integers(0, 7, 4 * 32).tolist())
        given = {"c_d": data, "i": rows, "c_s": r.uniform(0.1, 1, (4, 2)).astype(np.float32)}
        if zero:
            given["c_z"] = helper.make_tensor("c_z", ty, [4, 2], r.integers(0, 7, 8).tolist())
        return given

    g = "GatherBlockQuantized"
    microsoft("gatherblocks_u4", g, lambda r: gather(r, TensorProto.UINT4, True), block_size=16, open_inputs=["i"])
    microsoft("gatherblocks_s4", g, lambda r: gather(r, TensorProto.INT4), block_size=16)
    byte = lambda r: {"c_d": u8(r, 4, 16), "i": rows, "c_s": r.uniform(0.1, 1, (4, 2)).astype(np.float32)}
    microsoft("gatherblocks_bytes", g, byte, block_size=16, bits=4)
    microsoft("gatherblocks_bytes_zero", g, lambda r: byte(r) | {"c_z": u8(r, 4, 1)}, block_size=16, bits=4)


def between(name, op, x, w, bias=None, x_zero=0, w_scale=0.01, axis=None, relu=False, transposed=False, **attributes):
    """A float operator between `DequantizeLinear` of its operands and `QuantizeLinear` of its result."""

    def build(out):
        r = rng_of(name)
        given = {"x": x(r)}
        weights = w(r)
        scales = np.array(w_scale, np.float32)
        constants = {"xs": num(0.02), "xz": np.array(x_zero, given["x"].dtype), "w": weights, "ws": scales}
        constants |= {"wz": np.zeros(scales.shape, weights.dtype), "ys": num(0.4), "yz": num(120, np.uint8)}
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], **({} if axis is None else {"axis": axis})),
        ]
        operands = ["xf", "wf"]
        if transposed:
            nodes.append(helper.make_node("Transpose", ["wf"], ["wt"], perm=[1, 0]))
            operands[1] = "wt"
        if bias:
            constants |= {"b": bias(r), "bs": (scales * 0.02).astype(np.float32), "bz": np.zeros(scales.shape, np.int32)}
            nodes.append(helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["bf"], **({} if axis is None else {"axis": 0})))
            operands.append("bf")
        nodes.append(helper.make_node(op, operands, ["f"], **attributes))
        if relu:
            nodes.append(helper.make_node("Relu", ["f"], ["r"]))
        nodes.append(helper.make_node("QuantizeLinear", ["r" if relu else "f", "ys", "yz"], ["y"]))
        model = model_of(nodes, given, constants, ["y"], ["x"] if op == "MatMul" else {"x": {0: "batch"}})
        write(out, "microsoft", name, model, given, steps=1)

    CASES["microsoft", name] = build


def quantized_patterns():
    bias = lambda n: lambda r: r.integers(-2000, 2000, n).astype(np.int32)
    columns = [0.01, 0.02, 0.03, 0.01, 0.02]
    image = lambda r: u8(r, 2, 6, 9, 9)
    between("qdq_conv", "Conv", image, lambda r: s8(r, 5, 6, 3, 3), bias(5), 128, pads=[1, 1, 1, 1])
    between("qdq_conv_relu", "Conv", image, lambda r: s8(r, 5, 6, 3, 3), bias(5), 3, relu=True, strides=[2, 2])
    between("qdq_conv_channels", "Conv", image, lambda r: s8(r, 5, 6, 3, 3), bias(5), 77, columns, 0, pads=[2, 0, 1, 1], dilations=[2, 1])
    between("qdq_conv_signed", "Conv", lambda r: s8(r, 2, 6, 9, 9), lambda r: s8(r, 5, 6, 3, 3), None, -3, pads=[1, 1, 1, 1])
    between("qdq_conv_bytes", "Conv", image, lambda r: u8(r, 5, 6, 3, 3), None, 10)
    between("qdq_conv_same", "Conv", image, lambda r: s8(r, 5, 6, 3, 3), bias(5), 50, auto_pad="SAME_UPPER", strides=[2, 2])
    between("qdq_conv_depthwise", "Conv", image, lambda r: s8(r, 6, 1, 3, 3), bias(6), 128, pads=[1, 1, 1, 1], group=6)
    between("qdq_conv_line", "Conv", lambda r: u8(r, 2, 6, 20), lambda r: s8(r, 5, 6, 5), bias(5), 128, pads=[2, 2])
    between("qdq_matmul", "MatMul", lambda r: u8(r, 2, 3, 8), lambda r: s8(r, 8, 5), None, 128)
    between("qdq_matmul_columns", "MatMul", lambda r: u8(r, 2, 3, 8), lambda r: s8(r, 8, 5), None, 99, columns, 1)
    between("qdq_matmul_batch", "MatMul", lambda r: s8(r, 2, 3, 8), lambda r: s8(r, 2, 8, 5), None, 4)
    between("qdq_matmul_transposed", "MatMul", lambda r: u8(r, 2, 3, 8), lambda r: s8(r, 5, 8), None, 128, columns, 0, transposed=True)
    between("qdq_gemm", "Gemm", lambda r: u8(r, 3, 8), lambda r: s8(r, 5, 8), bias(5), 128, columns, 0, transB=1)
    between("qdq_gemm_plain", "Gemm", lambda r: u8(r, 3, 8), lambda r: s8(r, 8, 5), bias(5), 11)


def sizes():
    """Graphs whose sizes are one, written as two terms: an end that some exporters use for "all" is no constant
    that any size is known to be below."""

    def build(out):
        r = rng_of("two_terms")
        x = f(r, 3, 8)
        ints = {"s": [0], "e": [999999999], "a": [0], "one": [1]}
        constants = {k: np.array(v, np.int64) for k, v in ints.items()}
        constants |= {"t": f(r, 8, 6), "u": f(r, 6, 6), "v": f(r, 6, 5)}
        node = helper.make_node
        nodes = [
            node("MatMul", ["x", "t"], ["w0"]),
            node("Slice", ["w0", "s", "e", "a"], ["w"]),
            node("MatMul", ["w", "u"], ["w1"]),
            node("ReduceSum", ["w1", "one"], ["m"], keepdims=0),
            node("Shape", ["x"], ["sh"]),
            node("Slice", ["sh", "s", "one"], ["n"]),
            node("Concat", ["n", "one"], ["n1"], axis=0),
            node("Reshape", ["m", "n1"], ["mb"]),
            node("Mul", ["w1", "w1"], ["sq"]),
            node("ReduceSum", ["sq", "one"], ["ms"], keepdims=0),
            node("Mul", ["m", "m"], ["m2"]),
            node("Sub", ["ms", "m2"], ["va"]),
            node("Abs", ["va"], ["va2"]),
            node("Sqrt", ["va2"], ["sd"]),
            node("Reshape", ["sd", "n1"], ["sdb"]),
            node("Sub", ["w1", "mb"], ["c"]),
            node("Div", ["c", "sdb"], ["d"]),
            node("MatMul", ["d", "v"], ["z"]),
        ]
        model = model_of(nodes, {"x": x}, constants, ["z"], {"x": {0: "rows"}})
        write(out, "microsoft", "two_terms_for_a_size", model, {"x": x})

    CASES["microsoft", "two_terms_for_a_size"] = build


# --- ai.onnx.ml ----------------------------------------------------------------------------------


def learned(name, make, atol=1e-4):
    """A model of a library: `make` gives the converted model and its features."""

    def build(out):
        model, x = make()
        model.graph.ClearField("doc_string")
        inputs = {model.graph.input[0].name: x}
        write(out, "ml", name, model, inputs, atol=atol)

    CASES["ml", name] = build


def single(name, op, inputs, outputs=1, version=3, **attributes):
    def build(out):
        names = [f"y{at}" for at in range(outputs)]
        node = helper.make_node(op, list(inputs), names, domain="ai.onnx.ml", **attributes)
        constants = {k: v for k, v in inputs.items() if k.startswith("c_")}
        given = {k: v for k, v in inputs.items() if not k.startswith("c_")}
        model = model_of([node], given, constants, names)
        write(out, "ml", name, model, given)

    CASES["ml", name] = build


def features():
    r = np.random.default_rng(7)
    x = f(r, 5, 4)
    ints = r.integers(0, 6, (5, 1)).astype(np.int64)
    single("scaler", "Scaler", {"x": x}, offset=[1.0, 2, 3, 4], scale=[0.5, 1, 2, 3])
    single("scaler_one", "Scaler", {"x": x}, offset=[1.0], scale=[0.5])
    for norm in ["MAX", "L1", "L2"]:
        zeros = x.copy()
        zeros[2] = 0
        single(f"normalizer_{norm.lower()}", "Normalizer", {"x": zeros}, norm=norm)
    single("binarizer", "Binarizer", {"x": x}, threshold=0.2)
    nan = x.copy()
    nan[0, 1] = np.nan
    single("imputer", "Imputer", {"x": nan}, imputed_value_floats=[9.0, 8, 7, 6], replaced_value_float=float("nan"))
    single("imputer_ints", "Imputer", {"x": ints}, imputed_value_int64s=[9], replaced_value_int64=3)
    single("onehot", "OneHotEncoder", {"x": ints}, cats_int64s=[0, 2, 4], zeros=1)
    single("onehot_float", "OneHotEncoder", {"x": ints.astype(np.float32)}, cats_int64s=[0, 1, 2, 3, 4, 5], zeros=1)
    single("labels", "LabelEncoder", {"x": ints}, keys_int64s=[1, 2, 3], values_floats=[0.5, 1.5, 2.5], default_float=-3.0)
    single("labels_ints", "LabelEncoder", {"x": ints}, keys_int64s=[5, 1], values_int64s=[50, 10])
    single("labels_floats", "LabelEncoder", {"x": nan}, keys_floats=[float(x[1, 1]), float("nan")], values_floats=[3.0, 4.0])
    single("extract", "ArrayFeatureExtractor", {"x": x, "c_i": np.array([2, 0], np.int64)})
    single("vectorize", "FeatureVectorizer", {"x": x, "z": x[:, :2]}, inputdimensions=[4, 2])
    tree = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2, 3, 4],
        "nodes_featureids": [0, 0, 0, 1, 2, 0, 0, 0],
        "nodes_values": [0.1, 0.0, 0.0, -0.2, 0.3, 0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF", "BRANCH_GT", "BRANCH_GTE", "LEAF", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0, 1, 3, 0, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 2, 4, 0, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 1, 0, 0, 0],
    }
    leaves = {"treeids": [0, 0, 1, 1, 1], "nodeids": [1, 2, 2, 3, 4], "ids": [0, 0, 0, 0, 0], "weights": [1.0, -2, 0.5, 3, -1]}
    for how in ["SUM", "AVERAGE", "MIN", "MAX"]:
        own = {f"target_{k}": v for k, v in leaves.items()}
        single(f"trees_{how.lower()}", "TreeEnsembleRegressor", {"x": nan}, n_targets=1, aggregate_function=how, base_values=[0.25], **tree, **own)
    for after in ["NONE", "LOGISTIC", "SOFTMAX"]:
        own = {f"class_{k}": v for k, v in leaves.items()}
        single(f"trees_binary_{after.lower()}", "TreeEnsembleClassifier", {"x": x}, 2, classlabels_int64s=[3, 7], post_transform=after, **tree, **own)
        own = {f"class_{k}": v for k, v in (leaves | {"ids": [0, 1, 2, 1, 0]}).items()}
        single(f"trees_classes_{after.lower()}", "TreeEnsembleClassifier", {"x": x}, 2, classlabels_int64s=[3, 7, 1], post_transform=after, **tree, **own)
    own = {f"class_{k}": v for k, v in (leaves | {"weights": [0.1, 0.4, 0.3, 0.2, 0.5]}).items()}
    single("trees_binary_share", "TreeEnsembleClassifier", {"x": x}, 2, classlabels_int64s=[0, 1], **tree, **own)


def libraries():
    try:
        import lightgbm
        import onnxmltools
        import skl2onnx
        import xgboost
        from onnxmltools.convert.common.data_types import FloatTensorType as Floats
        from skl2onnx import to_onnx
        from sklearn import ensemble, linear_model, naive_bayes, neighbors, neural_network, pipeline
        from sklearn import preprocessing, svm, tree, cluster, decomposition, feature_selection
        from sklearn.datasets import make_classification, make_regression
    except ImportError as error:
        print(f"without cases of libraries: {error}", file=sys.stderr)
        return
    x, y3 = make_classification(120, 6, n_informative=4, n_classes=3, random_state=1)
    x = x.astype(np.float32)
    y2 = (y3 > 0).astype(int)
    target = make_regression(120, 6, random_state=1)[1].astype(np.float32) / 100
    some = x[:7]

    def sk(name, estimator, y=None, options=None, atol=1e-4):
        def make():
            fitted = estimator.fit(x, y) if y is not None else estimator.fit(x)
            model = to_onnx(fitted, x[:1], target_opset={"": 18, "ai.onnx.ml": 3}, options=options)
            return model, some

        learned(name, make, atol)

    plain = lambda e: {id(e): {"zipmap": False}}
    for name, make in {
        "logistic": lambda: linear_model.LogisticRegression(),
        "forest": lambda: ensemble.RandomForestClassifier(6, max_depth=4, random_state=0),
        "boosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0),
        "tree": lambda: tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        "extra": lambda: ensemble.ExtraTreesClassifier(5, max_depth=4, random_state=0),
        "perceptron": lambda: neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=60, random_state=0),
        "bayes": lambda: naive_bayes.GaussianNB(),
        "svc": lambda: svm.SVC(),
        "svc_poly": lambda: svm.SVC(kernel="poly", degree=2),
        "svc_sigmoid": lambda: svm.SVC(kernel="sigmoid"),
        "nearest": lambda: neighbors.KNeighborsClassifier(3),
        "ada": lambda: ensemble.AdaBoostClassifier(n_estimators=4, random_state=0),
        "bagging": lambda: ensemble.BaggingClassifier(n_estimators=3, random_state=0),
        "discriminant": lambda: linear_model.SGDClassifier(loss="log_loss", random_state=0),
    }.items():
        for number, labels in [(2, y2), (3, y3)]:
            estimator = make()
            sk(f"{name}_{number}", estimator, labels, plain(estimator))
    estimator = linear_model.LogisticRegression()
    sk("logistic_zipmap", estimator, y3)
    for name, estimator in {
        "linear": linear_model.LinearRegression(),
        "ridge": linear_model.Ridge(),
        "forest_regressor": ensemble.RandomForestRegressor(5, max_depth=4, random_state=0),
        "boosting_regressor": ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0),
        "svr": svm.SVR(),
        "svr_linear": svm.SVR(kernel="linear"),
        "perceptron_regressor": neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=60, random_state=0),
    }.items():
        sk(name, estimator, target)
    scaled = pipeline.make_pipeline(preprocessing.StandardScaler(), preprocessing.Normalizer(), linear_model.Ridge())
    sk("pipeline", scaled, target)
    for name, estimator in {
        "standard_scaler": preprocessing.StandardScaler(),
        "range_scaler": preprocessing.MinMaxScaler(),
        "robust_scaler": preprocessing.RobustScaler(),
        "components": decomposition.PCA(3),
        "means": cluster.KMeans(3, n_init=1, random_state=0),
        "bins": preprocessing.KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
        "powers": preprocessing.PolynomialFeatures(2),
    }.items():
        sk(name, estimator, None, atol=1e-3)
    sk("isolation", ensemble.IsolationForest(n_estimators=5, random_state=0))
    sk("svc_linear_2", svm.LinearSVC(), y2)
    sk("svc_linear_3", svm.LinearSVC(), y3)
    sk("one_class", svm.OneClassSVM(nu=0.3))
    probable = svm.SVC(probability=True, random_state=0)
    sk("svc_probability_3", probable, y3, plain(probable), atol=1e-3)
    probable = svm.SVC(probability=True, random_state=0)
    sk("svc_probability_2", probable, y2, plain(probable), atol=1e-3)

    def light(kind, labels, **more):
        def make():
            fitted = kind(n_estimators=6, num_leaves=7, verbose=-1, min_child_samples=5, **more).fit(x, labels)
            types = [("x", Floats([None, 6]))]
            return onnxmltools.convert_lightgbm(fitted, initial_types=types, zipmap=False, target_opset=15) if "Class" in kind.__name__ else onnxmltools.convert_lightgbm(fitted, initial_types=types, target_opset=15), some

        return make

    learned("lightgbm_2", light(lightgbm.LGBMClassifier, y2))
    learned("lightgbm_3", light(lightgbm.LGBMClassifier, y3))
    learned("lightgbm_regressor", light(lightgbm.LGBMRegressor, target))

    def boosted(kind, labels):
        def make():
            fitted = kind(n_estimators=5, max_depth=3).fit(x, labels)
            return onnxmltools.convert_xgboost(fitted, initial_types=[("x", Floats([None, 6]))], target_opset=15), some

        return make

    learned("xgboost_2", boosted(xgboost.XGBClassifier, y2))
    learned("xgboost_3", boosted(xgboost.XGBClassifier, y3))
    learned("xgboost_regressor", boosted(xgboost.XGBRegressor, target))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    for group in [activations, products, attention, quantized, quantized_patterns, sizes, blocks, features, libraries]:
        group()
    left_out = 0
    for (kind, name), build in CASES.items():
        if args.only not in name:
            continue
        try:
            build(args.out)
        except Exception as error:  # What onnxruntime or a converter cannot do has no expected result.
            left_out += 1
            print(f"{kind}/{name}: left out: {str(error).splitlines()[0][:150]}", file=sys.stderr)
    print(f"{len(CASES) - left_out} cases, {left_out} left out")


if __name__ == "__main__":
    main()
