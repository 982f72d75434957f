"""scripts/launch --restarts: a training whose ranks are killed ends, by itself, as if nothing had happened."""

import contextlib
import os
import pathlib
import random
import signal
import time
import unittest

from harness import AT_ONCE, BINARY, BinaryTest, processes, settings

LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "scripts/launch"
EPOCHS = 20  # of 10 steps
WAYS = {
    "allreduce": settings(),
    "averaging": settings("strategy.kind=averaging", "strategy.period=3", "strategy.optimizer_state=keep"),
}
OFTEN = settings("checkpoint.every_steps=3")
IN_MEMORY = settings("checkpoint.every_epochs=0", "checkpoint.memory_every_steps=3")


class Restarts(BinaryTest):
    def launched(self, *words):
        launch = [LAUNCH, "-n", "2", "--restarts", "20", BINARY, "train", "config.toml", *words]
        return self.running(launch, AT_ONCE)

    def kill_a_rank(self, session):
        ranks = [id for id, name, _, of in processes() if name == "unisono" and of == session]
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(random.choice(ranks), signal.SIGKILL)
        return bool(ranks)

    def test_killed_ranks_end_with_the_bits_of_an_undisturbed_run(self):
        for name, kept in (("allreduce", OFTEN), ("averaging", OFTEN), ("averaging", IN_MEMORY)):
            with self.subTest(name, kept=kept):
                whole, killed = f"whole {name} {len(kept)}", f"killed {name} {len(kept)}"
                common = (*settings(f"train.epochs={EPOCHS}"), *kept, *WAYS[name])
                self.train(whole, *common, ranks=2)
                slowly = settings("fault.emulated_seconds=0.02")
                with self.launched("--output", killed, *common, *slowly) as process:
                    kills = 0
                    while process.poll() is None and kills < 3:
                        time.sleep(random.uniform(1, 3))
                        kills += self.kill_a_rank(process.pid)
                    output = process.communicate(timeout=120)[0]
                self.assertEqual(process.returncode, 0, output)
                self.assertIn("launch: restart 1 of 20, from step", output)
                if kept == IN_MEMORY:
                    self.assertIn("is in the nodes' memory alone", output)
                self.assert_same_bits(whole, killed)
                self.assertEqual(self.summary(killed)["test"], self.summary(whole)["test"])

    def test_an_error_of_the_config_is_not_restarted(self):
        with self.launched("--output", "run", *settings("train.batch_size=-1")) as process:
            output = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 2, output)
        self.assertNotIn("restart", output)


if __name__ == "__main__":
    unittest.main()
