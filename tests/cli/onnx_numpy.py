"""Reads models in the format ONNX and computes them with NumPy: an independent reader of what `unisono export` writes.

Only the operators that unisono uses are here, each as the specification defines it (https://onnx.ai/onnx/operators/).
"""
import math
import struct

import numpy as np
from protobuf import fields

TYPES = {1: np.float32, 2: np.uint8, 7: np.int64, 8: np.object_, 9: np.bool_}


def signed(number):
    return number - (1 << 64) if number >> 63 else number


def listed(data):
    table = {}
    for number, value in fields(data):
        table.setdefault(number, []).append(signed(value) if isinstance(value, int) else value)
    return table


def attribute(data):
    entry = listed(data)
    kind = entry[20][0]
    name = entry[1][0].decode()
    if kind == 1:
        return name, struct.unpack("<f", entry[2][0])[0]
    if kind == 2:
        return name, entry[3][0]
    if kind == 3:
        return name, entry[4][0].decode()
    if kind == 7:
        return name, entry.get(8, [])
    assert kind == 8
    return name, [text.decode() for text in entry.get(9, [])]


def tensor(data, folder):
    entry = listed(data)
    shape, kind = entry.get(1, []), TYPES[entry[2][0]]
    if entry.get(14) == [1]:
        places = {pair[1][0].decode(): pair[2][0].decode() for pair in map(listed, entry[13])}
        with open(folder / places["location"], "rb") as file:
            file.seek(int(places["offset"]))
            raw = file.read(int(places["length"]))
    else:
        raw = entry[9][0]
    return entry[8][0].decode(), np.frombuffer(raw, kind).reshape(shape)


def value_info(data):
    entry = listed(data)
    kind = listed(listed(entry[2][0])[1][0])
    dimensions = []
    for one in map(listed, listed(kind[2][0]).get(1, [])):
        dimensions.append(one[1][0] if 1 in one else one[2][0].decode())
    return entry[1][0].decode(), TYPES[kind[1][0]], dimensions


class Model:
    def __init__(self, path):
        model = listed(path.read_bytes())
        assert model[1] == [8]
        self.versions = {one.get(1, [b""])[0].decode(): one[2][0] for one in map(listed, model[8])}
        self.metadata = {one[1][0].decode(): one[2][0].decode() for one in map(listed, model.get(14, []))}
        graph = listed(model[7][0])
        self.constants = dict(tensor(one, path.parent) for one in graph.get(5, []))
        self.inputs = [value_info(one) for one in graph[11]]
        self.outputs = [value_info(one) for one in graph[12]]
        self.nodes = []
        for one in map(listed, graph[1]):
            self.nodes.append(
                (
                    one[4][0].decode(),
                    [name.decode() for name in one.get(1, [])],
                    [name.decode() for name in one[2]],
                    dict(map(attribute, one.get(5, []))),
                )
            )

    def values(self, **inputs):
        """All tensors by their names."""
        assert set(inputs) == {name for name, _, _ in self.inputs}, (set(inputs), self.inputs)
        values = dict(self.constants)
        for name, kind, _ in self.inputs:
            values[name] = np.asarray(inputs[name], dtype=kind)
        for kind, names, outputs, attributes in self.nodes:
            results = OPERATORS[kind](*[values[name] for name in names], **attributes)
            results = results if isinstance(results, tuple) else (results,)
            assert len(results) == len(outputs), kind
            for name, result in zip(outputs, results):
                assert name not in values, f"{name} is written twice"
                values[name] = result
        return values

    def __call__(self, **inputs):
        """The outputs by their names."""
        values = self.values(**inputs)
        for name, kind, shape in self.outputs:
            assert values[name].dtype == kind and values[name].ndim == len(shape), (name, values[name].dtype, shape)
            for found, wanted in zip(values[name].shape, shape):
                assert isinstance(wanted, str) or found == wanted, (name, values[name].shape, shape)
        return {name: values[name] for name, _, _ in self.outputs}


def single(function):
    return lambda *arrays, **attributes: np.asarray(function(*arrays, **attributes), dtype=np.float32)


def windows(x, size, strides, pads, fill, dilations=(1, 1)):
    """[N, C, H', W', kernel height, kernel width]"""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    span = [d * (k - 1) + 1 for k, d in zip(size, dilations)]
    view = np.lib.stride_tricks.sliding_window_view(x, span, axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def conv(x, w, b=None, *, kernel_shape, strides, pads, dilations, group):
    view = windows(x.astype(np.float64), kernel_shape, strides, pads, 0, dilations)
    inputs, outputs = w.shape[1], w.shape[0] // group
    parts = [
        np.einsum(
            "nchwkl,ockl->nohw",
            view[:, i * inputs : (i + 1) * inputs],
            w[i * outputs : (i + 1) * outputs].astype(np.float64),
        )
        for i in range(group)
    ]
    y = np.concatenate(parts, axis=1)
    return y if b is None else y + b[:, None, None]


def average_pool(x, *, kernel_shape, strides, pads):
    ones = windows(np.ones_like(x, dtype=np.float64), kernel_shape, strides, pads, 0).sum((-1, -2))
    return windows(x.astype(np.float64), kernel_shape, strides, pads, 0).sum((-1, -2)) / ones


def channels(values, x):
    return values.astype(np.float64).reshape((1, -1) + (1,) * (x.ndim - 2))


def batch_norm(x, scale, bias, mean, variance, *, epsilon):
    deviation = np.sqrt(channels(variance, x) + epsilon)
    return (x - channels(mean, x)) / deviation * channels(scale, x) + channels(bias, x)


def layer_norm(x, scale, bias, *, axis, epsilon):
    axes = tuple(range(axis, 0))
    x = x.astype(np.float64)
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axes, keepdims=True) + epsilon) * scale + bias


def softmax(x, *, axis):
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def reshape(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


def one_hot(x, *, cats_strings, zeros):
    hot = np.array([[[value == level for level in cats_strings] for value in row] for row in x.tolist()], np.float32)
    if not zeros and not hot.any(-1).all():
        raise ValueError("an unknown category")
    return hot


def gather_nd(x, indices, *, batch_dims):
    assert batch_dims == 1 and indices.shape[1] == 1
    return np.stack([row[int(i[0])] for row, i in zip(x, indices)])


def cut(x, begin, end, axes):
    places = [slice(None)] * x.ndim
    for b, e, axis in zip(begin, end, axes):
        assert e <= x.shape[axis]
        places[axis] = slice(b, e)
    return x[tuple(places)]


OPERATORS = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "Max": np.maximum,
    "Neg": lambda x: -x,
    "Sqrt": np.sqrt,
    "Exp": single(lambda x: np.exp(x.astype(np.float64))),
    "Erf": single(np.vectorize(math.erf)),
    "Tanh": np.tanh,
    "Sigmoid": single(sigmoid),
    "Relu": lambda x: np.maximum(x, np.float32(0)),
    "LeakyRelu": single(lambda x, *, alpha: np.where(x >= 0, x, alpha * x)),
    "Elu": single(lambda x, *, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0).astype(np.float64)))),
    "Softplus": single(lambda x: np.logaddexp(0, x.astype(np.float64))),
    "Softmax": single(softmax),
    "Gemm": single(lambda x, w, b=0, *, transB: x.astype(np.float64) @ w.astype(np.float64).T + b),
    "MatMul": single(lambda a, b: a.astype(np.float64) @ b.astype(np.float64)),
    "Conv": single(conv),
    "MaxPool": lambda x, *, kernel_shape, strides, pads: windows(x, kernel_shape, strides, pads, -np.inf).max((-1, -2)),
    "AveragePool": single(average_pool),
    "GlobalAveragePool": single(lambda x: x.astype(np.float64).mean((2, 3), keepdims=True)),
    "BatchNormalization": single(batch_norm),
    "LayerNormalization": single(layer_norm),
    "ReduceMean": single(lambda x, *, axes: x.astype(np.float64).mean(tuple(axes), keepdims=True)),
    "ReduceSum": lambda x, axes, *, keepdims=1: x.sum(tuple(axes), keepdims=bool(keepdims)).astype(x.dtype),
    "Flatten": lambda x, *, axis: x.reshape(math.prod(x.shape[:axis]), -1),
    "Reshape": reshape,
    "Transpose": lambda x, *, perm: x.transpose(perm),
    "Concat": lambda *arrays, axis: np.concatenate(arrays, axis),
    "Split": lambda x, sizes, *, axis: tuple(np.split(x, np.cumsum(sizes)[:-1], axis)),
    "Slice": cut,
    "Shape": lambda x, *, start, end: np.array(x.shape[start:end], np.int64),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes)),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "Range": lambda first, limit, step: np.arange(first, limit, step, dtype=np.int64),
    "LessOrEqual": lambda a, b: a <= b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Where": lambda condition, a, b: np.where(condition, a, b).astype(np.float32),
    "IsNaN": np.isnan,
    "Cast": lambda x, *, to: x.astype(TYPES[to]),
    "Gather": lambda x, indices: x[indices],
    "GatherND": gather_nd,
    "OneHotEncoder": one_hot,
    "Identity": lambda x: x,
}
