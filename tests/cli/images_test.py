"""Sets of pictures, from JPEG and PNG files to predictions. Pillow makes the files, and what they should become."""

import io
import itertools
import json
import shutil
import signal
import subprocess
import time
import unittest

import h5py
import numpy
from harness import BINARY, BinaryTest
from PIL import Image

CONFIG = """
name = "pictures"
[data]
path = "set.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 2 }]
[optimizer]
kind = "adam"
learning_rate = 0.01
[train]
epochs = 20
batch_size = 8
threads = 1
"""
ORIENTATION = 0x0112


def photo(width, height, seed=1):
    """Colours that change slowly, so that rounding alone tells decoders apart."""
    random = numpy.random.default_rng(seed)
    small = random.integers(0, 256, (4, 5, 3), "uint8")
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def bytes_of(picture, kind="JPEG", **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


class Images(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("config.toml", CONFIG)

    def stored(self, group="train"):
        with h5py.File(self.folder / "set.h5") as file:
            features, labels = file[f"{group}/features"][:], file[f"{group}/labels"][:]
            return features, labels, [name.decode() for name in file[f"{group}/files"]]

    def imported(self, *options, size="24x16"):
        words = ("data", "import", "images", "photos", "--size", size, "--output", "set.h5", "--overwrite", *options)
        return self.succeed(*words)

    def refused(self, *options, code=3):
        words = ("data", "import", "images", "photos", "--output", "set.h5", "--overwrite", *options)
        result = self.unisono(*words)
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.err.count("unisono: "), 1, result)
        self.assertFalse((self.folder / "set.h5").exists())
        self.assertEqual(list(self.folder.glob("*unfinished*")), [])
        return result.err

    def assert_like(self, values, expected, most=1):
        expected = numpy.asarray(expected).astype(int)
        expected = expected.transpose(2, 0, 1) if expected.ndim == 3 else expected
        self.assertEqual(values.shape, expected.shape)
        self.assertLessEqual(numpy.abs(values.astype(int) - expected).max(), most)

    def test_kinds_of_files_become_what_pillow_makes_of_them(self):
        rgb = photo(40, 30)
        ink = rgb.convert("CMYK")
        clear = numpy.dstack([numpy.asarray(rgb), numpy.linspace(0, 255, 1200).astype("uint8").reshape(30, 40)])
        white = Image.new("RGBA", rgb.size, "white")
        white.alpha_composite(Image.fromarray(clear))
        deep = numpy.linspace(0, 65535, 1200).astype("uint16").reshape(30, 40)
        high = Image.fromarray((deep >> 8).astype("uint8")).convert("RGB")
        cases = {
            "a.jpg": (bytes_of(rgb, quality=95), None),
            "b.jpeg": (bytes_of(rgb.convert("L"), quality=95), None),
            "c.jpg": (bytes_of(ink, quality=95), None),
            "d.jpg": (bytes_of(rgb, progressive=True), None),
            "e.png": (bytes_of(rgb, "PNG"), rgb),
            "f.png": (bytes_of(rgb.convert("L"), "PNG"), rgb.convert("L").convert("RGB")),
            "g.png": (bytes_of(Image.fromarray(clear), "PNG"), white.convert("RGB")),
            "h.png": (bytes_of(rgb.quantize(16), "PNG"), rgb.quantize(16).convert("RGB")),
            "i.png": (bytes_of(rgb.convert("1"), "PNG"), rgb.convert("1").convert("RGB")),
            "j.png": (bytes_of(Image.fromarray(deep), "PNG"), high),
            "k.JPG": (bytes_of(rgb, "PNG"), rgb),
        }
        for name, (content, _) in cases.items():
            self.write(f"photos/all/{name}", content)
        self.write("photos/other/z.png", bytes_of(rgb, "PNG"))
        self.imported(size="40x30")
        features, labels, files = self.stored()
        self.assertEqual(files, [f"all/{name}" for name in sorted(cases)] + ["other/z.png"])
        self.assertEqual(labels.tolist(), [0] * len(cases) + [1])
        for values, name in zip(features, sorted(cases)):
            content, expected = cases[name]
            with self.subTest(name):
                expected = expected or Image.open(io.BytesIO(content)).convert("RGB")
                self.assert_like(values, expected, 2 if name == "c.jpg" else 1)

    def test_pictures_are_cut_padded_or_stretched(self):
        for shape in ((40, 30), (30, 40), (90, 20), (24, 16)):
            picture = photo(*shape)
            self.write("photos/a/a.png", bytes_of(picture, "PNG"))
            self.write("photos/b/b.png", bytes_of(picture, "PNG"))
            width, height = shape
            share = min(width / 24, height / 16)
            box = ((width - 24 * share) / 2, (height - 16 * share) / 2)
            box += (width - box[0], height - box[1])
            bilinear = Image.Resampling.BILINEAR
            whole = max(width / 24, height / 16)
            inner = (round(width / whole), round(height / whole))
            padded = Image.new("RGB", (24, 16))
            padded.paste(picture.resize(inner, bilinear), ((24 - inner[0]) // 2, (16 - inner[1]) // 2))
            expected = {
                "crop": picture.resize((24, 16), bilinear, box=box),
                "stretch": picture.resize((24, 16), bilinear),
                "pad": padded,
            }
            for fit, image in expected.items():
                with self.subTest(shape=shape, fit=fit):
                    self.imported("--fit", fit)
                    self.assert_like(self.stored()[0][0], image, 0)
                    self.imported("--fit", fit, "--colours", "grey")
                    self.assert_like(self.stored()[0][0], image.convert("L"), 2)

    def test_a_part_of_a_jpeg_is_decoded_as_in_the_whole(self):
        pictures = []
        for i, (subsampling, progressive) in enumerate(itertools.product((0, 1, 2), (False, True))):
            content = bytes_of(photo(201 + 7 * i, 153 + 5 * i, i), subsampling=subsampling, progressive=progressive)
            pictures.append(Image.open(io.BytesIO(content)).convert("RGB"))
            self.write(f"photos/a/{i}.jpg", content)
        self.write("photos/b/b.jpg", content)
        for centre in (1, 0.6, 0.3):
            self.imported("--centre", str(centre), size="90x60")
            for picture, values in zip(pictures, self.stored()[0]):
                width, height = picture.size
                share = min(width / 90, height / 60) * centre
                left, top = max(0, (width - 90 * share) / 2), max(0, (height - 60 * share) / 2)
                box = (left, top, min(width, left + 90 * share), min(height, top + 60 * share))
                self.assert_like(values, picture.resize((90, 60), Image.Resampling.BILINEAR, box=box), 0)

    def test_pictures_stand_upright(self):
        picture = photo(40, 30)
        turns = Image.Transpose
        stored_as = [
            None,
            turns.FLIP_LEFT_RIGHT,
            turns.ROTATE_180,
            turns.FLIP_TOP_BOTTOM,
            turns.TRANSPOSE,
            turns.ROTATE_90,
            turns.TRANSVERSE,
            turns.ROTATE_270,
        ]
        for orientation, turn in enumerate(stored_as, 1):
            exif = Image.Exif()
            exif[ORIENTATION] = orientation
            stored = picture if turn is None else picture.transpose(turn)
            self.write(f"photos/a/{orientation}.jpg", bytes_of(stored, exif=exif, quality=98, subsampling=0))
            self.write(f"photos/a/{orientation}.png", bytes_of(stored, "PNG", exif=exif))
        self.write("photos/b/0.png", bytes_of(picture, "PNG"))
        self.imported(size="40x30")
        for values in self.stored()[0]:
            self.assert_like(values, picture, 6)

    def test_a_large_jpeg_is_scaled_while_it_is_decoded(self):
        picture = photo(1600, 1200)
        self.write("photos/a/a.jpg", bytes_of(picture, quality=98))
        self.write("photos/b/b.jpg", bytes_of(picture, quality=98))
        self.imported(size="40x30")
        self.assert_like(self.stored()[0][0], picture.resize((40, 30), Image.Resampling.BILINEAR), 3)

    def make_classes(self, split="", count=12):
        for seed in range(count):
            for name, colour in (("Äpfel grün", (40, 200, 60)), ("cats", (200, 60, 40))):
                picture = numpy.asarray(photo(30, 30, seed)) // 4 + numpy.array(colour, "uint8") // 2
                self.write(f"photos/{split}{name}/nr {seed:02}.jpg", bytes_of(Image.fromarray(picture.astype("uint8"))))

    def test_from_folders_to_predictions(self):
        self.make_classes()
        result = self.imported("--validation-fraction", "0.25", size="16")
        self.assertIn("set.h5: 18 training, 6 validation and 0 test examples of 3×16×16, 2 classes", result.out)
        self.train("run")
        self.assertEqual(self.summary("run")["validation"]["accuracy"], 1)
        self.make_classes("new/", 2)
        (self.folder / "photos/new").rename(self.folder / "new")
        for ranks in (0, 2):
            self.succeed("predict", "run", "--input", "new", "--output", "p.csv", "--overwrite", ranks=ranks)
            lines = (self.folder / "p.csv").read_text().splitlines()
            self.assertTrue(lines[0].startswith("example,file,"), lines[0])
            self.assertEqual([line.split(",")[1] for line in lines[1:]][:2], ["cats/nr 00.jpg", "cats/nr 01.jpg"])
            self.assertTrue(all("cats" in line.split(",", 2)[2] for line in lines[1:3]), lines)
        self.assertRegex(self.succeed("evaluate", "run", "--input", "new").out, r"4 examples\n.*\n  accuracy +1\n")
        self.succeed("predict", "run", "--input", "new/cats/nr 00.jpg", "--output", "p.csv", "--overwrite")
        lines = (self.folder / "p.csv").read_text().splitlines()
        self.assertEqual(lines[1].split(",")[:2], ["0", "nr 00.jpg"])
        self.succeed("predict", "run", "--split", "train", "--data", "set.h5", "--output", "p.csv", "--overwrite")

    def test_folders_of_their_own_for_each_split(self):
        for split in ("train/", "val/", "test/"):
            self.make_classes(split, 2)
        result = self.imported()
        self.assertIn("4 training, 4 validation and 4 test examples", result.out)
        self.assertEqual(self.stored("validation")[2][0], "val/cats/nr 00.jpg")
        (self.folder / "set.h5").unlink()
        self.assertIn("remove the options", self.refused("--size", "8", "--test-fraction", "0.5", code=2))
        shutil.rmtree(self.folder / "photos/train")
        self.assertIn("has the folder 'test', but no folder 'train'", self.refused("--size", "8"))

    def test_damaged_files_are_named(self):
        self.make_classes(count=3)
        whole = bytes_of(photo(200, 150), quality=95)
        png = bytes_of(photo(60, 50), "PNG")
        cases = {
            "cut.jpg": (whole[: len(whole) // 2], "is a damaged JPEG file"),
            "head.jpg": (whole[:20], "is a damaged JPEG file"),
            "cut.png": (png[: len(png) // 2], "is a damaged PNG file"),
            "bits.png": (png[:60] + b"\x13\x37" + png[62:], "is a damaged PNG file"),
            "text.jpg": (b"no picture", "is neither a JPEG nor a PNG file"),
            "empty.png": (b"", "is empty"),
            # A header that claims 100,000 × 100,000 pixels.
            "huge.png": (png[:16] + (100000).to_bytes(4, "big") * 2 + png[24:], ""),
        }
        for name, (content, why) in cases.items():
            with self.subTest(name):
                path = self.write(f"photos/cats/{name}", content)
                message = self.refused("--size", "16")
                self.assertIn(f"photos/cats/{name}: {why}", message)
                self.assertIn("--skip-damaged", message)
                path.unlink()
        for name, (content, _) in cases.items():
            self.write(f"photos/cats/{name}", content)
        self.write("photos/cats/notes.txt", b"text")
        result = self.imported("--skip-damaged")
        self.assertIn("6 training", result.out)
        for name in cases:
            self.assertEqual(result.out.count(f"warning: left out: photos/cats/{name}: "), 1, result)
        self.assertIn("left out: 1 file, which is neither .jpg, .jpeg nor .png, such as cats/notes.txt", result.out)

    def test_other_layouts_are_refused(self):
        self.assertIn("photos: is not a folder", self.refused("--size", "16"))
        (self.folder / "photos").mkdir()
        self.assertIn("each class needs a folder", self.refused("--size", "16"))
        self.write("photos/a.png", bytes_of(photo(8, 8), "PNG"))
        self.assertIn("lies in no folder of a class", self.refused("--size", "16"))
        (self.folder / "photos/a.png").unlink()
        (self.folder / "photos/empty").mkdir()
        self.write("photos/a/a.png", bytes_of(photo(8, 8), "PNG"))
        self.assertIn("photos/empty: has no JPEG or PNG files", self.refused("--size", "16"))
        (self.folder / "photos/empty").rmdir()
        for size in ("0", "12x", "x", "axb", "3.5", "-3", "16x16x3"):
            self.assertIn(f"--size {size}", self.refused(f"--size={size}", code=2))
        self.assertIn("--size, --centre: images of", self.refused("--size", "100000x100000", code=2))
        for centre in ("0", "5", "nan"):
            self.assertIn("--size, --centre: a share of", self.refused("--size", "8", "--centre", centre, code=2))
        self.assertIn("remove one of them", self.refused("--size", "8", "--centre", "0.5", "--fit", "pad", code=2))
        (self.folder / "photos/a").rename(self.folder / "a")
        for name in ("train/a", "test/b"):
            self.write(f"photos/{name}/a.png", bytes_of(photo(8, 8), "PNG"))
        self.assertIn("'b' is no class of the training pictures", self.refused("--size", "16"))

    def test_a_table_names_the_files_and_their_classes(self):
        for seed in range(6):
            self.write(f"photos/day {seed % 2}/{seed}.png", bytes_of(photo(20, 20, seed), "PNG"))
        lines = ["name,kind,part"] + [f"day {i % 2}/{i}.png,{'dog' if i < 3 else 'cat'},train" for i in range(6)]
        lines[2] = lines[2].replace("train", "val")
        table = self.write("list.csv", "\n".join(lines) + "\n")
        options = ("--list", "list.csv", "--file-column", "name", "--label-column", "kind")
        result = self.imported(*options, "--split-column", "part")
        self.assertIn("5 training, 1 validation and 0 test examples of 3×16×24, 2 classes", result.out)
        with h5py.File(self.folder / "set.h5") as file:
            self.assertEqual([name.decode() for name in file.attrs["class_names"]], ["cat", "dog"])
        self.assertEqual(self.stored()[1].tolist(), [1, 1, 0, 0, 0])
        self.assertEqual(self.stored()[2][1], "day 0/2.png")
        self.assertEqual(self.stored("validation")[2], ["day 1/1.png"])
        self.imported(*options, "--encoded", "--test-fraction", "0.5")
        with h5py.File(self.folder / "set.h5") as file:
            self.assertEqual(len(file["train/ends"]), 3)
        (self.folder / "set.h5").unlink()
        size = ("--size", "8")
        refusal = self.refused(*size, "--list", "list.csv", code=2)
        self.assertIn("--file-column 'file': there is no such column", refusal)
        split = (*options, "--split-column", "part")
        self.assertIn("remove the options", self.refused(*size, *split, "--test-fraction", "0.5", code=2))
        table.write_text("\n".join(lines).replace("val", "valley"))
        self.assertIn("list.csv:3: 'valley' is no split", self.refused(*size, *split))
        table.write_text("\n".join(lines).replace("1/5", "1/7"))
        self.assertRegex(self.refused(*size, *options), r"list\.csv:7: .*name.*photos/day 1/7.png is no file")
        self.assertIn("left out: photos/day 1/7.png", self.imported(*options, "--skip-damaged", "--encoded").out)
        (self.folder / "set.h5").unlink()
        table.write_text("\n".join(lines).replace("1/5", "1/3"))
        self.assertRegex(self.refused(*size, *options), r"list\.csv:7: .*day 1/3.png is listed twice")
        table.write_text("\n".join(lines).replace("train", "test"))
        self.assertIn("list.csv: there are no pictures for training", self.refused(*size, *split))
        table.write_text("\n".join(lines).replace("day 1/5.png", ""))
        self.assertRegex(self.refused(*size, *options), r"list\.csv:7: .*the file is empty")
        words = ("data", "import", "images", "photos", *size, "--output", "a.h5", *options[2:])
        self.assertEqual(self.unisono(*words).code, 2)

    def make_photos(self, count=10):
        """JPEG files of several sizes; the classes differ in their colours."""
        for seed in range(count):
            for name, colour in (("Äpfel grün", (40, 200, 60)), ("cats", (200, 60, 40))):
                picture = numpy.asarray(photo(50 + 7 * seed, 90 - 4 * seed, seed)) // 4 + numpy.array(colour) // 2
                content = bytes_of(Image.fromarray(picture.astype("uint8")), quality=95)
                self.write(f"photos/{name}/nr {seed:02}.jpg", content)

    def test_files_that_are_kept_become_the_images_that_an_import_of_images_holds(self):
        self.make_photos()
        self.imported("--encoded", "--validation-fraction", "0.25", "--centre", "0.8")
        with h5py.File(self.folder / "set.h5") as file:
            ends, names = file["train/ends"][:], [name.decode() for name in file["train/files"]]
            content = bytes(file["train/pictures"][ends[3] : ends[4]])
        self.assertEqual(content, (self.folder / "photos" / names[4]).read_bytes())
        self.train("kept")
        (self.folder / "set.h5").rename(self.folder / "kept.h5")
        self.imported("--validation-fraction", "0.25", "--centre", "0.8")
        self.train("images")
        for split in ("train", "validation"):
            losses = [self.summary(run)[split]["loss"] for run in ("kept", "images")]
            self.assertEqual(*losses)
        described = self.succeed("data", "describe", "kept.h5").out
        self.assertRegex(described, r"pictures  15 in [0-9.]+ KiB of JPEG and PNG files")
        lines = self.succeed("evaluate", "kept", "--data", "kept.h5", "--split", "validation").out.splitlines()
        other = self.succeed("evaluate", "kept", "--data", "set.h5", "--split", "validation").out.splitlines()
        self.assertEqual(lines[2:], other[2:])
        self.imported("--validation-fraction", "0.25")
        result = self.unisono("evaluate", "kept", "--data", "set.h5")
        self.assertEqual(result.code, 3)
        self.assertIn("24 × 16, crop, rgb, centre 1) than those that the model was trained on (24 × 16, crop, rgb, "
                      "centre 0.8)", result.err)
        (self.folder / "photos").rename(self.folder / "new")
        self.succeed("predict", "kept", "--input", "new", "--output", "p.csv")
        self.assertIn("0,cats/nr 00.jpg,0,cats,0,cats,", (self.folder / "p.csv").read_text())

    def test_augmented_pictures_train_to_the_same_model_on_any_ranks_and_threads(self):
        self.make_photos()
        self.imported("--encoded")
        changes = ("crop_area=0.3", "horizontal_flip=true", "rotation=10", "hue=0.1", "contrast=0.2", "erasing=0.3")
        options = [f"data.augmentation.{change}" for change in changes] + ["data.pictures.height=12", "train.epochs=3"]
        sets = [word for option in options for word in ("--set", option)]
        results = []
        for name, ranks, threads in (("a", 0, 1), ("b", 0, 3), ("c", 2, 2)):
            self.train(name, *sets, "--set", f"data.pictures.threads={threads}", ranks=ranks)
            results.append(self.summary(name)["train"]["loss"])
        self.assertEqual(results[0], results[1])
        # Two ranks add the gradients of eight examples in another order.
        self.assertAlmostEqual(results[0], results[2], delta=1e-5 * results[0])

    def test_kept_files_that_are_damaged_are_named(self):
        self.make_photos(4)
        whole = bytes_of(photo(200, 150), quality=95)
        png = bytes_of(photo(60, 50), "PNG")
        cases = {
            "cut.jpg": (whole[: len(whole) // 2], "is a damaged JPEG file: it is cut off"),
            "head.jpg": (whole[:20], "is a damaged JPEG file"),
            "cut.png": (png[: len(png) // 2], "is a damaged PNG file: it is cut off"),
            "bits.png": (png[:60] + b"\x13\x37" + png[62:], "is a damaged PNG file: wrong checksum"),
            "text.jpg": (b"no picture", "is neither a JPEG nor a PNG file"),
        }
        for name, (content, why) in cases.items():
            with self.subTest(name):
                path = self.write(f"photos/cats/{name}", content)
                self.assertIn(f"photos/cats/{name}: {why}", self.refused("--size", "16", "--encoded"))
                path.unlink()
        for name, (content, _) in cases.items():
            self.write(f"photos/cats/{name}", content)
        result = self.imported("--skip-damaged", "--encoded")
        self.assertIn("8 training", result.out)
        for name in cases:
            self.assertEqual(result.out.count(f"warning: left out: photos/cats/{name}: "), 1, result)
        self.train("run", "--set", "train.epochs=1")
        (self.folder / "photos/cats/nowhere.jpg").symlink_to("nothing")
        self.assertIn("left out: photos/cats/nowhere.jpg", self.imported("--skip-damaged", "--encoded").out)
        # Only a decoder finds that a half is missing.
        self.write("photos/cats/wrong.jpg", whole[: len(whole) // 2] + whole[-2:])
        self.imported("--skip-damaged", "--encoded")
        for ranks in (0, 2):
            result = self.unisono("train", "config.toml", "--output", f"bad{ranks}", ranks=ranks)
            self.assertEqual(result.code, 3, result)
            self.assertEqual(result.err.count("is a damaged JPEG file"), 1, result)
            self.assertRegex(result.err, r"set\.h5: /train/pictures: example 4 \(cats/wrong\.jpg\): is a damaged")
            self.assertIn("--verify", result.err)
        result = self.imported("--skip-damaged", "--encoded", "--verify")
        self.assertIn("left out: photos/cats/wrong.jpg", result.out)

    def test_a_model_of_pictures_asks_for_pictures(self):
        self.make_classes(count=4)
        self.imported(size="8")
        self.train("run")
        (self.folder / "photos/cats").rename(self.folder / "photos/lions")
        result = self.unisono("evaluate", "run", "--input", "photos")
        self.assertEqual(result.code, 3)
        self.assertIn("photos/lions/nr 00.jpg: lies in no folder of one of the model's classes", result.err)
        result = self.succeed("predict", "run", "--input", "photos", "--output", "p.csv")
        self.assertIn("the file's labels or targets are ignored", result.out + result.err)
        self.write("damaged.jpg", b"text")
        result = self.unisono("predict", "run", "--input", "damaged.jpg", "--output", "q.csv")
        self.assertIn("damaged.jpg: is neither a JPEG nor a PNG file; remove or replace it", result.err)
        self.write("table.csv", "a,b\n1,2\n")
        result = self.unisono("predict", "run", "--input", "table.csv", "--output", "p.csv")
        self.assertEqual(result.code, 3)
        self.assertIn("table.csv: is neither a JPEG nor a PNG file", result.err)

    def content(self):
        """The values of all datasets."""
        values = {}
        with h5py.File(self.folder / "set.h5") as file:
            file.visititems(lambda name, what: values.update({name: what}) if hasattr(what, "shape") else None)
            return {name: what[:].tolist() for name, what in values.items()}

    def test_held_out_pictures_are_named_and_other_sets_are_not_divided(self):
        self.make_photos()
        self.imported("--encoded")
        self.train("run", "--set", "data.validation_fraction=0.3")
        self.succeed("predict", "run", "--data", "set.h5", "--split", "validation", "--output", "p.csv")
        with h5py.File(self.folder / "set.h5") as file:
            names, labels = [name.decode() for name in file["train/files"]], file["train/labels"][:]
        lines = (self.folder / "p.csv").read_text().splitlines()
        self.assertEqual(lines[0].split(",")[:3], ["example", "file", "label"])
        rows = [line.split(",") for line in lines[1:]]
        self.assertEqual(len({row[1] for row in rows}), 6)
        self.assertEqual([int(row[2]) for row in rows], [labels[names.index(row[1])] for row in rows])
        self.succeed("report", "run", "--examples", "6", "--output", "page.html")
        self.assertTrue(all(row[1] in (self.folder / "page.html").read_text() for row in rows))
        # The same set elsewhere has the same held-out examples; of another one nothing is held out.
        shutil.copy(self.folder / "set.h5", self.folder / "moved.h5")
        evaluated = json.loads(self.succeed("evaluate", "run", "--data", "moved.h5", "--split", "train", "--json").out)
        self.assertEqual(evaluated["examples"], 14)
        (self.folder / "photos/cats/nr 00.jpg").unlink()
        self.imported("--encoded")
        evaluated = json.loads(self.succeed("evaluate", "run", "--data", "set.h5", "--split", "train", "--json").out)
        self.assertEqual(evaluated["examples"], 19)

    def test_info_predicts_the_memory_of_decoding(self):
        shape, threads = (2400, 3000, 3), 2
        for name in ("cats/a", "dogs/b"):
            large = photo(shape[1], shape[0])
            self.write(f"photos png/{name}.png", bytes_of(large, "PNG"))
            progressive = bytes_of(large, quality=90, progressive=True, subsampling="4:2:0")
            self.write(f"photos jpg/{name}.jpg", progressive)
        # A PNG is decoded as a whole; of a progressive JPEG all coefficients are held: with two of four colours' values
        # left out, 1.5 × 2 bytes for each pixel.
        for ending in ("png", "jpg"):
            words = ("data", "import", "images", f"photos {ending}", "--size", "16", "--encoded", "--output", "set.h5")
            self.succeed(*words, "--overwrite")
            options = ("--set", "train.epochs=1", "--set", f"data.pictures.threads={threads}")
            told = json.loads(self.succeed("info", "config.toml", *options, "--json").out)
            decoding = told["memory"]["decoding of pictures"]
            pixels = numpy.prod(shape)
            self.assertTrue(threads * pixels <= decoding <= 1.1 * threads * pixels, (ending, decoding))
            self.train("run", *options, "--overwrite")
            self.assertLess(abs(self.summary("run")["peak_memory_bytes"] / told["peak_memory_bytes"] - 1), 0.25, ending)

    def test_imports_that_are_killed_leave_the_set_that_was_there_or_the_whole_new_one(self):
        for i in range(60):
            self.write(f"photos/{'ab'[i % 2]}/{i}.jpg", bytes_of(photo(320, 240, i)))
        sets = {}
        for form in (("--size", "40x30"), ("--encoded", "--size", "24x16")):
            self.imported(*form[:-2], size=form[-1])
            sets[form] = self.content()
        kills = 0
        for i in range(12):
            form = list(sets)[i % 2]
            words = [BINARY, "data", "import", "images", "photos", *form, "--output", "set.h5", "--overwrite"]
            with subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL) as process:
                time.sleep(0.004 * i)
                process.kill()
            kills += process.returncode == -signal.SIGKILL
            self.assertIn(self.content(), sets.values())
        self.assertGreater(kills, 0)
        self.imported(size="40x30")
        self.assertEqual(list(self.folder.glob("*unfinished*")), [])


if __name__ == "__main__":
    unittest.main()
