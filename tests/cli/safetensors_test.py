"""Weights from other programs and for them, as safetensors: train.initialise_from and unisono export."""

import json
import struct
import unittest

import h5py
import numpy

from harness import BinaryTest, messages, settings

VOCABULARY, CONTEXT, UNITS, HEADS, BLOCKS = 11, 6, 8, 2, 2
GPT2 = """
name = "gpt"
seed = 1
[data]
path = "tokens.h5"
context = 6
shuffle = false
[model]
layers = [
  { kind = "embedding", units = 8, name = "words" },
  { kind = "repeat", times = 2, layers = [
    { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "attention", heads = 2 },
                                   { kind = "dropout", rate = 0.1 }] },
    { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "dense", units = 16 }, { kind = "gelu_tanh" },
                                   { kind = "dense", units = 8 }] } ] },
  { kind = "layer_norm", name = "last" },
  { kind = "unembedding", tied = true } ]
[train]
initialise_from = "model.safetensors"
batch_size = 4
epochs = 1
threads = 1
[optimizer]
kind = "sgd"
learning_rate = 0
"""
LLAMA = (
    GPT2.replace('units = 8, name = "words"', 'units = 8, positions = "none"')
    .replace("layer_norm", "rms_norm")
    .replace("heads = 2 }", "heads = 2, key_heads = 1, rotary = true, bias = false }")
    .replace('{ kind = "dense", units = 16 }, { kind = "gelu_tanh" }', '{ kind = "swiglu", units = 16 }')
    .replace('{ kind = "dense", units = 8 }', '{ kind = "dense", units = 8, bias = false }')
    .replace("tied = true", "tied = false")
)
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": None}


def safetensors(arrays, kind="F32"):
    """The bytes of a file with these arrays."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in arrays.items():
        if kind == "BF16":
            values = (numpy.ascontiguousarray(array, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
        else:
            values = numpy.ascontiguousarray(array, TYPES[kind]).tobytes()
        place = [len(data), len(data) + len(values)]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": place}
        data += values
    return with_header(json.dumps(header), data)


def with_header(header, data=b""):
    return struct.pack("<Q", len(header)) + header.encode() + data


def read(path):
    """The arrays of a file, and its metadata."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    metadata = header.pop("__metadata__")
    arrays = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        arrays[name] = numpy.frombuffer(data[first:last], "<f4").reshape(entry["shape"])
    return arrays, metadata


def gpt2_weights(prefix="transformer."):
    random = numpy.random.default_rng(1)
    shapes = {"wte.weight": (VOCABULARY, UNITS), "wpe.weight": (CONTEXT, UNITS)}
    for i in range(BLOCKS):
        h = f"h.{i}."
        shapes |= {h + "ln_1.weight": (UNITS,), h + "ln_1.bias": (UNITS,)}
        shapes |= {h + "attn.c_attn.weight": (UNITS, 3 * UNITS), h + "attn.c_attn.bias": (3 * UNITS,)}
        shapes |= {h + "attn.c_proj.weight": (UNITS, UNITS), h + "attn.c_proj.bias": (UNITS,)}
        shapes |= {h + "ln_2.weight": (UNITS,), h + "ln_2.bias": (UNITS,)}
        shapes |= {h + "mlp.c_fc.weight": (UNITS, 2 * UNITS), h + "mlp.c_fc.bias": (2 * UNITS,)}
        shapes |= {h + "mlp.c_proj.weight": (2 * UNITS, UNITS), h + "mlp.c_proj.bias": (UNITS,)}
    shapes |= {"ln_f.weight": (UNITS,), "ln_f.bias": (UNITS,)}
    return {prefix + name: random.normal(0, 0.3, shape).astype("f4") for name, shape in shapes.items()}


def llama_weights():
    random = numpy.random.default_rng(2)
    shapes = {"model.embed_tokens.weight": (VOCABULARY, UNITS)}
    for i in range(BLOCKS):
        h = f"model.layers.{i}."
        shapes |= {h + "input_layernorm.weight": (UNITS,), h + "post_attention_layernorm.weight": (UNITS,)}
        shapes |= {h + "self_attn.q_proj.weight": (UNITS, UNITS), h + "self_attn.o_proj.weight": (UNITS, UNITS)}
        shapes |= {h + f"self_attn.{name}_proj.weight": (UNITS // 2, UNITS) for name in "kv"}
        shapes |= {h + f"mlp.{name}_proj.weight": (16, UNITS) for name in ("gate", "up")}
        shapes |= {h + "mlp.down_proj.weight": (UNITS, 16)}
    shapes |= {"model.norm.weight": (UNITS,), "lm_head.weight": (VOCABULARY, UNITS)}
    return {name: random.normal(0, 0.3, shape).astype("f4") for name, shape in shapes.items()}


def gpt2_loss(weights, tokens):
    """The mean loss of the tokens of a text but the first, in float64."""
    weights = {name: value.astype("f8") for name, value in weights.items()}

    def linear(name, x):
        return x @ weights[f"transformer.{name}.weight"] + weights[f"transformer.{name}.bias"]

    def norm(name, x):
        x = (x - x.mean(-1, keepdims=True)) / numpy.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * weights[f"transformer.{name}.weight"] + weights[f"transformer.{name}.bias"]

    def attend(x):
        mixed = []
        for q, k, v in zip(*(numpy.split(part, HEADS, axis=-1) for part in numpy.split(x, 3, axis=-1))):
            scores = numpy.exp(q @ k.T / numpy.sqrt(UNITS / HEADS)) * numpy.tri(len(q))
            mixed.append(scores / scores.sum(-1, keepdims=True) @ v)
        return numpy.concatenate(mixed, axis=-1)

    losses = []
    for first in range(0, len(tokens) - 1, CONTEXT):
        labels = tokens[first + 1 : first + 1 + CONTEXT]
        x = weights["transformer.wte.weight"][tokens[first : first + len(labels)]]
        x = x + weights["transformer.wpe.weight"][: len(labels)]
        for i in range(BLOCKS):
            x = x + linear(f"h.{i}.attn.c_proj", attend(linear(f"h.{i}.attn.c_attn", norm(f"h.{i}.ln_1", x))))
            y = linear(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x))
            y = y / 2 * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (y + 0.044715 * y**3)))
            x = x + linear(f"h.{i}.mlp.c_proj", y)
        logits = norm("ln_f", x) @ weights["transformer.wte.weight"].T
        losses += list(numpy.log(numpy.exp(logits).sum(-1)) - logits[range(len(labels)), labels])
    return float(numpy.mean(losses))


class SafetensorsTest(BinaryTest):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(3)
        self.test = random.integers(0, VOCABULARY, 40)
        with h5py.File(self.folder / "tokens.h5", "w") as file:
            file["train/tokens"] = random.integers(0, VOCABULARY, 100).astype("u2")
            file["test/tokens"] = self.test.astype("u2")
            file.attrs["vocabulary"] = VOCABULARY
        self.write("gpt2.toml", GPT2)
        self.write("llama.toml", LLAMA)

    def start(self, run, arrays, *arguments, config="gpt2.toml", **options):
        self.write("model.safetensors", arrays if isinstance(arrays, bytes) else safetensors(arrays))
        return self.train(run, *arguments, config=config, **options)

    def loss_of(self, run):
        return json.loads(self.succeed("evaluate", run, "--split", "test", "--json").out)["loss"]

    def exported(self, run, *arguments):
        self.succeed("export", run, "--output", "out.safetensors", "--overwrite", *arguments)
        return read(self.folder / "out.safetensors")

    def assert_same_arrays(self, found, expected):
        self.assertEqual(list(found), list(expected))
        for name, array in expected.items():
            self.assertEqual(found[name].shape, array.shape, name)
            self.assertEqual(found[name].tobytes(), array.tobytes(), name)


class WeightsIn(SafetensorsTest):
    def test_the_loss_is_that_of_the_same_model_in_float64(self):
        weights = gpt2_weights()
        # A logit is a sum of 8 products of numbers up to about 3, behind 2 blocks of such sums: some 100 roundings of
        # 2⁻²⁴ each, relative to the largest term; of a loss of about 3 that is below 1e-5.
        expected = gpt2_loss(weights, self.test)
        stages = ("--set", "replica.stages=2")
        for run, ranks, arguments in (("one", 0, ()), ("two", 2, ()), ("stages", 2, stages)):
            result = self.start(run, weights, *arguments, ranks=ranks)
            self.assertIn("names of GPT-2 in transformers): 28 of 28 tensors", result.out)
            self.assertAlmostEqual(self.loss_of(run) / expected, 1, delta=1e-5)
        self.assert_same_bits("one", "two")
        self.assert_same_bits("one", "stages")

    def test_types_and_the_missing_prefix(self):
        weights = gpt2_weights(prefix="")
        for kind in ("F64", "F16", "BF16"):
            self.start(kind, safetensors(weights, kind))
            words = self.vectors(kind)["parameters/words.weight"]
            expected = weights["wte.weight"]
            if kind == "F16":
                expected = expected.astype("f2").astype("f4")
            elif kind == "BF16":
                expected = (expected.view("u4") & 0xFFFF0000).view("f4")
            self.assertEqual(words.tobytes(), expected.tobytes(), kind)

    def test_what_is_not_used_and_what_is_missing_is_said(self):
        weights = gpt2_weights()
        weights["transformer.h.0.attn.bias"] = numpy.ones((1, 1, 4, 4), "f4")
        weights["lm_head.weight"] = weights["transformer.wte.weight"]
        weights["score.weight"] = numpy.ones((2, 8), "f4")
        del weights["transformer.ln_f.bias"]
        weights["transformer.wpe.weight"] = numpy.ones((20, UNITS), "f4")
        result = self.start("run", weights)
        self.assertIn("27 of 30 tensors", result.out)
        self.assertIn("of the 20 positions of transformer.wpe.weight this model takes the first 6", result.out)
        self.assertIn("start from initial values: last.beta", result.out)
        self.assertIn("not used: score.weight", result.out)

    def test_a_folder_with_an_index_of_several_files(self):
        weights = gpt2_weights()
        names = list(weights)
        parts = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
        for file, some in parts.items():
            self.write(f"shards/{file}", safetensors({name: weights[name] for name in some}))
        index = {"weight_map": {name: file for file, some in parts.items() for name in some}}
        self.write("shards/model.safetensors.index.json", json.dumps(index))
        for path in ("shards", "shards/model.safetensors.index.json"):
            self.train("run", "--set", f"train.initialise_from={path}", "--overwrite", config="gpt2.toml")
            self.assert_same_arrays(self.exported("run")[0], weights)
        index["weight_map"]["other"] = "a.safetensors"
        self.write("shards/model.safetensors.index.json", json.dumps(index))
        result = self.train("bad", "--set", "train.initialise_from=shards", config="gpt2.toml", code=4)
        self.assertIn("has no tensor 'other'", result.err)

    def test_frozen_parameters_stay_as_the_file_has_them(self):
        weights = gpt2_weights()
        self.start("run", weights, "--set", "optimizer.learning_rate=0.1", "--set", "train.freeze=['words', 'last']")
        found = self.exported("run")[0]
        self.assertEqual(found["transformer.wte.weight"].tobytes(), weights["transformer.wte.weight"].tobytes())
        self.assertEqual(found["transformer.ln_f.weight"].tobytes(), weights["transformer.ln_f.weight"].tobytes())
        name = "transformer.h.0.mlp.c_fc.weight"
        self.assertNotEqual(found[name].tobytes(), weights[name].tobytes())

    def test_weights_that_do_not_fit_are_refused(self):
        wide = gpt2_weights()
        wide["transformer.h.1.mlp.c_fc.weight"] = numpy.ones((8, 32), "f4")
        words = gpt2_weights()
        words["transformer.wte.weight"] = numpy.ones((50, 8), "f4")
        short = gpt2_weights()
        short["transformer.wpe.weight"] = numpy.ones((4, 8), "f4")
        head = gpt2_weights()
        head["lm_head.weight"] = head["transformer.wte.weight"] + 1
        part = llama_weights()
        del part["model.layers.1.self_attn.k_proj.weight"]
        cases = (
            ("gpt2.toml", wide, "'transformer.h.1.mlp.c_fc.weight' is 8 × 32, but this model needs 8 × 16 for "),
            ("gpt2.toml", words, "is for 50 tokens ('transformer.wte.weight'), but the data set has 11"),
            ("gpt2.toml", short, "has 4 positions in 'transformer.wpe.weight', but data.context is 6"),
            ("gpt2.toml", head, "lm_head.weight differs from transformer.wte.weight"),
            ("gpt2.toml", {"x": numpy.ones(3, "f4")}, "has a name of this model; the file has x"),
            ("llama.toml", part, "has no tensor 'model.layers.1.self_attn.k_proj.weight', but other parts of"),
            ("llama.toml", gpt2_weights(), "in transformers model.embed_tokens.weight and so on (Llama)"),
        )
        for config, weights, message in cases:
            result = self.start("refused", weights, config=config, code=2)
            self.assertIn(message, result.err)

    def test_damaged_files_are_refused(self):
        def entry(**other):
            return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | other

        def file(data=bytes(8), **tensors):
            return with_header(json.dumps(tensors), data)

        whole = safetensors(gpt2_weights())
        twice = '{"a": %s, "a": %s}' % (json.dumps(entry()), json.dumps(entry()))
        cases = (
            (b"", "it has 0 bytes"),
            (whole[:100], "but the file has 100"),
            (whole[:-4], "of the data, of which there are"),
            (whole + b"1234", "its tensors end at byte"),
            (struct.pack("<Q", 1 << 63) + b"{}", "its header should have 9223372036854775808 bytes"),
            (struct.pack("<Q", 100_000_001) + bytes(100_000_001), "but headers have 100000000 at most"),
            (with_header("{"), "its header is no JSON"),
            (with_header("[1]"), "its header is no JSON object"),
            (with_header(twice, bytes(8)), "its header has two entries 'a'"),
            (file(a=[]), "tensor 'a' is described by no JSON object"),
            (file(a=entry(dtype="X9")), "tensor 'a' is of the type \"X9\""),
            (file(a={"shape": [2], "data_offsets": [0, 8]}), "tensor 'a' has no 'dtype'"),
            (file(a=entry(shape=[-2])), "tensor 'a' has -2 in 'shape'"),
            (file(a=entry(shape=[3])), "tensor 'a' takes 8 bytes, but F32 × [3] are 12"),
            (file(a=entry(shape=[2**62, 2])), "tensor 'a' has the impossible shape"),
            (file(a=entry(data_offsets=[8, 0])), "tensor 'a' ends at 0 before it begins at 8"),
            (file(a=entry(data_offsets=[8, 16])), "tensor 'a' should end at byte 16"),
            (file(bytes(12), a=entry(), b=entry(data_offsets=[4, 12])), "tensor 'b' begins at 4 within another one"),
            (file(bytes(20), a=entry(), b=entry(data_offsets=[12, 20])), "begins at 12, but nothing is at 8"),
            (file(**{"words.weight": entry(dtype="I32", shape=[11, 8], data_offsets=[0, 352])}, data=bytes(352)),
             "tensor 'words.weight' is of the type I32, but weights must be"),
        )  # fmt: skip
        for content, message in cases:
            result = self.start("refused", content, code=4)
            self.assertIn("model.safetensors: ", result.err)
            self.assertIn(message, result.err)
        result = self.start("refused", whole[:100], code=4, ranks=2)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertIn("but the file has 100", messages(result)[0])
        result = self.train("refused", "--set", "train.initialise_from=no.safetensors", config="gpt2.toml", code=4)
        self.assertIn("no.safetensors: there is no such file", result.err)


class WeightsOut(SafetensorsTest):
    def test_what_was_read_is_written(self):
        for config, weights in (("gpt2.toml", gpt2_weights()), ("llama.toml", llama_weights())):
            self.start("run", weights, "--overwrite", config=config)
            found, metadata = self.exported("run")
            self.assertEqual(metadata["format"], "pt")
            self.assertEqual(sorted(found), sorted(weights))
            self.assert_same_arrays({name: found[name] for name in weights}, weights)

    def test_an_exported_model_has_the_same_loss(self):
        self.start("first", gpt2_weights(), "--set", "optimizer.learning_rate=0.1")
        loss = self.loss_of("first")
        for names in ("transformers", "unisono"):
            self.succeed("export", "first", "--output", f"{names}.safetensors", "--names", names)
            self.train(names, "--set", f"train.initialise_from={names}.safetensors", config="gpt2.toml")
            self.assertEqual(self.loss_of(names), loss)
        found = read(self.folder / "unisono.safetensors")[0]
        self.assertEqual(list(found), [name.split("/")[1] for name in self.canonical("first")])

    def canonical(self, run):
        """Names of blocks, in the order of the layers."""
        with h5py.File(self.checkpoints(run)[-1], "r") as file:
            names = [f"parameters/{name}" for name in file["parameters"]]
        order = ["words.weight", "words.position"]
        for i in range(1, BLOCKS + 1):
            for branch, layers in ((1, ("layer_norm1", "attention1.qkv", "attention1.output")),
                                   (2, ("layer_norm1", "dense1", "dense2"))):  # fmt: skip
                for layer in layers:
                    kinds = ("gamma", "beta") if "norm" in layer else ("weight", "bias")
                    order += [f"repeat1.{i}.residual{branch}.{layer}.{kind}" for kind in kinds]
        order = [f"parameters/{name}" for name in (*order, "last.gamma", "last.beta")]
        self.assertEqual(sorted(names), sorted(order))
        return order

    def test_a_tied_file_is_enough_for_an_unembedding_of_its_own(self):
        weights = llama_weights()
        del weights["lm_head.weight"]
        result = self.start("run", weights, config="llama.toml")
        self.assertIn("no lm_head.weight, so the unembedding starts from model.embed_tokens.weight", result.out)
        found = self.exported("run")[0]
        self.assertEqual(found["lm_head.weight"].tobytes(), weights["model.embed_tokens.weight"].tobytes())

    def test_other_models_have_their_own_names(self):
        self.train("run", "--set", "train.epochs=1")
        found = self.exported("run", "--names", "unisono")[0]
        own = self.vectors("run")
        for name, array in found.items():
            group = "statistics" if name.endswith((".mean", ".variance")) else "parameters"
            if not name.startswith("normalization"):
                self.assertEqual(array.tobytes(), own[f"{group}/{name}"].tobytes(), name)
        still = settings("train.epochs=1", "optimizer.learning_rate=0", "train.freeze=['batch_norm1']")
        result = self.train("again", *still, "--set", "train.initialise_from=out.safetensors")
        self.assertIn("names of unisono", result.out)
        again = self.vectors("again")
        for name in own:
            if name.startswith(("parameters", "statistics")):
                self.assertEqual(again[name].tobytes(), own[name].tobytes(), name)
        result = self.unisono("export", "run", "--output", "x.safetensors", "--names", "transformers")
        self.assertEqual(result.code, 2, result)
        self.assertIn("like neither GPT-2 nor Llama", result.err)
        self.assertFalse((self.folder / "x.safetensors").exists())

    def test_options_that_do_not_fit_are_refused(self):
        self.start("run", gpt2_weights())
        cases = (
            (("--output", "x.bin"), "--format is missing"),
            (("--output", "x.npz", "--format", "npz", "--names", "unisono"), "--names: only --format safetensors"),
            (("--output", "x.safetensors", "--table", "words"), "--table: --format hdf5, npz, safetensors and onnx"),
        )
        for words, message in cases:
            result = self.unisono("export", "run", *words)
            self.assertEqual(result.code, 2, result)
            self.assertIn(message, result.err)
        result = self.unisono("export", "run", "--output", "model.safetensors", "--overwrite")
        self.assertIn("is not an exported file", result.err)
        self.assertEqual(list(self.folder.glob("*.tmp")), [])


if __name__ == "__main__":
    unittest.main()
