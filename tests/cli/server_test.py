"""Asynchronous training through the binary: a parameter server, elastic averaging, records and their replay."""

import os
import pathlib
import signal
import subprocess
import unittest

import h5py
import numpy

from harness import BINARY, INTERRUPTED, BinaryTest, ranks_of, settings

SERVED = ("--set", "strategy.kind=parameter_server")


def strategy(**keys):
    return [word for key, value in keys.items() for word in ("--set", f"strategy.{key}={value}")]


def one_worker(ranks):
    """That many ranks of which one trains."""
    return strategy(servers=ranks - 1) if ranks > 1 else []


class ParameterServer(BinaryTest):
    def test_one_worker_leaves_the_bits_of_the_serial_run(self):
        self.train("serial", "--set", "strategy.kind=serial")
        for consistency, numbers in (("asynchronous", (1, 2, 3)), ("bounded", (3,)), ("synchronous", (2,))):
            for ranks in numbers:
                with self.subTest(consistency=consistency, ranks=ranks):
                    run = f"{consistency}{ranks}"
                    options = [*SERVED, *strategy(consistency=consistency), *one_worker(ranks)]
                    told = self.train(run, *options, "--compare-with", "serial", ranks=ranks).out
                    self.assertIn("bit for bit", told)
                    self.assert_same_bits("serial", run)

    def test_the_summary_tells_what_servers_and_workers_did(self):
        told = self.train("run", *SERVED, *strategy(servers=1), ranks=3).out
        self.assertRegex(told, r"servers +1 with 0\.\d MB in total, \d+ pushes, staleness")
        self.assertIn("3 ranks, of which 2 train,", told)
        summary = self.summary("run")["serving"]
        self.assertEqual(summary["pushes"], 40)  # 2 epochs of 240 examples, 12 each
        self.assertEqual(sum(summary["staleness"]["counts"]), 40)
        self.assertEqual(len(summary["workers"]), 2)
        self.assertEqual(summary["servers"][0]["rank"], 2)
        self.assertGreater(summary["servers"][0]["busy"], 0)
        self.assertEqual(summary["pushed_bytes"], 40 * summary["servers"][0]["shard_bytes"])
        lines = [line["serving"] for line in self.metrics("run") if line["event"] == "train"]
        self.assertEqual(sum(line["pushes"] for line in lines), 40)
        self.assertEqual(sum(sum(line["staleness"]["counts"]) for line in lines), 40)

    def test_records_of_synchronous_runs_do_not_depend_on_where_they_were_stopped(self):
        # 15 steps an epoch: a gradient lies in one of two buffers, by turns.
        words = [*SERVED, *strategy(servers=1, consistency="synchronous"), *settings("train.batch_size=16")]
        words += settings("train.report_every_steps=4", "checkpoint.every_steps=7")
        self.train("whole", *words, ranks=3)
        self.train("parts", *words, *settings("train.epochs=1"), ranks=3)
        self.train("parts", *words, "--resume", ranks=3)
        self.assert_same_bits("whole", "parts")
        self.assertEqual(self.timeless("whole"), self.timeless("parts"))

    def test_a_bound_holds_workers_back(self):
        slow = ["--set", "fault.slow_rank=1", "--set", "fault.emulated_seconds=0.01", "--set", "fault.slow_factor=5"]
        bounded = strategy(consistency="bounded", staleness=1)
        reports = ("--set", "train.report_every_steps=100")  # so that workers meet at epochs' ends alone
        self.train("free", *SERVED, *slow, *reports, ranks=2)
        told = self.train("bound", *SERVED, *bounded, *slow, *reports, ranks=2)
        self.assertEqual(told.out.count("SLOW ON PURPOSE"), 1)
        self.assertEqual(told.err.count("SLOW ON PURPOSE"), 1)  # not once a rank
        free, bound = self.summary("free"), self.summary("bound")
        self.assertGreater(bound["serving"]["workers"][0]["held_seconds"], 0.05)
        self.assertEqual(free["serving"]["workers"][0]["held_seconds"] < 0.05, True)
        self.assertIn("rank 1 takes 5 times", bound["fault"])
        fast, slow = (sum(worker["staleness"]["counts"]) for worker in free["serving"]["workers"])
        self.assertGreater(fast, 2 * slow)  # the others make what the slow one cannot
        self.assertEqual(fast + slow, 2 * 2 * 20)  # by two servers

    def test_a_recorded_run_is_repeated_on_one_process_and_on_three_ranks(self):
        cases = {
            "asynchronous": strategy(servers=1, prefetch="true"),
            "bounded": strategy(consistency="bounded", staleness=1),
        }
        for name, options in cases.items():
            self.train(name, *SERVED, *options, *strategy(record="true"), ranks=3)
            for ranks in (0, 3, 4):
                with self.subTest(name=name, ranks=ranks):
                    told = self.succeed("replay", name, "--output", f"{name}{ranks}", ranks=ranks).out
                    self.assertIn("bit for bit", told)
                    self.assert_same_bits(name, f"{name}{ranks}")

    def test_what_does_not_fit_is_not_repeated(self):
        self.train("run", *SERVED, *strategy(record="true"), ranks=2)
        record = self.folder / "run" / "events.bin"
        whole = record.read_bytes()

        def refused(message, code=4):
            result = self.unisono("replay", "run")
            self.assertEqual(result.code, code, result)
            self.assertRegex(result.err, message)
            self.assertEqual(result.err.count("unisono:"), 1)

        record.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        refused("damaged")
        record.write_bytes(whole[:-3])
        refused("truncated")
        record.write_bytes(b"events" + whole)
        refused("is not a record of events")
        record.unlink()
        refused("no such record; runs with strategy.record = true write one")
        record.write_bytes(whole)
        self.succeed("replay", "run")
        other = self.folder / "digits.h5"
        other.unlink()
        subprocess.run(
            [BINARY, "data", "digits", "--train", "240", "--test", "101", "--seed", "9", "--output", str(other)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        refused("the data set is not the one that was recorded")

    def test_runs_are_resumed_on_other_workers_and_servers(self):
        # One worker: nothing depends on who comes first, so that a resumed run ends like one that was not stopped.
        options = [*SERVED, *strategy(servers=1)]
        self.train("whole", *options, "--set", "train.epochs=4", ranks=2)
        self.train("run", *options, ranks=2)
        self.train("run", *SERVED, *strategy(servers=2), "--set", "train.epochs=4", "--resume", ranks=3)
        self.assert_same_bits("whole", "run")
        for servers, ranks, epochs in ((1, 3, 5), ("colocated", 2, 6), (2, 4, 7)):
            self.train(
                "run", *SERVED, *strategy(servers=servers), "--set", f"train.epochs={epochs}", "--resume", ranks=ranks
            )
        self.assertEqual(self.summary("run")["steps"], 70)

    def test_another_strategy_does_not_go_on(self):
        self.train("run", *SERVED, ranks=2)
        told = self.train("run", "--set", "strategy.kind=elastic_averaging", "--resume", ranks=2, code=2).err
        self.assertIn("the run was started with different values of strategy.kind", told)

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self):
        options = [
            *SERVED,
            *strategy(servers=1, record="true"),
            "--set",
            "train.epochs=400",
            "--set",
            "checkpoint.every_steps=5",
        ]
        with self.started("train", "config.toml", "--output", "run", *options, ranks=3) as process:
            self.wait_for_step("run", 30, process)
            for rank in ranks_of(process):
                os.kill(rank, signal.SIGKILL)
            process.wait(60)
        step = int(self.checkpoints("run")[-1].stem.split("-")[1])
        self.assertGreater(step, 0)
        self.train("run", *options, "--set", f"train.epochs={step // 10 + 2}", "--resume", ranks=3)
        told = self.succeed("replay", "run").out  # both parts of it
        self.assertIn("bit for bit", told)

    def test_a_record_that_reaches_behind_the_last_checkpoint_is_repeated_up_to_it(self):
        self.train("run", *SERVED, *strategy(record="true"), "--set", "checkpoint.every_steps=6", ranks=2)
        newest = self.checkpoints("run")[-1]
        newest.unlink()
        told = self.succeed("replay", "run").out
        self.assertIn(f"steps up to {int(newest.stem.split('-')[1])} were recorded", told)
        self.assertIn("bit for bit", told)

    def test_a_recorded_run_keeps_its_learning_rates(self):
        options = [*SERVED, *strategy(record="true"), "--set", "schedule.kind=linear"]
        self.train("run", *options, ranks=2)
        longer = ["--set", "train.epochs=3", "--resume"]
        told = self.train("run", *options, *longer, "--set", "schedule.epochs=3", ranks=2, code=2).err
        self.assertIn("the run was recorded with a learning-rate schedule over 20 steps, not 30: resume with", told)
        self.assertEqual(told.count("unisono:"), 1)
        self.train("run", *options, *longer, "--set", "schedule.epochs=2", ranks=2)
        self.assertIn("bit for bit", self.succeed("replay", "run").out)

    def test_an_interrupted_run_leaves_a_checkpoint(self):
        options = [*SERVED, "--set", "train.epochs=400", "--set", "train.report_every_steps=2"]
        with self.started("train", "config.toml", "--output", "run", *options, ranks=2) as process:
            self.wait_for_step("run", 20, process)
            os.kill(ranks_of(process)[1], signal.SIGUSR1)
            self.assertEqual(process.wait(60), INTERRUPTED)
        steps = self.summary("run")["steps"]
        self.train("run", *options, "--set", f"train.epochs={steps // 10 + 2}", "--resume", ranks=2)


PUSHES = {  # and which part of whole pushes is sent at most
    "bf16": ((), 0.51),
    "eight_bit": ((), 0.27),
    "one_bit": ((), 0.05),
    "threshold": (("strategy.compression.density=0.05",), 0.1),
    "top_k": (("strategy.compression.density=0.05",), 0.11),
}


class CompressedPushes(BinaryTest):
    def options(self, kind, *given, **keys):
        return [*SERVED, *strategy(**keys), *settings(f"strategy.compression.kind={kind}", *PUSHES[kind][0], *given)]

    def test_every_kind_sends_less_and_learns(self):
        for kind, (_, most) in PUSHES.items():
            with self.subTest(kind=kind):
                told = self.train(kind, *self.options(kind, "train.epochs=6", servers=1), ranks=3).out
                self.assertRegex(told, r"compression 0\.\d MB per epoch and rank, [\d.]+ % of the")
                summary = self.summary(kind)
                compression = summary["compression"]
                self.assertEqual(compression["sent_bytes"], summary["serving"]["pushed_bytes"])
                self.assertEqual(
                    compression["plain_bytes"],
                    summary["serving"]["pushes"] * summary["serving"]["servers"][0]["shard_bytes"],
                )
                self.assertLess(compression["sent_bytes"], most * compression["plain_bytes"])
                losses = [line["loss"] for line in self.metrics(kind) if line["event"] == "train"]
                self.assertLess(losses[-1], 0.8 * losses[0])
                result = self.succeed("evaluate", kind)
                self.assertRegex(result.out, rf" accuracy +{summary['test']['accuracy']:.6g}\n")

    def test_servers_of_the_same_rank_are_sent_nothing(self):
        self.train("run", *self.options("bf16"), ranks=2)
        summary = self.summary("run")
        self.assertGreater(summary["compression"]["sent_bytes"], 0.3 * summary["serving"]["pushed_bytes"])
        self.assertLess(summary["compression"]["sent_bytes"], 0.7 * summary["serving"]["pushed_bytes"])

    def test_synchronous_runs_are_resumed_to_the_same_bits(self):
        for kind in PUSHES:
            with self.subTest(kind=kind):
                options = self.options(kind, servers=1, consistency="synchronous")
                self.train(f"{kind}-whole", *options, ranks=3)
                half = settings("train.epochs=1", "checkpoint.every_steps=4")
                self.train(f"{kind}-parts", *options, *half, ranks=3)
                result = self.train(f"{kind}-parts", *options, "--resume", ranks=3)
                self.assertNotIn("not bit for bit", result.out)
                self.assert_same_bits(f"{kind}-whole", f"{kind}-parts")

    def test_recorded_runs_are_repeated_also_where_they_were_resumed(self):
        for kind in ("eight_bit", "top_k"):
            options = self.options(kind, servers=1, record="true")
            self.train(kind, *options, *settings("train.epochs=1"), ranks=3)
            self.train(kind, *options, "--resume", ranks=3)
            for ranks in (0, 2, 3):
                with self.subTest(kind=kind, ranks=ranks):
                    told = self.succeed("replay", kind, "--output", f"{kind}{ranks}", ranks=ranks).out
                    self.assertIn("bit for bit", told)

    def test_other_workers_and_servers_go_on(self):
        for servers, ranks, epochs in ((1, 3, 1), ("colocated", 2, 2), (2, 4, 3)):
            again = ["--resume"] if epochs > 1 else []
            options = self.options("top_k", f"train.epochs={epochs}", servers=servers)
            self.train("run", *options, *again, ranks=ranks)
        self.assertEqual(self.summary("run")["steps"], 30)

    def test_what_cannot_be_compressed_is_refused(self):
        for message, given in {
            "unknown key 'momentum'": ("strategy.compression.kind=top_k", "strategy.compression.momentum=0.9"),
            "is 'power_sgd', which does not exist": ("strategy.compression.kind=power_sgd",),
            "exact belongs to compressed pushes": ('strategy.compression.exact=["*"]',),
            "no block of the model fits 'dense9'": (
                "strategy.compression.kind=bf16",
                'strategy.compression.exact=["dense9"]',
            ),
            "reproducible": (
                "strategy.compression.kind=bf16",
                "communication.reduction=reproducible",
                "train.micro_batches=8",
            ),
            "unknown key 'compression'": (
                "strategy.kind=elastic_averaging",
                "strategy.compression.kind=bf16",
            ),
        }.items():
            with self.subTest(message=message):
                result = self.train("bad", *SERVED, *settings(*given), ranks=3, code=2)
                self.assertIn(message, result.err)
                self.assertEqual(result.err.count("error:"), 1, result)


class ElasticAveraging(BinaryTest):
    def test_workers_learn_around_a_center(self):
        for servers, ranks in (("colocated", 2), (1, 3)):
            with self.subTest(servers=servers):
                run = f"run{ranks}"
                options = ["--set", "strategy.kind=elastic_averaging", *strategy(servers=servers, period=2)]
                self.train(run, *options, "--set", "train.epochs=20", ranks=ranks)
                self.assertGreater(self.summary(run)["test"]["accuracy"], 0.65)  # the serial run has 0.78
                self.train(run, *options, "--set", "train.epochs=22", "--resume", ranks=ranks)
                self.assertEqual(self.summary(run)["steps"], 220)


IN_PLACE = {
    "linear": ("sparse.h5", 'model={kind="linear"}', "sgd", 0.5, ("test", "accuracy", 0.8)),
    "factorization": (
        "ratings.h5",
        'model={kind="factorization",dimension=4}',
        "adagrad",
        0.1,
        ("train", "rmse", None),
    ),
    "word2vec": ("text.h5", 'model={kind="word2vec",dimension=8}', "sgd", 0.05, ("train", "loss", None)),
    "glove": ("counts.h5", 'model={kind="glove",dimension=8}', "adagrad", 0.05, ("train", "loss", None)),
}


class InPlace(BinaryTest):
    """Models whose workers pull and push rows."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = numpy.random.default_rng(1)
        folder = pathlib.Path(cls.shared.name)
        weights = random.normal(size=30)
        lines = []
        for _ in range(600):
            columns = numpy.sort(random.choice(30, 5, replace=False))
            answer = 1 if weights[columns].sum() > 0 else -1
            lines.append(f"{answer} " + " ".join(f"{j + 1}:1" for j in columns))
        (folder / "train.libsvm").write_text("\n".join(lines[:500]) + "\n")
        (folder / "test.libsvm").write_text("\n".join(lines[500:]) + "\n")
        users, items = random.normal(size=(40, 2)), random.normal(size=(30, 2))
        (folder / "ratings.txt").write_text(
            "".join(
                f"u{u} i{i} {3 + users[u] @ items[i]:.3f}\n"
                for u, i in zip(random.integers(0, 40, 2000), random.integers(0, 30, 2000))
            )
        )
        (folder / "text.txt").write_text(
            "".join(
                " ".join(f"w{random.integers(0, 5) * 4 + random.integers(0, 4)}" for _ in range(12)) + "\n"
                for _ in range(600)
            )
        )
        for words in (
            ["import", "libsvm", "train.libsvm", "--test-file", "test.libsvm", "--output", "sparse.h5"],
            ["import", "ratings", "ratings.txt", "--split", "random", "--output", "ratings.h5"],
            ["import", "text", "text.txt", "--minimum-count", "1", "--output", "text.h5"],
            ["cooccurrences", "text.h5", "--output", "counts.h5"],
        ):
            subprocess.run([BINARY, "data", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    def test_one_worker_leaves_the_bits_of_the_serial_run_and_more_learn_as_well(self):
        for name, (data, model, rule, rate, (split, metric, least)) in IN_PLACE.items():
            self.write(
                "config.toml",
                f"name = 'test'\n{model}\n"
                f"[data]\npath = '{pathlib.Path(self.shared.name) / data}'\n"
                f"[optimizer]\nkind = '{rule}'\nlearning_rate = {rate}\n[train]\nepochs = 6\nbatch_size = 60\n",
            )
            self.train(f"{name}-serial", "--set", "strategy.kind=serial")
            serial = self.summary(f"{name}-serial")[split][metric]
            for ranks in (1, 3) if name == next(iter(IN_PLACE)) else (3,):
                told = self.train(
                    f"{name}{ranks}", *SERVED, *one_worker(ranks), "--compare-with", f"{name}-serial", ranks=ranks
                ).out
                with self.subTest(name=name, ranks=ranks):
                    self.assertIn("bit for bit", told)
            self.train(f"{name}-three", *SERVED, *strategy(servers=1, record="true"), ranks=4)
            three = self.summary(f"{name}-three")[split][metric]
            with self.subTest(name=name, three=three, serial=serial):
                if least is None:
                    self.assertLess(three, 1.5 * serial)  # staleness depends on the load of the machine
                else:
                    self.assertGreater(three, least)
            refused = self.train("refused", *SERVED, *settings("strategy.compression.kind=bf16"), ranks=2, code=2).err
            with self.subTest(name=name, refused=refused):
                self.assertIn("strategy.compression does not apply to models that are updated in place", refused)
            for ranks in (0, 3):
                with self.subTest(name=name, replayed_on=ranks):
                    self.succeed("replay", f"{name}-three", ranks=ranks)


if __name__ == "__main__":
    unittest.main()
