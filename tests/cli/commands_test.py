"""Everything but training and applying: help, configs, info, bench, sets."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import unittest

from harness import BINARY, CONFIG, PARTS, BinaryTest, messages, without_sanitizer

SOURCE = pathlib.Path(os.environ["UNISONO_SOURCE"])


class Commands(BinaryTest):
    def test_every_command_has_help_that_is_printed_once(self):
        commands = [
            [],
            ["train"],
            ["evaluate"],
            ["predict"],
            ["compare"],
            ["runs"],
            ["info"],
            ["bench"],
            ["data"],
            ["data", "digits"],
            ["data", "import"],
            ["data", "import", "idx"],
            ["data", "import", "cifar10"],
            ["data", "import", "csv"],
            ["data", "import", "libsvm"],
            ["data", "import", "ratings"],
            ["data", "import", "text"],
            ["data", "cooccurrences"],
            ["data", "describe"],
            ["config"],
            ["config", "check"],
            ["config", "reference"],
        ]
        for words in commands:
            with self.subTest(command=words):
                self.assertIn("Usage:", self.succeed(*words, "--help").out)
        for ranks in (2, 3):
            self.assertEqual(self.succeed("train", "--help", ranks=ranks).out.count("Usage:"), 1)
            version = self.succeed("--version", ranks=ranks).out
            self.assertRegex(version, r"^\d+\.\d+\.\d+\n(with [A-Z0-9, ]+\n)?(without [A-Z0-9, ]+\n)?$")
            for library in ("BLIS", "CUDA", "NCCL", "PCRE2", "SENTENCEPIECE", "IMAGES", "ZSTD", "MINIZIP"):
                self.assertEqual(version.count(library), 1)

    def test_commands_that_start_and_end_side_by_side_do_not_disturb_each_other(self):
        # Open MPI's folder in /tmp, which they once shared, was removed by one while another was about to use it.
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for result in pool.map(lambda _: self.unisono("evaluate", "nothing"), range(120)):
                self.assertEqual(result.code, 4, result)

    def test_output_that_cannot_be_written_is_an_error(self):
        commands = ("data describe digits.h5", "info config.toml", "config reference", "--help")
        for words in (command.split() for command in commands):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                done = subprocess.run(
                    [BINARY, *words], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False
                )
                self.assertEqual(done.returncode, 1, done)
                self.assertEqual(done.stderr, "unisono: output error: standard output cannot be written\n")

    def test_errors_that_cannot_be_printed_leave_their_exit_code(self):
        cases = {"trian": 2, "train none.toml": 2, "config check none.toml": 2, "evaluate none": 4, "report none": 4}
        cases |= {"data describe none.h5": 3, "config check config.toml": 0}
        cases |= {"train config.toml --output unheard --overwrite": 0}
        for command, code in cases.items():
            for stderr in ("2>/dev/full", "2>&-"):
                with self.subTest(command=command, stderr=stderr):
                    line = f"exec '{BINARY}' {command} >out.txt {stderr}"
                    done = subprocess.run(["sh", "-c", line], cwd=self.folder, check=False)
                    self.assertEqual(done.returncode, code)

    def test_work_for_one_process_is_done_once_however_many_are_started(self):
        self.succeed("data", "digits", "--train", "3", "--test", "2", "--output", "few.h5", ranks=2)
        text = self.succeed("data", "describe", "few.h5", ranks=2).out
        self.assertEqual(text.count("few.h5"), 1, text)
        once = self.succeed("config", "check", "config.toml", ranks=2).out
        self.assertEqual(once, self.succeed("config", "check", "config.toml").out)
        result = self.unisono("config", "check", "none.toml", ranks=2)
        self.assertEqual((result.code, len(messages(result))), (2, 1), result)

    def test_a_checked_config_is_printed_with_all_that_is_in_force(self):
        text = self.succeed(
            "config", "check", "config.toml", "--set", "train.epochs=7", "--set", "optimizer.kind=sgd"
        ).out
        for line in ("epochs = 7", 'kind = "sgd"', "momentum = 0.0", "[communication]", "keep = 2"):
            self.assertIn(line, text)
        self.write("effective.toml", text)
        self.assertEqual(self.succeed("config", "check", "effective.toml").out, text)

    def test_the_reference_of_the_docs_is_true(self):
        printed = self.succeed("config", "reference", "--markdown").out
        written = (SOURCE / "docs" / "config.md").read_text()
        self.assertEqual(
            written, printed, "docs/config.md is old: unisono config reference --markdown > docs/config.md"
        )
        self.assertIn("batch_size", self.succeed("config", "reference").out)

    def test_info_shows_the_layers(self):
        text = self.succeed("info", "config.toml").out
        self.assertRegex(text, r"convolution1 +convolution +4×12×12 +100 ")
        figures = json.loads(self.succeed("info", "config.toml", "--json", ranks=2).out)
        self.assertEqual(figures["parameters"], 4 * 25 + 2 * 4 + (10 * 4 * 12 * 12 + 10))
        self.assertEqual(sum(figures["memory"].values()), figures["peak_memory_bytes"])

    def test_info_counts_the_cores_that_a_process_is_bound_to(self):
        cores = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, {min(cores)})
        figures = json.loads(self.succeed("info", "config.toml", "--json").out)
        self.assertEqual([figures["threads"], figures["cores"]], [1, 1])
        self.assertIn("1 thread a rank, which may run on 1 core\n", self.succeed("info", "config.toml").out)

    def test_info_says_that_it_predicts_a_cpus_memory(self):
        self.assertIn("peak memory of a rank, predicted", self.succeed("info", "config.toml").out)
        text = self.succeed("info", "config.toml", "--set", "device=cuda").out
        self.assertIn("peak memory of a rank on a CPU, predicted", text)

    def test_info_needs_no_data_where_shapes_are_given(self):
        self.write("config.toml", CONFIG.replace('path = "digits.h5"', 'path = "none.h5"'))
        figures = json.loads(
            self.succeed("info", "config.toml", "--features", "1x28x28", "--classes", "10", "--json").out
        )
        self.assertEqual(figures["layers"][0]["output"], "4×12×12")
        result = self.unisono("info", "config.toml")
        self.assertEqual(result.code, 3, result)
        self.assertIn("--features", result.err)

    @without_sanitizer("a sanitizer keeps what was freed")
    def test_the_predicted_memory_is_what_a_run_takes(self):
        models = {
            "dense": (
                'model.layers=[{kind="flatten"},{kind="dense",units=3000},' '{kind="relu"},{kind="dense",units=10}]',
                "optimizer.kind=adam",
            ),
            "convolutions": (
                'model.layers=[{kind="convolution",channels=32,kernel=3,padding=1},{kind="batch_norm"},'
                '{kind="relu"},{kind="convolution",channels=32,kernel=3,padding=1},{kind="relu"},'
                '{kind="flatten"},{kind="dense",units=10}]',
                "train.batch_size=128",
            ),
            "small": ("optimizer.kind=sgd",),
        }
        for name, settings in models.items():
            for ranks in (0, 2):
                with self.subTest(model=name, ranks=ranks):
                    words = [word for setting in (*settings, "train.epochs=1") for word in ("--set", setting)]
                    predicted = json.loads(self.succeed("info", "config.toml", *words, "--json", ranks=ranks).out)
                    self.train("run", "--overwrite", *words, ranks=ranks)
                    self.assert_predicted(predicted, "run")

    @without_sanitizer("a sanitizer keeps what was freed")
    def test_the_predicted_memory_is_what_word_vectors_take_and_what_they_resume_with(self):
        words = [f"w{i}" for i in range(40000)]
        self.write("text.txt", 2 * "".join(" ".join(words[i : i + 20]) + "\n" for i in range(0, len(words), 20)))
        self.succeed("data", "import", "text", "text.txt", "--minimum-count", "1", "--output", "text.h5")
        self.write(
            "words.toml",
            'name = "words"\ndata.path = "text.h5"\nmodel.kind = "word2vec"\nmodel.dimension = 150\n'
            "optimizer.learning_rate = 0.025\ntrain = { epochs = 1, batch_size = 20000, threads = 1 }\n"
            'strategy = { kind = "hogwild", threads = 1 }\n',
        )
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                predicted = json.loads(self.succeed("info", "words.toml", "--json", ranks=ranks).out)
                self.train("run", "--overwrite", ranks=ranks, config="words.toml")
                self.assert_predicted(predicted, "run")
                self.train("run", "--resume", "--set", "train.epochs=2", ranks=ranks, config="words.toml")
                self.assert_predicted(predicted, "run")

    @without_sanitizer("a sanitizer keeps what was freed")
    def test_the_predicted_memory_is_what_servers_and_workers_take(self):
        words = ["--set", 'model.layers=[{kind="flatten"},{kind="dense",units=6000},{kind="dense",units=10}]']
        words += ["--set", "optimizer.kind=adagrad", "--set", "strategy.kind=parameter_server"]
        words += ["--set", "train.epochs=1"]
        colocated = (2, '"colocated"', ["strategy.prefetch=true"], 2)
        for ranks, servers, settings, copies in ((2, "1", [], 0), colocated, (4, "2", [], 1)):
            with self.subTest(ranks=ranks, servers=servers):
                more = [word for setting in settings for word in ("--set", setting)]
                more += ["--set", f"strategy.servers={servers}"]
                predicted = json.loads(self.succeed("info", "config.toml", *words, *more, "--json", ranks=ranks).out)
                self.train("run", "--overwrite", *words, *more, ranks=ranks)
                # A server copies its shard only where a push comes while an answer is still being sent. Whether that
                # happens is a matter of time: `copies` is how often at most, and each shard is half of the parameters.
                shard = 4 * predicted["parameters"] // 2
                self.assert_predicted(predicted, "run", timed=copies * shard)

    def assert_predicted(self, predicted, run, timed=0):
        """Within a tenth; `timed` bytes of the prediction may be needed or not."""
        measured = self.summary(run)["peak_memory_bytes"]
        most = predicted["peak_memory_bytes"]
        message = f"measured {measured / 2**20:.1f} MiB, predicted {predicted['memory']}"
        self.assertLess(measured, most / 0.9, message)
        self.assertGreater(measured, (most - timed) / 1.1, message)

    def test_bench_times_steps_and_says_where_they_went(self):
        for ranks, strategy in ((0, "allreduce"), (2, "allreduce"), (2, "averaging")):
            with self.subTest(ranks=ranks, strategy=strategy):
                lines = self.succeed(
                    "bench",
                    "config.toml",
                    "--steps",
                    "20",
                    "--batch-per-rank",
                    "8",
                    "--json",
                    "--set",
                    f"strategy.kind={strategy}",
                    ranks=ranks,
                ).out.splitlines()
                figures = json.loads(lines[-1])
                self.assertEqual(
                    (figures["ranks"], figures["batch_size"], figures["steps"]), (max(ranks, 1), 8 * max(ranks, 1), 20)
                )
                self.assertEqual(figures["strategy"], strategy)
                self.assertAlmostEqual(
                    figures["examples_per_second"] * figures["seconds"]["total"],
                    20 * figures["batch_size"],
                    delta=0.2 * 20 * figures["batch_size"],
                )
                self.assertGreater(figures["fraction_of_peak"], 0)
                self.assertLess(figures["fraction_of_peak"], 1.5)
                self.assertAlmostEqual(
                    sum(figures["seconds"][part] for part in PARTS), figures["seconds"]["total"], places=9
                )
        text = self.succeed("bench", "config.toml", "--steps", "5", "--features", "1x28x28", "--classes", "10").out
        self.assertIn("of the peak", text)

    def test_bench_compares_each_layer_with_the_least_time_that_it_can_take(self):
        words = ["bench", "config.toml", "--steps", "20", "--layers"]
        figures = json.loads(self.succeed(*words, "--json").out)
        layers = figures["layers"]
        passes = [(one["layer"], one["pass"]) for one in layers["passes"]]
        forward = ["convolution1", "batch_norm1", "dropout1", "dense1"]
        expected = [(layer, "forward") for layer in forward] + [(layer, "backward") for layer in reversed(forward)]
        self.assertEqual(passes, [*expected, ("update", "update")])
        self.assertAlmostEqual(
            sum(one["flops"] for one in layers["passes"]), figures["batch_size"] * figures["flops_per_example"], delta=1
        )
        for one in layers["passes"]:
            self.assertGreater(one["seconds"], 0, one)
            self.assertGreater(one["bytes"], 0, one)
            least = one["flops"] / figures["peak_gflops_per_second"] / 1e9
            self.assertGreaterEqual(one["floor_seconds"], (1 - 1e-9) * least)
        self.assertAlmostEqual(layers["floor_seconds"], sum(one["floor_seconds"] for one in layers["passes"]))
        levels = layers["memory"]
        self.assertEqual(levels[-1]["level"], "memory")
        self.assertNotIn("bytes", levels[-1])
        self.assertTrue(all(a["bytes"] < b["bytes"] for a, b in zip(levels, levels[1:-1])), levels)
        self.assertRegex(self.succeed(*words).out, r"\nconvolution1 +forward .*\n(.*\n)*step .* %\nGB/s ")

    def test_info_counts_the_flops_and_bytes_of_each_layer(self):
        whole = self.succeed("info", "config.toml", "--json").out
        self.assertNotIn("roofline", json.loads(whole))
        figures = json.loads(self.succeed("info", "config.toml", "--roofline", "--json").out)
        roofline = figures["roofline"]
        batch = sum(one["flops"] for one in roofline["passes"]) / figures["flops_per_example"]
        self.assertAlmostEqual(batch, round(batch), places=6)
        two = json.loads(self.succeed("info", "config.toml", "--roofline", "--json", ranks=2).out)["roofline"]
        for one, half in zip(roofline["passes"], two["passes"]):
            self.assertEqual((one["layer"], one["pass"]), (half["layer"], half["pass"]))
            self.assertAlmostEqual(one["flops"], 2 * half["flops"])
        update = roofline["passes"][-1]
        self.assertEqual(update["pass"], "update")
        # Adam reads g, and reads and writes θ and two more vectors, which have room between their blocks.
        self.assertGreaterEqual(update["bytes"], 7 * 4 * figures["parameters"])
        self.assertLess(update["bytes"], 7 * 4 * (figures["parameters"] + 1000))
        text = self.succeed("info", "config.toml", "--roofline").out
        self.assertRegex(text, r"\nconvolution1 +forward .*\n(.*\n)*step .*\n[0-9.]+ GFLOP/s; GB/s read and written: ")
        linear = [SOURCE / "configs" / "logistic-regression.toml", "--features", "20", "--classes", "2"]
        linear += ["--set", "strategy.kind=allreduce"]
        for words, message in (
            (["config.toml", "--set", "replica.stages=2", "--set", "train.micro_batches=2"], "replica.stages"),
            (linear, "has no layers"),
        ):
            result = self.unisono("info", "--roofline", *words, ranks=2)
            self.assertEqual(result.code, 2, result)
            self.assertIn(message, result.err)
        self.assertIn("has no layers", self.unisono("bench", "--layers", *linear).err)

    def test_bench_times_layers_where_it_can(self):
        words = ["bench", "config.toml", "--steps", "5", "--layers"]
        for ranks, setting, message in (
            (2, "", "start it without mpirun"),
            (0, "train.micro_batches=2", "train.micro_batches = 2"),
            (0, "strategy.kind=hogwild", "several threads train at the same time"),
        ):
            result = self.unisono(*words, *(["--set", setting] if setting else []), ranks=ranks)
            self.assertIn(result.code, (2, 5), result.err)
            self.assertIn("bench --layers: ", result.err)
            self.assertIn(message, result.err)

    def test_bench_of_a_pipeline_names_its_parts_and_its_bubble(self):
        words = ["bench", "config.toml", "--steps", "5", "--set", "train.micro_batches=8"]
        words += ["--set", "replica.stages=2", "--set", "replica.schedule=gpipe"]
        text = self.succeed(*words, ranks=4).out
        self.assertIn("on 4 ranks (2 replicas of 2 stages) × 1 thread", text)
        self.assertRegex(text, r"  pipeline    gpipe, .*: 4; stages waited .* 20\.0 % by the schedule; .* MB per step")
        figures = json.loads(self.succeed(*words, "--json", ranks=4).out)
        self.assertEqual((figures["ranks"], figures["replicas"]), (4, 2))
        pipeline = figures["pipeline"]
        self.assertEqual([pipeline[key] for key in ("schedule", "stages", "micro_batches")], ["gpipe", 2, 4])
        self.assertAlmostEqual(pipeline["expected_bubble"], 0.2)
        self.assertTrue(0 < pipeline["bubble"] < 1, pipeline)
        self.assertGreater(pipeline["boundary_bytes_per_step"], 0)
        self.assertNotIn("pipeline", json.loads(self.succeed("bench", "config.toml", "--steps", "5", "--json").out))

    def test_waiting_for_the_statistics_of_a_slow_replica_is_not_taken_from_the_computation(self):
        words = ["bench", "config.toml", "--steps", "5", "--json", "--set", "train.micro_batches=8"]
        words += ["--set", "replica.stages=2", "--set", "replica.schedule=gpipe"]
        words += ["--set", "fault.slow_rank=3", "--set", "fault.pause_seconds=0.02"]
        figures = json.loads(self.succeed(*words, ranks=4).out)
        # The slow stage pauses 40 times, which is its computation, for 0.8 seconds on average: 0.2 seconds a rank.
        self.assertGreater(figures["seconds"]["compute"], 0.1)
        self.assertTrue(0 < figures["pipeline"]["bubble"] < 1, figures)

    def test_bench_refuses_more_threads_than_cores(self):
        cores = len(os.sched_getaffinity(0))
        for ranks in (0, 2):
            result = self.unisono("bench", "config.toml", "--set", f"train.threads={cores + 1}", ranks=ranks)
            self.assertEqual(result.code, 5, result)
            self.assertEqual(len(messages(result)), 1, result)

    def test_more_threads_than_cores_are_said(self):
        cores = len(os.sched_getaffinity(0))
        result = self.train("run", "--set", f"train.threads={cores + 1}", "--set", "train.epochs=1")
        self.assertEqual(result.err.count("more threads than cores"), 1, result)


if __name__ == "__main__":
    unittest.main()
