"""A run that was stopped anywhere and resumed goes on as if it had not stopped."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

from harness import AT_ONCE, BINARY, CONFIG, INTERRUPTED, MPIRUN, BinaryTest, Result, messages, ranks_of

ENDLESS = (
    "--set",
    "train.epochs=1000000",
)  # of 10 steps; the rate is constant, so that the length changes nothing else
ALLREDUCE = ()
KEEP = ("--set", "strategy.kind=averaging", "--set", "strategy.period=3", "--set", "strategy.optimizer_state=keep")


def end_launcher(process):
    """Waits until mpirun has ended, which now and then waits for a lock of its own for ever (PMIx_server_finalize)."""
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Resuming(BinaryTest):
    def interrupt(self, run, step, ranks, *arguments, by=signal.SIGUSR1):
        """Stops an endless run by a signal at one of its ranks, soon after a step.

        Returns the settings of a run that is a little longer."""
        with self.started("train", "config.toml", "--output", run, *ENDLESS, *arguments, ranks=ranks) as process:
            self.wait_for_step(run, step, process)
            os.kill(random.choice(ranks_of(process)), by)
            output = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, INTERRUPTED, output)
            self.assertRegex(output, r": interrupted after .*; continue with --resume")
        summary = self.summary(run)
        self.assertEqual(summary["status"], "interrupted")
        self.assertGreaterEqual(summary["steps"], step)
        return "--set", f"train.epochs={summary['steps'] // 10 + 3}", *arguments

    def test_on_the_same_ranks_it_ends_with_the_same_bits(self):
        for ranks, strategy in ((0, ALLREDUCE), (2, ALLREDUCE), (2, KEEP)):
            with self.subTest(ranks=ranks, strategy=strategy):
                whole, stopped = f"whole{ranks}{len(strategy)}", f"stopped{ranks}{len(strategy)}"
                seldom = ("--set", "train.report_every_steps=7")  # most stops lie between two reports
                longer = self.interrupt(stopped, random.randint(1, 90), ranks, *seldom, *strategy)
                self.train(whole, *longer, ranks=ranks)
                result = self.train(stopped, "--resume", *longer, ranks=ranks)
                self.assertIn("resumed at step", result.out)
                self.assertNotIn("not bit for bit", result.out)
                self.assert_same_bits(whole, stopped)
                self.check_figures(whole, stopped)

    def test_a_checkpoint_between_two_reports_has_the_losses_since(self):
        """Written when it is due by the clock, and found by a run whose ranks were killed."""
        settings = ("--set", "train.report_every_steps=7", "--set", "checkpoint.every_epochs=0")
        for ranks, strategy in ((0, ALLREDUCE), (2, KEEP)):
            with self.subTest(ranks=ranks, strategy=strategy):
                whole, killed = f"by the clock {ranks}", f"killed {ranks}"
                slowly = ("--set", "checkpoint.hours_between_failures=24", "--set", "fault.emulated_seconds=0.01")
                words = ("train", "config.toml", "--output", killed, *ENDLESS, *settings, *strategy, *slowly)
                with self.started(*words, ranks=ranks, environment=AT_ONCE) as process:
                    deadline = time.monotonic() + 60
                    while not self.checkpoints(killed) and time.monotonic() < deadline:
                        time.sleep(0.01)
                    for rank in ranks_of(process):
                        os.kill(rank, signal.SIGKILL)
                    process.communicate(timeout=60)
                longer = ("--set", "train.epochs=40", *settings, *strategy)
                result = self.train(killed, "--resume", *longer, ranks=ranks)
                self.assertIn("resumed at step", result.out)
                self.train(whole, *longer, ranks=ranks)
                self.assert_same_bits(whole, killed)
                self.check_figures(whole, killed)

    def check_figures(self, whole, stopped):
        first, second = self.summary(whole), self.summary(stopped)
        self.assertEqual(second["status"], "complete")
        self.assertEqual(first["test"], second["test"])
        self.assertEqual(first["train"], second["train"])
        self.assertEqual(self.timeless(whole), self.timeless(stopped))

    def test_every_signal_that_asks_for_it_stops_a_run(self):
        for by in (signal.SIGTERM, signal.SIGINT):
            self.interrupt(f"run{by}", 3, 0, by=by)

    def test_on_other_ranks_it_ends_within_rounding(self):
        # Rounding differences grow with the steps; SGD at a small rate keeps them comparable.
        sgd = ("--set", "optimizer.kind=sgd", "--set", "optimizer.learning_rate=0.002")
        for before, after in ((0, 3), (3, 2), (2, 0), (2, 3)):
            with self.subTest(before=before, after=after):
                run = f"run{before}{after}"
                longer = self.interrupt(run, 40, before, *sgd)
                whole = f"whole{before}{after}"
                self.train(whole, *longer)
                result = self.train(run, "--resume", *longer, ranks=after)
                self.assertIn("not bit for bit, because these differ: ranks", result.out)
                self.assert_close(whole, run, 1e-3)

    def test_averaging_with_kept_states_resumes_on_other_ranks_and_says_so(self):
        longer = self.interrupt("run", 40, 3, *KEEP)
        result = self.train("run", "--resume", *longer, ranks=2)
        self.assertIn("the mean of these", result.out)
        self.assertGreater(self.summary("run")["steps"], self.summary("run")["resumed_at_step"])

    def test_a_complete_run_has_nothing_left_to_do_and_can_be_made_longer(self):
        self.train("run", "--set", "train.epochs=1")
        before, summary = self.vectors("run"), self.summary("run")
        for ranks in (0, 2):
            result = self.train("run", "--resume", "--set", "train.epochs=1", ranks=ranks)
            self.assertEqual(result.out.count("run: already complete"), 1, result)
            self.assertEqual(self.summary("run"), summary)
        for name, values in self.vectors("run").items():
            self.assertEqual(values.tobytes(), before[name].tobytes())
        self.train("run", "--resume", "--set", "train.epochs=2")
        self.train("whole", "--set", "train.epochs=2")
        self.assert_same_bits("whole", "run")

    def test_a_damaged_checkpoint_is_named_and_the_one_before_taken(self):
        self.train("run")
        self.train("whole")
        last = self.checkpoints("run")[-1]
        content = bytearray(last.read_bytes())
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        last.write_bytes(content)
        result = self.train("run", "--resume", ranks=1)
        self.assertEqual((result.out + result.err).count(f"{last.name} is damaged"), 1, result)
        self.assertIn("resumed at step 10", result.out)
        self.assert_same_bits("whole", "run")

    def test_a_kill_while_checkpoints_are_written_costs_no_more_than_that_checkpoint(self):
        # Checkpoints of 5 MB after every step: one is nearly always being written.
        heavy = ("--set", "checkpoint.every_steps=1", "--set", "model.layers.0.channels=32", "--set", "train.epochs=3")
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                whole, run = f"whole{ranks}", f"run{ranks}"
                self.train(whole, *heavy, ranks=ranks)
                reached = self.kill_now_and_then(run, heavy, ranks)
                result = self.train(run, "--resume", *heavy, ranks=ranks)
                self.assertIn(f"resumed at step {reached}\n", result.out)
                self.assertNotIn("damaged", result.out + result.err)
                self.assertEqual(list((self.folder / run / "checkpoints").glob("*.tmp")), [])
                self.assert_same_bits(whole, run)

    def kill_now_and_then(self, run, settings, ranks):
        """Kills a job's ranks and resumes it, some times. Returns the step of its last checkpoint."""
        reached = 0
        for attempt in range(4):
            existing = ("--resume",) if attempt else ()
            words = ("train", "config.toml", "--output", run, *settings, *existing)
            with self.started(*words, ranks=ranks, environment=AT_ONCE) as process:
                # A step waits for the checkpoint before its own, but after its line in the metrics.
                self.wait_for_step(run, reached + 3, process)
                time.sleep(random.uniform(0, 0.05))
                for rank in ranks_of(process):
                    os.kill(rank, signal.SIGKILL)
                end_launcher(process)
            steps = [int(path.stem.split("-")[1]) for path in self.checkpoints(run)]
            self.assertTrue(steps)
            reached = max(steps)
            self.assertGreaterEqual(reached, self.last_step(run) - 2)
            if reached > 20:
                break
        return reached

    def side_by_side(self, first, second):
        """Two ranks that are started with words and settings of their own."""
        done = subprocess.run(
            [*MPIRUN, "-n", "1", *first, ":", "-n", "1", *second],
            cwd=self.folder,
            timeout=120,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **AT_ONCE},
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def test_ranks_that_see_no_common_folder_leave_the_checkpoints_to_the_first(self):
        for name in ("first", "second"):
            self.write(f"{name}/config.toml", CONFIG)
            os.symlink(self.digits, self.folder / name / "digits.h5")

        def train(*words):
            train = (BINARY, "train", "config.toml", "--output", "run", *words)
            return self.side_by_side(("-wdir", "first", *train), ("-wdir", "second", *train))

        for existing, epochs in ((), 2), (("--resume",), 3):
            result = train(*existing, "--set", f"train.epochs={epochs}")
            self.assertEqual(result.code, 0, result)
        self.assertIn("resumed at step 20", result.out)
        self.assertFalse((self.folder / "second" / "run").exists())
        self.train("run", "--set", "train.epochs=3", ranks=2)
        self.assert_same_bits("run", "first/run")

        result = train("--overwrite", *KEEP)
        self.assertEqual(result.code, 1, result)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertIn("a file system that all nodes share", messages(result)[0])
        self.assertEqual(self.metrics("first/run"), [], "steps were made")

    def test_a_disk_that_is_full_for_one_rank_costs_all_ranks_that_checkpoint_alone(self):
        # 21 MB with Adam's moments; its loss is large for the first steps, of which an epoch has but ten.
        heavy = ("--set", "model.layers.0.channels=1200", "--set", "train.divergence=0")
        self.train("run", *heavy, "--set", "train.epochs=1", ranks=2)
        train = (BINARY, "train", "config.toml", "--output", "run", "--resume", *heavy)
        result = self.side_by_side(train, ("prlimit", f"--fsize={16 << 20}", *train))
        self.assertEqual(result.code, 1, result)
        self.assertEqual(len(messages(result)), 1, result)
        self.assertRegex(messages(result)[0], r"step-000000020\.h5 could not be written.*File too large.*are intact")
        self.assertEqual(list((self.folder / "run" / "checkpoints").glob("*.tmp")), [])
        result = self.train("run", "--resume", *heavy, ranks=2)
        self.assertIn("resumed at step 10", result.out)

    def test_another_reader_than_the_run_was_started_with_is_refused(self):
        self.train("run", "--set", "train.epochs=1", "--set", "data.reader=streaming")
        for ranks in (0, 2):
            result = self.train("run", "--resume", ranks=ranks, code=2)  # automatic: these few digits fit the memory
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn("--set data.reader=streaming", result.err)
        self.train("run", "--resume", "--set", "data.reader=streaming")
        self.train("whole", "--set", "data.reader=streaming")
        self.assert_same_bits("whole", "run")

    def test_other_settings_than_the_run_was_started_with_are_refused(self):
        self.train("run", "--set", "train.epochs=1")
        for ranks in (0, 2):
            result = self.train("run", "--resume", "--set", "train.batch_size=12", ranks=ranks, code=2)
            self.assertEqual(len(messages(result)), 1, result)
            self.assertIn("train.batch_size", result.err)


class SignalsInEvaluations(BinaryTest):
    """An evaluation may take long: a signal ends it, and the resumed run makes it again."""

    SLOW = CONFIG.replace("channels = 4, kernel = 5, stride = 2", "channels = 64, kernel = 9").replace(
        "epochs = 2", "epochs = 2\nevaluation_batch_size = 1"
    ).replace("learning_rate = 0.01", "learning_rate = 1e-4")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wide = pathlib.Path(cls.shared.name) / "wide.h5"
        command = [BINARY, "data", "digits", "--train", "24", "--test", "10000", "--output", cls.wide]
        subprocess.run(command, check=True, capture_output=True)

    def test_the_evaluation_ends_and_is_made_again(self):
        self.write("config.toml", self.SLOW.replace("digits.h5", str(self.wide)))
        self.train("whole", ranks=2)
        for step in (1, 2):
            with self.subTest(step=step):
                run = f"stopped{step}"
                with self.started("train", "config.toml", "--output", run, ranks=2) as process:
                    self.wait_for_step(run, step, process)  # the report is written before the evaluation
                    for rank in ranks_of(process):
                        os.kill(rank, signal.SIGUSR1)
                    output = process.communicate(timeout=60)[0]
                self.assertEqual(process.returncode, INTERRUPTED, output)
                self.assertEqual(self.summary(run)["steps"], step)
                made = [line["step"] for line in self.metrics(run) if line["event"] == "evaluation"]
                self.assertEqual(made, list(range(1, step)))
                self.train(run, "--resume", ranks=2)
                self.assert_same_bits("whole", run)
                self.assertEqual(self.timeless(run), self.timeless("whole"))


class MovedSets(BinaryTest):
    """A run finds its set from any folder, and where both were moved together."""

    def test_a_run_and_its_set_can_move(self):
        project = self.folder / "project"
        (project / "data").mkdir(parents=True)
        shutil.copy(self.digits, project / "data/digits.h5")
        (project / "config.toml").write_text(CONFIG.replace("digits.h5", "data/digits.h5"))
        made = subprocess.run(
            [BINARY, "train", "config.toml", "--output", "runs/a", "--set", "train.epochs=1"],
            cwd=project,
            capture_output=True,
            text=True,
        )
        self.assertEqual(made.returncode, 0, made)
        figures = json.loads(self.succeed("evaluate", "project/runs/a", "--json").out)
        self.assertEqual(figures["accuracy"], self.summary("project/runs/a")["test"]["accuracy"])
        # Another set in that place of this folder is not the run's.
        (self.folder / "data").mkdir()
        self.succeed("data", "digits", "--train", "7", "--test", "7", "--output", "data/digits.h5")
        self.assertEqual(json.loads(self.succeed("evaluate", "project/runs/a", "--json").out), figures)

        shutil.move(project, self.folder / "elsewhere")
        moved = json.loads(self.succeed("evaluate", "elsewhere/runs/a", "--json").out)
        self.assertEqual(moved["accuracy"], figures["accuracy"])
        self.succeed("train", "elsewhere/runs/a", "--resume", "--set", "train.epochs=2")
        self.assertEqual(self.summary("elsewhere/runs/a")["steps"], 20)
        (self.folder / "elsewhere/data/digits.h5").unlink()
        named = ("--set", "train.epochs=3", "--set", "data.path=gone.h5")
        lost = self.unisono("train", "elsewhere/runs/a", "--resume", *named)
        self.assertEqual(lost.code, 3, lost)
        self.assertIn("gone.h5: there is no such file", messages(lost)[0])


class ChangesOnRequest(BinaryTest):
    """`--change`: another setting of the optimizer or the schedule from the point on at which a run is resumed."""

    RATE = ("--set", "optimizer.learning_rate=0.5", "--set", "optimizer.kind=sgd")

    def test_a_changed_rate_is_that_of_a_schedule(self):
        halved = ("--set", "schedule.kind=step", "--set", "schedule.milestones=[1]", "--set", "schedule.factor=0.5")
        self.train("whole", *self.RATE, *halved)
        self.train("run", *self.RATE, "--set", "train.epochs=1")
        other = ("--set", "train.epochs=2", "--set", "optimizer.learning_rate=0.25")
        refused = self.unisono("train", "run", "--resume", *other)
        self.assertEqual(refused.code, 2, refused)
        self.assertIn("--resume --change optimizer.learning_rate=0.25", messages(refused)[0])
        change = ("--change", "optimizer.learning_rate=0.25")
        earlier = ("--change", "optimizer.learning_rate=3")  # the last value of a key counts
        told = self.succeed("train", "run", "--resume", "--set", "train.epochs=2", *earlier, *change)
        self.assertIn("changed on request: optimizer.learning_rate from 0.5 to 0.25", told.out)
        self.assert_same_bits("whole", "run")
        made = {"key": "optimizer.learning_rate", "before": "0.5", "after": "0.25", "step": 10}
        self.assertEqual(self.summary("run")["changed"], [made])
        # The change stays with the run, and is no change any more.
        self.succeed("train", "run", "--resume", "--set", "train.epochs=3", *change)
        self.assertEqual(self.summary("run")["changed"], [made])
        self.assertNotIn("changed", self.summary("whole"))

    def test_a_run_that_is_killed_before_its_next_checkpoint_keeps_the_change(self):
        halved = ("--set", "schedule.kind=step", "--set", "schedule.milestones=[1]", "--set", "schedule.factor=0.5")
        self.train("whole", *self.RATE, *halved)
        self.train("run", *self.RATE, "--set", "train.epochs=1")
        (checkpoint,) = [path for path in self.checkpoints("run") if path.name != "best.h5"]
        before = checkpoint.stat().st_mtime_ns
        no_more = ("--set", "train.epochs=100000", "--set", "checkpoint.every_epochs=0")
        change = ("--change", "optimizer.learning_rate=0.25")
        with self.started("train", "run", "--resume", *no_more, *change) as process:
            deadline = time.monotonic() + 60
            while checkpoint.stat().st_mtime_ns == before and time.monotonic() < deadline:
                time.sleep(0.02)
            process.kill()
            process.wait(60)
        self.succeed("train", "run", "--resume", "--set", "train.epochs=2", "--set", "checkpoint.every_epochs=1")
        self.assert_same_bits("whole", "run")
        made = {"key": "optimizer.learning_rate", "before": "0.5", "after": "0.25", "step": 10}
        self.assertEqual(self.summary("run")["changed"], [made])

    def test_a_complete_run_is_not_changed(self):
        self.train("run", *self.RATE)
        config, summary = (self.folder / "run/config.toml").read_text(), self.summary("run")
        for words in (("--change", "optimizer.learning_rate=0.25"), ("--set", "train.epochs=1")):
            told = self.succeed("train", "run", "--resume", *words)
            self.assertIn("already complete", told.out)
            self.assertEqual("--change has changed nothing" in told.out, words[0] == "--change", told)
            self.assertNotIn("changed on request", told.out)
            self.assertEqual((self.folder / "run/config.toml").read_text(), config)
            self.assertEqual(self.summary("run"), summary)
        self.succeed("train", "run", "--resume", "--set", "train.epochs=3")

    def test_a_recorded_run_is_not_changed(self):
        recorded = ("--set", "strategy.kind=gradient_sharing", "--set", "strategy.record=true")
        self.train("run", *recorded, "--set", "train.epochs=1", ranks=2)
        words = ("train", "run", "--resume", "--set", "train.epochs=2")
        result = self.unisono(*words, "--change", "optimizer.learning_rate=0.25", ranks=2)
        self.assertEqual(result.code, 2, result)
        self.assertIn("--change optimizer.learning_rate: the events of this run are recorded", messages(result)[0])
        self.succeed(*words, ranks=2)
        self.assertIn("bit for bit", self.succeed("replay", "run", ranks=2).out)

    def test_what_a_run_must_keep_is_not_changed(self):
        self.train("run", "--set", "train.epochs=1")
        for key in ("model.loss", "optimizer.kind", "seed", "train.batch_size", "strategy.kind"):
            with self.subTest(key=key):
                result = self.unisono("train", "run", "--resume", "--change", f"{key}=3")
                self.assertEqual(result.code, 2, result)
                self.assertIn(f"--change {key}=3: a resumed run keeps this key", messages(result)[0])
        for change in ("optimizer.learning_rate=fast", "optimizer.learning_rate=-1"):
            result = self.unisono("train", "run", "--resume", "--change", change)
            self.assertEqual(result.code, 2, result)
            self.assertIn(f"config error: --change {change}: ", messages(result)[0])
        for words in (("train", "config.toml", "--change", "optimizer.learning_rate=3"),):
            self.assertEqual(self.unisono(*words).code, 2)
        # Without momentum there is no vector for it.
        sgd = ("--set", "optimizer.kind=sgd")
        self.train("plain", "--set", "train.epochs=1", *sgd)
        result = self.unisono(
            "train", "plain", "--resume", "--set", "train.epochs=2", "--change", "optimizer.momentum=0.9"
        )
        self.assertNotEqual(result.code, 0, result)
        self.assertRegex(messages(result)[0], r"holds optimizer state \(\) that does not fit .* \(velocity\)")


if __name__ == "__main__":
    unittest.main()
