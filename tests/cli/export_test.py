"""Exported models: what their ONNX files compute is what unisono predicts, for every kind of layer."""

import json
import re
import shutil
import struct
import unittest

import exported_models as models
from harness import BinaryTest, messages, settings
from onnx_numpy import Model


class Graphs(BinaryTest):
    def graph_of(self, name):
        models.prepare(self.folder, name, self.succeed)
        graph = Model(self.folder / "model.onnx")
        self.assertEqual(graph.versions[""], 17)
        return graph

    def check(self, name):
        graph = self.graph_of(name)
        found = models.difference(self.folder, name, graph, graph.outputs[0][0])
        self.assertLessEqual(found, models.TOLERANCE)

    def test_the_models_have_every_kind_of_layer(self):
        reference = self.succeed("config", "reference").out
        kinds = re.search(r"\[\[model\.layers\]\].*\n  kind.*\n.*\n((?: {8}.*\n)+)", reference)[1]
        known = set(re.findall(r"^ {8}(\w+)", kinds, re.MULTILINE))
        self.assertIn("dense", known)
        there = {kind for _, config in models.MODELS.values() for kind in re.findall(r'kind = "(\w+)"', config)}
        self.assertEqual(known - there, set())

    def test_a_graph_without_preprocessing_begins_with_features(self):
        graph = self.graph_of("table")
        self.succeed("export", "run", "--without-preprocessing", "--output", "bare.onnx")
        bare = Model(self.folder / "bare.onnx")
        values = graph.values(**models.inputs_of(self.folder, "table")[0])
        features = (values["features/Concat"] - graph.constants["normalization.mean"]) * graph.constants[
            "normalization.scale"
        ]
        outputs = bare(features=features)
        # A column has the name "logits".
        self.assertEqual([name for name, _, _ in graph.outputs], ["probabilities", "logits_2"])
        self.assertLessEqual(models.largest_difference(outputs["logits"], values["logits_2"]), models.TOLERANCE)

    def test_what_goes_with_the_graph_is_in_it(self):
        graph = self.graph_of("table")
        self.assertEqual(json.loads(graph.metadata["class_names"]), ["no", "yes"])
        self.assertEqual([name for name, _, _ in graph.inputs], ["age", "colour", "width of it", "logits"])
        self.assertEqual(int(graph.metadata["step"]), self.last_step("run"))

    def test_shorter_texts_are_batches_of_their_own(self):
        graph = self.graph_of("gpt")
        tokens = models.inputs_of(self.folder, "gpt")[0]["tokens"][:3]
        whole, part = graph(tokens=tokens)["logits"], graph(tokens=tokens[:, :7])["logits"]
        self.assertLessEqual(models.largest_difference(whole[:, :7], part), models.TOLERANCE)


class Modules(BinaryTest):
    """Weights with PyTorch's names and the module that takes them; scripts/check-exports runs it in PyTorch."""

    def tensors_of(self, path):
        """The shapes and values of a safetensors file of float32, as bytes."""
        data = (self.folder / path).read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header, data = json.loads(data[8 : 8 + length]), data[8 + length :]
        header.pop("__metadata__")
        return {name: (one["shape"], data[slice(*one["data_offsets"])]) for name, one in header.items()}

    def prepared(self, name):
        models.prepare(self.folder, name, self.succeed)
        self.succeed("export", "run", "--names", "pytorch", "--output", "model.safetensors")

    def test_names_and_shapes_are_those_of_pytorch(self):
        self.prepared("convolutions")
        shapes = {name: shape for name, (shape, _) in self.tensors_of("model.safetensors").items()}
        self.assertEqual(
            shapes,
            {
                "first-one.weight": [8, 3, 3, 3],
                "batch_norm1.weight": [8],
                "batch_norm1.bias": [8],
                "convolution2.weight": [16, 4, 3, 1],
                "convolution2.bias": [16],
                "scale1.weight": [16],
                "dense1.weight": [4, 16 * 3 * 4],
                "dense1.bias": [4],
                "batch_norm1.running_mean": [8],
                "batch_norm1.running_var": [8],
                "normalization.mean": [3],
                "normalization.scale": [3],
            },
        )

    def test_weights_come_back_bit_by_bit(self):
        for name in ("convolutions", "residuals", "rows", "gpt", "llama", "texts"):
            with self.subTest(name):
                self.prepared(name)
                compile((self.folder / "model.py").read_text(), "model.py", "exec")
                before = self.tensors_of("model.safetensors")
                layers = [key.removesuffix(".weight") for key in before if key.endswith(".weight")]
                frozen, last = json.dumps(layers[:-1]), layers[-1]
                words = settings("train.initialise_from=model.safetensors", f"train.freeze={frozen}")
                self.succeed("train", "config.toml", "--output", "on", *words)
                self.succeed("export", "on", "--names", "pytorch", "--output", "on.safetensors")
                after = self.tensors_of("on.safetensors")
                changed = {key for key in before if before[key] != after[key]}
                self.assertTrue(changed and all(key.startswith(last + ".") for key in changed), changed)
                for path in self.folder.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def test_modules_that_were_wrapped_are_known(self):
        self.prepared("rows")
        data = (self.folder / "model.safetensors").read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__")
        for prefix in ("module.", "_orig_mod.", "module._orig_mod."):
            renamed = json.dumps({prefix + name: one for name, one in header.items()}).encode()
            (self.folder / "w.safetensors").write_bytes(struct.pack("<Q", len(renamed)) + renamed + data[8 + length :])
            words = settings("train.initialise_from=w.safetensors")
            result = self.succeed("train", "config.toml", "--output", f"run of {prefix}", *words)
            self.assertRegex(result.err + result.out, r"initialised from w\.safetensors \(names of PyTorch\): 13 of 15")


class Refusals(BinaryTest):
    def test_what_cannot_be_exported_is_said(self):
        models.prepare(self.folder, "margins", self.succeed)
        for words, message in (
            (("--output", "x.npz", "--without-preprocessing"), "--without-preprocessing: only --format onnx"),
            (("--output", "x.safetensors", "--names", "pytorch"), "--names pytorch: the model is no network"),
            (("--output", "x.onnx", "--names", "pytorch"), "--names: only --format safetensors"),
            (("--output", "x.onnx", "--table", "features"), "--table: --format hdf5, npz, safetensors and onnx"),
            (("--output", "x.weights"), "--format is missing"),
            (("--output", "set.h5", "--format", "onnx", "--overwrite"), "is not an exported file"),
        ):
            result = self.unisono("export", "run", *words)
            self.assertEqual(result.code, 2 if words[1] != "set.h5" else 1, result)
            self.assertIn(message, messages(result)[0])

    def test_names_of_files_do_no_harm(self):
        models.prepare(self.folder, "rows", self.succeed)
        (self.folder / "run").rename(self.folder / 'a"""\\ b')
        self.succeed("export", 'a"""\\ b', "--format", "safetensors", "--output", 'w"eights.x')
        text = (self.folder / 'w"eights.py').read_text()
        compile(text, "w.py", "exec")
        self.assertIn(r'with_name("w\"eights.x")', text)
        result = self.unisono("export", 'a"""\\ b', "--format", "safetensors", "--output", "x.py")
        self.assertIn("call the weights x.safetensors", messages(result)[0])
        result = self.unisono("export", 'a"""\\ b', "--output", "torch.safetensors")
        self.assertIn("would be torch.py, which would hide the package", messages(result)[0])

    def test_names_that_pytorch_has_itself_are_refused(self):
        models.prepare(self.folder, "rows", self.succeed)
        config = (self.folder / "config.toml").read_text()
        self.write("config.toml", config.replace('kind = "scale"', 'kind = "scale", name = "training"'))
        self.succeed("train", "config.toml", "--output", "named")
        result = self.unisono("export", "named", "--output", "w.safetensors")
        self.assertEqual(result.code, 2)
        self.assertIn("the layer 'training' cannot be written as a module of PyTorch", messages(result)[0])
        self.assertFalse((self.folder / "w.safetensors").exists() or (self.folder / "w.py").exists())

    def test_exports_replace_exports(self):
        models.prepare(self.folder, "rows", self.succeed)
        for output in ("model.onnx", "model.safetensors"):
            for _ in range(2):
                self.succeed("export", "run", "--output", output, "--overwrite")
        self.write("model.py", "import torch\n")
        result = self.unisono("export", "run", "--output", "model.safetensors", "--overwrite")
        self.assertIn("model.py: exists and is not an exported file", messages(result)[0])
        self.assertEqual((self.folder / "model.py").read_text(), "import torch\n")


def add_test(name):
    setattr(Graphs, f"test_{name.replace('-', '_')}", lambda self: self.check(name))


for model in models.MODELS:
    add_test(model)


if __name__ == "__main__":
    unittest.main()
