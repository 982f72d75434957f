"""Weights from files of other programs: .npz files and exports, rules for names, the order of tensors, bad files."""

import io
import json
import pickle
import struct
import unittest
import zipfile
import zlib

import h5py
import numpy

import safetensors_test
from harness import CONFIG, BinaryTest, messages, settings

STILL = settings("train.epochs=1", "optimizer.learning_rate=0", "train.freeze=['batch_norm1']")
# What the network of CONFIG is called in PyTorch, and here.
TORCH_NAMES = {
    "conv1.weight": "parameters/convolution1.weight",
    "bn1.weight": "parameters/batch_norm1.gamma",
    "bn1.bias": "parameters/batch_norm1.beta",
    "bn1.running_mean": "statistics/batch_norm1.mean",
    "bn1.running_var": "statistics/batch_norm1.variance",
    "fc.weight": "parameters/dense1.weight",
    "fc.bias": "parameters/dense1.bias",
}
MAP = [
    "conv1.* = convolution1.*",
    "bn*.weight = batch_norm*.gamma",
    "bn*.bias = batch_norm*.beta",
    "bn*.running_mean = batch_norm*.mean",
    "bn*.running_var = batch_norm*.variance",
    "fc.* = dense1.*",
]


def torch_weights():
    """As in a state_dict: the numbers of batches are integers."""
    random = numpy.random.default_rng(5)
    shapes = {"conv1.weight": (4, 1, 5, 5), "bn1.weight": 4, "bn1.bias": 4, "bn1.running_mean": 4, "bn1.running_var": 4}
    shapes |= {"fc.weight": (10, 576), "fc.bias": 10}
    weights = {name: random.uniform(0.1, 1, shape).astype("f4") for name, shape in shapes.items()}
    weights["bn1.num_batches_tracked"] = numpy.int64(7)
    order = [*list(weights)[:5], "bn1.num_batches_tracked", "fc.weight", "fc.bias"]
    return {name: weights[name] for name in order}


def own_weights():
    """The same by the names that they have here."""
    weights = torch_weights()
    return {here.split("/")[1]: weights[there] for there, here in TORCH_NAMES.items()}


def npz(arrays, save=numpy.savez):
    content = io.BytesIO()
    save(content, **arrays)
    return content.getvalue()


def sorted_safetensors(arrays):
    """As safetensors.torch.save_file writes them: by name, integers of 64 bits first."""
    integers = {name: array for name, array in arrays.items() if array.dtype == "i8"}
    floats = {name: arrays[name] for name in sorted(set(arrays) - set(integers))}
    header, data = {}, b""
    for name, array in {**integers, **floats}.items():
        values = array.tobytes()
        kind = "I64" if name in integers else "F32"
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    return safetensors_test.with_header(json.dumps(header), data)


def zipped(entries, method=zipfile.ZIP_STORED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return content.getvalue()


def npy(described="<f4", shape=(4,), data=bytes(16), order="False"):
    header = f"{{'descr': '{described}', 'fortran_order': {order}, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


class WeightsTest(BinaryTest):
    def start(self, name, content, *arguments, run="run", **options):
        self.write(name, content)
        words = ("--set", f"train.initialise_from={name}", "--overwrite", *STILL, *arguments)
        return self.train(run, *words, **options)

    def mapped(self, rules):
        return ("--set", f"train.initialise_map={json.dumps(rules)}")

    def assert_weights(self, run, weights=None, but=()):
        """The run has the weights of the file, whatever they are called there."""
        weights, found = weights or torch_weights(), self.vectors(run)
        for there, here in TORCH_NAMES.items():
            if there not in but:
                self.assertEqual(found[here].tobytes(), weights[there].tobytes(), here)


class Formats(WeightsTest):
    def test_npz_files_of_any_layout_give_the_same_weights(self):
        weights = own_weights()
        turned = {name: numpy.asfortranarray(array) for name, array in weights.items()}
        cases = {
            "stored": npz(weights),
            "deflated": npz(weights, numpy.savez_compressed),
            "fortran": npz(turned),
            "big-endian": npz({name: array.astype(">f4") for name, array in weights.items()}),
            "doubles": npz({name: array.astype("f8") for name, array in weights.items()}),
            "others": npz({**weights, "epoch": numpy.int64(3), "text": numpy.array("ab"), "z": numpy.ones(1, "c8")}),
        }  # fmt: skip
        for name, content in cases.items():
            result = self.start("model.npz", content, run=name)
            self.assertIn("7 of ", result.out, name)
            self.assert_weights(name)
        self.assertIn("not used: epoch, text, z", result.out)
        halves = {name: array.astype("f2") for name, array in weights.items()}
        self.start("model.npz", npz(halves), run="halves")
        found = self.vectors("halves")["parameters/dense1.weight"]
        self.assertEqual(found.tobytes(), halves["dense1.weight"].astype("f4").tobytes())

    def test_exports_come_back(self):
        self.train("first")
        first = self.vectors("first")
        for kind in ("npz", "hdf5", "safetensors"):
            names = ("--names", "unisono") if kind == "safetensors" else ()
            self.succeed("export", "first", "--format", kind, "--output", "weights", *names)
            for ranks in (0, 2):
                words = ("--set", "train.initialise_from=weights", "--overwrite", *STILL)
                result = self.train("again", *words, ranks=ranks)
                self.assertIn("(names of unisono): 7 of 7 tensors", result.out)
                again = self.vectors("again")
                for name in first:
                    if name.startswith(("parameters", "statistics")):
                        self.assertEqual(again[name].tobytes(), first[name].tobytes(), name)
            (self.folder / "weights").unlink()

    def test_a_language_model_from_an_npz_file_in_a_pipeline(self):
        tokens = numpy.random.default_rng(3).integers(0, safetensors_test.VOCABULARY, 100).astype("u2")
        with h5py.File(self.folder / "tokens.h5", "w") as file:
            file["train/tokens"] = file["test/tokens"] = tokens
            file.attrs["vocabulary"] = safetensors_test.VOCABULARY
        self.write("gpt2.toml", safetensors_test.GPT2)
        weights = safetensors_test.gpt2_weights()
        self.write("gpt2.npz", npz(weights, numpy.savez_compressed))
        words = ("--set", "train.initialise_from=gpt2.npz", "--set", "replica.stages=2")
        result = self.train("run", *words, config="gpt2.toml", ranks=2)
        self.assertIn("transformer.h.0.attn.c_attn.weight (transposed)", result.out)
        self.succeed("export", "run", "--output", "out.safetensors")
        found = safetensors_test.read(self.folder / "out.safetensors")[0]
        for name, array in weights.items():
            self.assertEqual(found[name].tobytes(), array.tobytes(), name)

    def test_normalization_of_an_export_is_compared(self):
        with h5py.File(self.folder / "set.h5", "w") as file:
            file["train/features"] = numpy.arange(24, dtype="f4").reshape(8, 3) ** 2
            file["train/labels"] = numpy.arange(8, dtype="u1") % 2
        config = 'name = "table"\n[data]\npath = "set.h5"\nnormalization = "feature"\n[model]\nkind = "linear"\n'
        config += '[optimizer]\nkind = "sgd"\nlearning_rate = 0.1\n[train]\nepochs = 1\nthreads = 1\n'
        self.write("table.toml", config)
        self.train("first", config="table.toml")
        self.succeed("export", "first", "--format", "npz", "--output", "first.npz")
        arrays = dict(numpy.load(self.folder / "first.npz"))
        self.assertIn("normalization.mean", arrays)
        words = ("--set", "train.initialise_from=first.npz", "--overwrite")
        self.assertIn("gives the same as the file's norm", self.train("second", *words, config="table.toml").out)
        arrays["normalization.mean"] += 1
        self.write("first.npz", npz(arrays))
        self.assertIn("not by the file's normalization", self.train("second", *words, config="table.toml").out)


class WithoutTraining(WeightsTest):
    def test_a_file_is_evaluated_and_predicted_with(self):
        self.train("first", "--set", "data.validation_fraction=0.1")
        self.succeed("export", "first", "--format", "npz", "--output", "first.npz")
        words = settings("data.validation_fraction=0.1", "train.initialise_from=first.npz", "train.epochs=0")
        for ranks in (0, 2):
            result = self.train("again", *words, "--overwrite", ranks=ranks)
            self.assertIn("complete after 0 epochs, 0 steps", result.out)
            self.assertNotIn("undefined", result.out)
            for split in ("train", "validation", "test"):
                words_of = ("--split", split, "--json")
                figures = [json.loads(self.succeed("evaluate", run, *words_of).out) for run in ("first", "again")]
                for one in figures:
                    one.pop("checkpoint", None)
                    one.pop("step", None)
                self.assertEqual(*figures, split)
        for run in ("first", "again"):
            self.succeed("predict", run, "--output", f"{run}.csv")
        self.assertEqual((self.folder / "first.csv").read_text(), (self.folder / "again.csv").read_text())
        self.assertEqual(self.summary("again")["steps"], 0)
        self.train("again", "--resume", *words, "--set", "train.epochs=1")
        self.assertEqual(self.summary("again")["steps"], 9)

    def test_a_schedule_does_not_matter(self):
        words = settings("schedule.kind=cosine", "schedule.warmup_epochs=1", "train.epochs=0")
        self.train("first")
        self.train("again", *words, "--set", "train.initialise_from=first")
        first, again = self.vectors("first"), self.vectors("again")
        for name in first:
            if name.startswith(("parameters", "statistics")):
                self.assertEqual(again[name].tobytes(), first[name].tobytes(), name)

    def test_without_weights_there_is_no_run(self):
        result = self.train("refused", "--set", "train.epochs=0", code=2)
        self.assertIn("epochs = 0 makes a run that does not train, but initialise_from names no weights", result.err)
        space = '[search]\nmethod = "grid"\n[search.space]\n"optimizer.learning_rate" = [0.1, 0.2]\n'
        self.write("search.toml", CONFIG + space)
        self.write("model.npz", npz(own_weights()))
        words = settings("train.epochs=0", "train.initialise_from=model.npz", "data.validation_fraction=0.1")
        result = self.unisono("search", "search.toml", *words, "--output", "search")
        self.assertEqual(result.code, 2, result)
        self.assertIn("train.epochs = 0: the trials of a search must train", result.err)


class NamesAndOrder(WeightsTest):
    def test_rules_rename_tensors_and_statistics(self):
        for name, content in (
            ("model.npz", npz(torch_weights())),
            ("model.safetensors", sorted_safetensors(torch_weights())),
        ):
            result = self.start(name, content, *self.mapped(MAP))
            self.assertIn("7 of 8 tensors", result.out)
            self.assertIn("  batch_norm1.variance  4                 bn1.running_var\n", result.out)
            self.assertIn("  dense1.weight         10 × 4 × 12 × 12  fc.weight\n", result.out)
            self.assertNotIn("not used", result.out)
            self.assert_weights("run")

    def test_rules_may_give_the_names_of_pytorch(self):
        rules = ["conv1.* = convolution1.*", "bn*.* = batch_norm*.*", "fc.* = dense1.*"]
        result = self.start("model.npz", npz(torch_weights()), *self.mapped(rules))
        self.assertIn("(names of PyTorch): 7 of 8 tensors", result.out)
        self.assertNotIn("initial values", result.out)
        self.assert_weights("run")

    def test_the_first_rule_counts_and_tensors_can_be_left_out(self):
        rules = ["fc.weight =", "bn1.num* =", *MAP]
        result = self.start("model.npz", npz(torch_weights()), *self.mapped(rules))
        self.assertIn("  dense1.weight         10 × 4 × 12 × 12  initial values\n", result.out)
        self.assertIn("start from initial values: dense1.weight\n", result.out)
        self.assertIn("not used: fc.weight\n", result.out)
        self.assert_weights("run", but=("fc.weight",))

    def test_tensors_in_order(self):
        torch = torch_weights()
        own = own_weights()
        last = [name for name in own if name.endswith((".mean", ".variance"))]
        exported = {f"x{9 - i}": own[name] for i, name in enumerate([*(n for n in own if n not in last), *last])}
        cases = {
            "torch": ("model.npz", npz(torch), "fc.bias\n"),
            "anonymous": ("model.npz", npz({f"array {9 - i}": own[n] for i, n in enumerate(own)}), "dense1.bias "),
            "statistics last": ("model.npz", npz(exported), "batch_norm1.mean "),
            "more": ("model.npz", npz({**torch, "head.weight": numpy.ones(3, "f4")}), "not used: head.weight"),
        }
        for run, (name, content, said) in cases.items():
            result = self.start(name, content, "--set", "train.initialise_by=order", run=run)
            self.assertIn("(in the order of the file): 7 of ", result.out, run)
            self.assertIn(said, result.out, run)
            self.assertNotIn("sorted by name", result.out, run)
            self.assert_weights(run)

    def test_sorted_files_are_taken_layer_by_layer(self):
        def content(order):
            layers = dict(zip(("conv1", "bn1", "fc"), order))
            renamed = {layers[name.split(".")[0]] + "." + name.split(".")[1]: a for name, a in torch_weights().items()}
            return sorted_safetensors(renamed)

        words = ("--set", "train.initialise_by=order")
        result = self.start("model.safetensors", content(("layers.2", "layers.9", "layers.10")), *words)
        self.assertIn("the tensors of the file are sorted by name", result.out)
        self.assert_weights("run")
        result = self.start("model.safetensors", content(("conv1", "bn1", "fc")), *words, code=2)
        self.assertIn("'bn1.weight' is 4, but the next block of this model, convolution1.weight, is 4 ×", result.err)
        self.assertIn("before them nothing was taken. The tensors of this file are sorted by name", result.err)

    def test_rules_come_before_the_order(self):
        weights = {"extra": numpy.ones(3, "f4"), **torch_weights()}
        words = ("--set", "train.initialise_by=order")
        self.start("model.npz", npz(weights), *words, code=2)
        self.start("model.npz", npz(weights), *words, *self.mapped(["extra ="]))
        self.assert_weights("run")

    def test_a_short_file_leaves_initial_values(self):
        weights = dict(list(torch_weights().items())[:-2])
        result = self.start("model.npz", npz(weights), "--set", "train.initialise_by=order")
        self.assertIn("start from initial values: dense1.weight, dense1.bias\n", result.out)
        self.assert_weights("run", but=("fc.weight", "fc.bias"))

    def test_a_long_table_is_whole_in_info(self):
        layers = ", ".join('{ kind = "dense", units = 3 }' for _ in range(30))
        start, end = CONFIG.index("layers = ["), CONFIG.index("[optimizer]")
        layers = f'layers = [{{ kind = "flatten" }}, {layers}, {{ kind = "dense", units = 10 }}]\n'
        config = CONFIG[:start] + layers + CONFIG[end:]
        self.write("deep.toml", config)
        self.train("deep", config="deep.toml")
        self.succeed("export", "deep", "--format", "npz", "--output", "deep.npz")
        words = ("--set", "train.initialise_from=deep.npz")
        result = self.train("again", *words, config="deep.toml")
        self.assertIn("  … 28 more, all of which 'unisono info' shows …\n", result.out)
        self.assertLess(len(result.out.split("\ntest: ")[0].splitlines()), 40)
        result = self.succeed("info", "deep.toml", *words)
        for i in range(1, 32):
            self.assertIn(f"dense{i}.bias ", result.out.split("weights from deep.npz:")[1])
        found = json.loads(self.succeed("info", "deep.toml", *words, "--json").out)["weights"]
        self.assertEqual(found["blocks"][1], {"block": "dense1.bias", "shape": "3", "from": "dense1.bias"})
        self.assertEqual(found["unused"], [])

    def test_a_resumed_run_does_not_need_the_file(self):
        words = (*self.mapped(MAP), "--set", "train.initialise_from=model.npz")
        self.start("model.npz", npz(torch_weights()), *self.mapped(MAP))
        (self.folder / "model.npz").unlink()
        self.train("run", "--resume", *words, *STILL, "--set", "train.epochs=2")
        self.assert_weights("run")


class Refused(WeightsTest):
    def refuse(self, name, content, message, *arguments, code=4, **options):
        result = self.start(name, content, *arguments, run="refused", code=code, **options)
        self.assertIn(message, result.err)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertFalse((self.folder / "ran").exists(), "a pickle was read")
        return result

    def test_pickles_are_recognised_by_their_contents(self):
        class Evil:
            def __reduce__(self):
                return (open, ("ran", "w"))

        advice = "safetensors.torch.save_file(torch.load("
        evil = pickle.dumps({"x": Evil()}, 2)
        archive = zipped({"model/data.pkl": evil, "model/data/0": bytes(16), "model/version": b"3\n"})
        for name in ("model.pt", "model.pth", "model.bin", "last.ckpt", "model.safetensors", "model.npz", "weights"):
            result = self.refuse(name, archive, "is a file of PyTorch, a zip file with a pickle")
            self.assertIn(advice, result.err)
            for protocol in (2, 3, 4, 5):
                self.refuse(name, pickle.dumps({"x": Evil()}, protocol), "is a pickle of Python's, as PyTorch and")
        legacy = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({"x": Evil()}, 2)
        self.refuse("model.pt", legacy, advice)
        for protocol in (0, 1):
            self.refuse("model.pt", pickle.dumps({"x": Evil()}, protocol), "save the weights as safetensors")
        self.refuse("model.pth", b"\0" * 100, "is no file of weights")
        objects = npz({**own_weights(), "meta": numpy.array([Evil()], dtype=object)})
        result = self.refuse("model.npz", objects, "model.npz/meta.npy: holds Python objects, that is a pickle")
        self.refuse("model.npz", zipped({"dense1.bias.npy": npy("|O", (1,), evil)}), "holds Python objects")

    def test_damaged_npz_files_are_refused(self):
        whole = npz(own_weights())
        packed = npz(own_weights(), numpy.savez_compressed)
        flipped = bytearray(whole)
        flipped[whole.index(own_weights()["dense1.weight"].tobytes()) + 8] ^= 1
        crooked = bytearray(packed)
        crooked[len(packed) // 2] ^= 0xFF
        huge = zipped({"dense1.bias.npy": npy("<f4", (1 << 33,), b"")})
        bomb = bytearray(zipped({"dense1.bias.npy": npy("<f4", (10,), bytes(40))}, zipfile.ZIP_DEFLATED))
        directory = bomb.rindex(b"PK\x01\x02")
        bomb[directory + 24 : directory + 28] = struct.pack("<I", 1 << 31)
        nan = {**own_weights(), "dense1.bias": numpy.full(10, numpy.nan, "f4")}
        large = {**own_weights(), "dense1.bias": numpy.full(10, 1e300)}
        integers = {**own_weights(), "dense1.bias": numpy.arange(10)}
        cases = (
            (b"", "is no zip file"),
            (b"PK\x03\x04", "is no zip file"),
            (whole[: len(whole) // 2], "is no zip file"),
            (zipped({}), "is no zip file"),
            (zipped({"readme.txt": b"hello"}), "is a zip file without any array of NumPy's"),
            (bytes(flipped), "dense1.weight.npy: is damaged: its checksum does not match"),
            (bytes(crooked), "model.npz/"),
            (zipped({"dense1.bias.npy": b"text"}), "dense1.bias.npy: is not a .npy file"),
            (zipped({"dense1.bias.npy": npy(shape=(9,))}), "announces values of 4 bytes each in the shape (9,)"),
            (zipped({"dense1.bias.npy": npy(shape=(-9,))}), "its header has no valid 'shape'"),
            (huge, "announces values of 4 bytes each in the shape (8589934592,)"),
            (zipped({"dense1.bias.npy": npy(shape=(1 << 62, 1 << 62))}), "announces values of 4 bytes each"),
            (bytes(bomb), "announces more bytes than it can hold"),
            (npz(nan), "tensor 'dense1.bias' has numbers that are not finite"),
            (npz(large), "tensor 'dense1.bias' has numbers that are not finite"),
            (npz(integers), "tensor 'dense1.bias' is of the type I64, but weights must be F32"),
            (zipped({"dense1.bias.npy": npy("<U3", (1,), bytes(12))}), "'dense1.bias' is 1, but this model needs 10"),
            (zipped({"b\u0300.npy": npy()}, zipfile.ZIP_BZIP2), "is compressed with method 12"),
            (npy(), "is a single array without a name"),
        )  # fmt: skip
        for content, message in cases:
            code = 2 if "but this model needs" in message else 4
            self.refuse("model.npz", content, message, code=code)
        result = self.refuse("model.npz", bytes(flipped), "its checksum does not match", ranks=2)
        bad_name = zipped({"dense1.xxxx.npy": npy()}).replace(b"dense1.xxxx", b"dense1.\xff\xfe\xfd\xfc")
        self.refuse("model.npz", bad_name, "is not UTF-8")
        self.assertIn("model.npz", result.err)

    def test_a_real_bomb_takes_no_memory(self):
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        header = npy("<f4", (1 << 28,), b"")
        zeros, crc, size = bytes(1 << 20), zlib.crc32(header), len(header) + (1 << 30)
        data = packer.compress(header)
        for _ in range(1 << 10):
            data += packer.compress(zeros)
            crc = zlib.crc32(zeros, crc)
        data += packer.flush()
        name = b"dense1.bias.npy"
        common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x21, crc, len(data), size, len(name), 0)
        local = b"PK\x03\x04" + common + name + data
        directory = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
        bomb = local + directory + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(directory), len(local), 0)
        self.refuse("model.npz", bomb, "'dense1.bias' is 268435456, but this model needs 10", code=2)

    def test_damaged_exports_are_refused(self):
        self.train("first")
        self.succeed("export", "first", "--format", "hdf5", "--output", "export.h5")
        whole = (self.folder / "export.h5").read_bytes()

        def changed(change):
            self.write("changed.h5", whole)
            with h5py.File(self.folder / "changed.h5", "r+") as file:
                change(file)
            return (self.folder / "changed.h5").read_bytes()

        def replaced(value):
            def change(file):
                del file["parameters/dense1.bias"]
                file["parameters/dense1.bias"] = value

            return changed(change)

        def link(file):
            del file["parameters/dense1.bias"]
            file["parameters/dense1.bias"] = h5py.ExternalLink("other.h5", "x")

        cases = (
            (whole[: len(whole) // 3], "damaged", 4),
            (replaced(numpy.full(10, numpy.inf, "f4")), "tensor 'dense1.bias' has numbers that are not finite", 4),
            (replaced(numpy.arange(10)), "tensor 'dense1.bias' is of the type int64, but weights must be", 4),
            (replaced(numpy.ones(9, "f4")), "'dense1.bias' is 9, but this model needs 10", 2),
            (changed(lambda file: file.create_group("parameters/dense1.more")), "dense1.more is no dataset", 4),
            (changed(lambda file: file["statistics"].create_dataset("dense1.bias", (10,))), "is in two groups", 4),
            (changed(link), "refers to the file 'other.h5', which is not read", 4),
            (changed(lambda file: file.create_group("more")), "is no checkpoint", 4),
        )  # fmt: skip
        for content, message, code in cases:
            if message == "damaged":
                result = self.start("export.h5", content, run="refused", code=code)
                self.assertEqual(len(messages(result)), 1, result)
            else:
                self.refuse("export.h5", content, message, code=code)

    def test_rules_that_do_not_fit_are_refused(self):
        self.write("model.npz", npz(torch_weights()))
        self.train("first")
        cases = (
            (["conv1.weight"], "'conv1.weight' has no '='"),
            (["= x"], "has no name before '='"),
            (["a = b = c"], "has more than one '='"),
            (["conv1.weight = *"], "has more * after '=' than before it"),
            (["conf1.weight = convolution1.weight"], "fits 'conf1.weight' (is it 'conv1.weight'?)"),
            (["none* = x*"], "no tensor of model.npz fits 'none*'; the file has bn1.bias, "),
            (["conv1.weight = convolution.weight", "fc.* = dense1.*"], "this model has no 'convolution.weight'"),
            (["bn1.* = x"], "'bn1.bias' and 'bn1.num_batches_tracked' are both called 'x' here"),
            (["conv1.weight = dense1.weight"], "tensor 'conv1.weight' is 4 × 1 × 5 × 5, but this model needs 10"),
            (["fc.bias = batch_norm1.mean", "conv1.* = convolution1.*"], "'fc.bias' is 10, but this model needs"),
            ([], "no tensor of model.npz has a name of this model; the file has bn1.bias"),
        )
        for rules, message in cases:
            words = (*self.mapped(rules), "--set", "train.initialise_from=model.npz")
            result = self.train("refused", *words, code=2)
            self.assertIn(message, result.err)
            self.assertEqual(len(messages(result)), 1, result)
        result = self.train("refused", *words, code=2, ranks=2)
        self.assertEqual(len(messages(result)), 1, result)
        result = self.unisono("config", "check", "config.toml", *words)
        self.assertEqual(result.code, 2, result)
        for words, message in (
            (self.mapped(MAP), "initialise_from names none"),
            (settings("train.initialise_by=order"), "initialise_from names none"),
            ((*self.mapped(MAP), *settings("train.initialise_from=first")), "is for files of weights, but first is a"),
            (settings("train.initialise_by=order", "train.initialise_from=first"), "initialise_by is for files of"),
            (settings("train.initialise_by=size", "train.initialise_from=first"), "initialise_by"),
        ):
            result = self.train("refused", *words, code=2)
            self.assertIn(message, result.err)

    def test_an_order_that_does_not_fit_says_what_did(self):
        weights = torch_weights()
        weights["fc.weight"] = weights["fc.weight"].T
        result = self.start("model.npz", npz(weights), "--set", "train.initialise_by=order", code=2)
        self.assertIn("'fc.weight' is 576 × 10, but the next block of this model, dense1.weight, is 10 × 4", result.err)
        self.assertIn("before them 5 tensors fitted, the last ones: bn1.weight = batch_norm1.gamma, ", result.err)
        words = ("--set", "train.initialise_by=order")
        result = self.start("model.npz", npz({"n": numpy.int64(3)}), *words, code=2)
        self.assertIn("has no tensor of type F32", result.err)


if __name__ == "__main__":
    unittest.main()
