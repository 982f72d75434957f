"""`predict --stream`: lines of standard input, as they come, with the predictions of `predict --input`."""

import contextlib
import csv
import io
import os
import pathlib
import random
import signal
import subprocess
import unittest

import h5py
import numpy

try:
    from PIL import Image
except ImportError:
    Image = None

from harness import AT_ONCE, BinaryTest, command, network_of_table, settings

NETWORK = network_of_table(8)

TEXTS = """
name = "texts"
[data]
path = "set.h5"
context = 12
[model]
layers = [{ kind = "embedding", units = 8 }, { kind = "sequence_pool" }, { kind = "dense", units = 2 }]
[optimizer]
kind = "adam"
learning_rate = 0.01
[train]
epochs = 1
batch_size = 8
threads = 1
"""


LINEAR = """
name = "rows"
[data]
path = "set.h5"
[model]
kind = "linear"
[optimizer]
kind = "sgd"
learning_rate = 0.1
[train]
epochs = 1
batch_size = 8
"""

FACTORS = """
name = "ratings"
[data]
path = "set.h5"
[model]
kind = "factorization"
dimension = 4
[strategy]
kind = "serial"
[optimizer]
kind = "sgd"
learning_rate = 0.05
[train]
epochs = 1
"""


def rows_of(count, seed=1):
    """Two numbers, a colour, and a class that depends on them."""
    draw = random.Random(seed)
    for _ in range(count):
        x, y, colour = draw.gauss(3, 1), draw.gauss(0, 2), draw.choice(("red", "green", "blue"))
        yield f"{x:.4f},{y:.4f},{colour},{'late' if x + y > 3 else 'early'}"


class StreamTest(BinaryTest):
    def streamed(self, text, *options, code=0, model="run", ranks=0):
        done = subprocess.run(
            command(ranks, "predict", model, "--stream", *options),
            cwd=self.folder,
            input=text if isinstance(text, bytes) else text.encode(),
            capture_output=True,
            timeout=120,
            env={**os.environ, **AT_ONCE},
        )
        self.assertEqual(done.returncode, code, done)
        if code != 0:
            self.assertEqual(done.stderr.decode().count("unisono: "), 1, done)
            return done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    @contextlib.contextmanager
    def stream(self, *options):
        """A stream in the background, which is gone when the block ends."""
        process = subprocess.Popen(
            command(0, "predict", "run", "--stream", *options),
            cwd=self.folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **AT_ONCE},
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def predicted(self, file, answers=()):
        """What `predict --input` writes, without the known answers and the names of files."""
        self.succeed("predict", "run", "--input", file, "--output", "p.csv", "--overwrite")
        with open(self.folder / "p.csv", newline="") as table:
            rows = list(csv.DictReader(table))
        left_out = {"file", "label", "label_name", "target", *answers}
        return [{name: value for name, value in row.items() if name not in left_out} for row in rows]

    def rows(self, text):
        return list(csv.DictReader(io.StringIO(text)))

    def train_rows(self):
        self.write("set.csv", "\n".join(["x,y,colour,kind", *rows_of(120)]) + "\n")
        self.succeed("data", "import", "csv", "set.csv", "--label", "kind", "--standardize", "--output", "set.h5")
        self.write("config.toml", NETWORK.format(loss="softmax_cross_entropy", units=2))
        self.train("run", *settings("train.epochs=1"))


class Tables(StreamTest):
    def setUp(self):
        super().setUp()
        self.train_rows()
        self.new = ["x,y,colour,kind", *rows_of(50, 2)]
        self.write("new.csv", "\n".join(self.new) + "\n")
        self.expected = self.predicted("new.csv")

    def test_rows_of_a_table_get_the_predictions_of_a_file(self):
        self.assertEqual(set(self.expected[0]), {"example", "class", "class_name", "p0", "p1"})
        for options in ((), ("--batch-size", "7"), ("--batch-size", "1"), ("--threads", "2")):
            self.assertEqual(self.rows(self.streamed("\n".join(self.new) + "\n", *options)), self.expected)
        # Other breaks between lines, empty ones, no break at the end; other columns, in another order.
        self.assertEqual(self.rows(self.streamed("\r\n".join(self.new))), self.expected)
        self.assertEqual(self.rows(self.streamed("\n\n".join(self.new) + "\n\n \n")), self.expected)
        turned = [";".join([line.split(",")[i] for i in (2, 1, 0)] + ["7"]) for line in self.new]
        turned[0] = "colour;y;x;more"
        self.assertEqual(self.rows(self.streamed("\n".join(turned))), self.expected)
        self.assertEqual(self.streamed(self.new[0] + "\n"), "example,class,class_name,p0,p1\n")
        self.assertEqual(self.streamed(""), "example,class,class_name,p0,p1\n")
        self.assertIn("example,y0,y1,y2", self.streamed("\n".join(self.new), "--layer", "dense1"))
        self.assertEqual(list(self.folder.glob(".unisono*")), [])

    def test_a_line_is_answered_before_the_next_one_comes(self):
        with self.stream() as process:
            self.assertEqual(process.stdout.readline(), "example,class,class_name,p0,p1\n")
            process.stdin.write(self.new[0] + "\n")
            for line, expected in zip(self.new[1:6], self.expected):
                process.stdin.write(line[:5])  # half a line is none
                process.stdin.flush()
                process.stdin.write(line[5:] + "\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), ",".join(expected.values()) + "\n")
            process.stdin.close()
            self.assertEqual(process.wait(60), 0)

    def test_the_first_wrong_line_is_named_after_the_predictions_before_it(self):
        wrong = {"1,x,red,early": "'x' is not a number", "1,2,grey,early": "'grey', which the model was not trained on",
                 "1,2,red": "has 3 fields", "1,,red,late": "the value is missing"}
        for line, message in wrong.items():
            lines = [*self.new[:4], "", line, *self.new[4:6]]
            out, err = self.streamed("\n".join(lines), code=3)
            self.assertEqual(self.rows(out), self.expected[:3])
            self.assertRegex(err, r"^unisono: data error: standard input:6[:,]")
            self.assertIn(message, err)
            self.assertNotIn("unisono-", err)
        # The names are checked as soon as they are there.
        for names, message in {"a,b": "none of the column names", "x,y,kind": "no column 'colour'",
                               "x,x,y,colour": "two columns are named 'x'", self.new[1]: "none of the column names",
                               "x,y,col\0our": "a zero byte", "x,y,colour\r1,2,red": "line"}.items():
            out, err = self.streamed(f"\n{names}\n", code=3)
            self.assertEqual(len(out.splitlines()), 1)
            self.assertRegex(err, r"^unisono: data error: standard input:2:")
            self.assertIn(message, err)

    def test_a_line_is_one_row(self):
        lines = [self.new[0], self.new[1], '2,3,"gr', self.new[2], 'een",early', self.new[3]]
        for options in ((), ("--batch-size", "1")):
            out, err = self.streamed("\n".join(lines), *options, code=3)
            self.assertEqual(self.rows(out), self.expected[:1])
            self.assertIn("standard input:3:", err)
            both = [self.new[0], self.new[1], self.new[2] + "\r" + self.new[3], self.new[4]]
            out, err = self.streamed("\n".join(both), *options, code=3)
            self.assertEqual(self.rows(out), self.expected[:1])
            self.assertIn("standard input:3: 1 example of one line each are expected, and there are 2", err)

    def test_options_that_name_files_are_refused(self):
        for options in (("--output", "p.csv"), ("--input", "new.csv"), ("--data", "set.h5"), ("--top", "3"),
                        ("--keep", "x"), ("--ensemble", "run")):
            self.assertIn("excludes", self.streamed("", *options, code=2)[1])
        self.assertIn("start it without mpirun", self.streamed("", code=5, ranks=2)[1])
        result = self.unisono("predict", "run")
        self.assertEqual(result.code, 2)
        self.assertIn("--output is missing", result.err)


class OtherExamples(StreamTest):
    def test_rows_of_libsvm(self):
        draw = random.Random(3)
        lines = []
        for _ in range(60):
            columns = sorted(draw.sample(range(1, 9), 3))
            lines.append(f"{draw.choice((-1, 1))} " + " ".join(f"{i}:{draw.random():.3f}" for i in columns))
        self.write("set.txt", "\n".join(lines) + "\n")
        self.succeed("data", "import", "libsvm", "set.txt", "--columns", "8", "--output", "set.h5")
        self.write("config.toml", LINEAR)
        self.train("run")
        self.write("new.txt", "\n".join(lines[:9]) + "\n")
        stream = "# a comment\n" + "\n".join(lines[:9]) + "\n"
        self.assertEqual(self.rows(self.streamed(stream)), self.predicted("new.txt"))
        out, err = self.streamed(stream + "1 3:x\n", code=3)
        self.assertEqual(len(self.rows(out)), 9)
        self.assertIn("standard input:11:", err)

    def test_stored_values(self):
        self.train("run", *settings("train.epochs=1"))
        with h5py.File(self.folder / "digits.h5") as file:
            images = file["test/features"][:20]
        is_bytes = images.dtype == numpy.uint8
        self.write("new.npy", b"")
        numpy.save(self.folder / "new.npy", images)
        lines = [" ".join(str(value) for value in image.reshape(-1)) for image in images]
        expected = self.predicted("new.npy")
        self.assertEqual(self.rows(self.streamed("\n".join(lines))), expected)
        self.assertEqual(self.rows(self.streamed("\n".join(line.replace(" ", ", ") for line in lines))), expected)
        out, err = self.streamed("\n".join([*lines[:2], lines[2] + " 1"]), code=3)
        self.assertEqual(self.rows(out), expected[:2])
        size = images[0].size
        self.assertIn(f"standard input:3: the line has {size + 1} values, but the model takes {size}", err)
        self.assertIn("standard input:1: 'x' is not a number", self.streamed("x" + lines[0][1:], code=3)[1])
        same = " ".join("+" + value + ".0" for value in lines[0].split(" "))
        self.assertEqual(self.rows(self.streamed(same)), expected[:1])
        for value in ("nan", "inf", "1e39", "-1e400", "0x1", ""):
            self.streamed(value + lines[0][1:], code=3)
        if is_bytes:
            self.assertIn("is not a whole number from 0 to 255", self.streamed("0.5" + lines[0][1:], code=3)[1])

    def test_texts(self):
        draw = random.Random(4)
        texts = ["".join(draw.choice("abcd ") for _ in range(9)) + "e" for _ in range(60)]
        rows = [f"{text},{draw.choice(('one', 'two'))}" for text in texts]
        self.write("set.csv", "\n".join(["text,class", *rows]) + "\n")
        self.succeed("data", "import", "tokens", "set.csv", "--tokenizer", "characters", "--text-column", "text",
                     "--label-column", "class", "--output", "set.h5")
        self.write("config.toml", TEXTS)
        self.train("run")
        new = ["text", *(row.split(",")[0] for row in rows[:5])]
        self.write("new.csv", "\n".join(new) + "\n")
        self.assertEqual(self.rows(self.streamed("\n".join(new))), self.predicted("new.csv"))

    @unittest.skipIf(Image is None, "Pillow is not installed")
    def test_paths_of_pictures(self):
        draw = numpy.random.default_rng(5)
        for i in range(12):
            for name, level in (("dark", 60), ("light", 180)):
                path = self.write(f"photos/{name}/nr {i:02}.png", b"")
                Image.fromarray((level + draw.integers(0, 40, (9, 11, 3))).astype("uint8")).save(path)
        self.succeed("data", "import", "images", "photos", "--size", "8", "--output", "set.h5")
        self.write("config.toml", NETWORK.format(loss="softmax_cross_entropy", units=2))
        self.train("run", *settings("train.epochs=1"))
        names = [f"photos/{name}/nr 0{i}.png" for name in ("dark", "light") for i in range(3)]
        expected = []
        for i, name in enumerate(names):
            expected += [{**row, "example": str(i)} for row in self.predicted(name)]
        self.assertEqual(self.rows(self.streamed("\n".join(names) + "\n")), expected)
        out, err = self.streamed("\n".join([*names[:2], "nowhere.png"]), code=3)
        self.assertEqual(self.rows(out), expected[:2])
        self.assertIn("standard input:3: nowhere.png: there is no such file", err)
        os.symlink("loop.png", self.folder / "loop.png")
        for wrong, message in {"loop.png": "loop.png: ", "A" * 300 + ".png": "A.png: ", "photos": "photos: is no file",
                               "photos/\0.png": "a zero byte", "config.toml": "config.toml: "}.items():
            out, err = self.streamed("\n".join([names[0], wrong, names[1]]), code=3)
            self.assertEqual(self.rows(out), expected[:1])
            self.assertIn("standard input:2: ", err)
            self.assertIn(message, err)
        # What a picture is, its content says, and not its name.
        self.write("picture.txt", (self.folder / names[1]).read_bytes())
        self.assertEqual(self.rows(self.streamed(names[0] + "\npicture.txt\n")), expected[:2])
        self.write("broken.png", (self.folder / names[0]).read_bytes()[:60])
        out, err = self.streamed("\n".join([names[0], "broken.png"]), code=3)
        self.assertEqual(self.rows(out), expected[:1])
        self.assertRegex(err, r"standard input:2: broken\.png")

    @unittest.skipIf(Image is None, "Pillow is not installed")
    def test_a_signal_leaves_nothing_behind(self):
        for i in range(4):
            path = self.write(f"photos/{'ab'[i % 2]}/{i}.png", b"")
            Image.fromarray(numpy.full((9, 9, 3), 40 * i, "uint8")).save(path)
        self.succeed("data", "import", "images", "photos", "--size", "8", "--output", "set.h5")
        self.write("config.toml", NETWORK.format(loss="softmax_cross_entropy", units=2))
        self.train("run", *settings("train.epochs=1"))
        memory = pathlib.Path("/dev/shm")
        before = set(memory.glob("unisono-stream-*"))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.stream("--batch-size", "2") as process:
                process.stdin.write("photos/a/0.png\n" * 2000)
                process.stdin.flush()
                for _ in range(20):
                    process.stdout.readline()
                process.send_signal(number)
                self.assertEqual(process.wait(60), -number)
            self.assertLessEqual(set(memory.glob("unisono-stream-*")), before)

    def test_models_of_anything_else_are_refused(self):
        self.write("set.csv", "\n".join(["user,item,rating", *(f"u{i % 7},i{i % 5},{i % 4 + 1}" for i in range(60))]))
        self.succeed("data", "import", "ratings", "set.csv", "--output", "set.h5")
        self.write("config.toml", FACTORS)
        self.train("run")
        out, err = self.streamed("u1,i1\n", code=2)
        self.assertEqual(out, "")
        self.assertRegex(err, r"--stream: .* was trained on ratings")


if __name__ == "__main__":
    unittest.main()
