"""A user of a cluster without root: from the bundle to a training under Slurm, on two nodes. Where root runs this, the
user is "nobody".

UNISONO=build/release/bin/unisono UNISONO_SOURCE=. python3 tests/install/slurm_test.py
"""

import getpass
import json
import os
import pathlib
import pwd
import re
import subprocess
import tempfile
import time
import unittest

import slurm

SOURCE = pathlib.Path(os.environ["UNISONO_SOURCE"]).resolve()
BINARIES = pathlib.Path(os.environ["UNISONO"]).resolve().parent
USER = pwd.getpwnam("nobody" if os.geteuid() == 0 else getpass.getuser())
AS_USER = {"user": USER.pw_uid, "group": USER.pw_gid, "extra_groups": []}
TRAIN = "bundle/share/unisono/train.sbatch"

CONFIG = """
name = "tiny"
[data]
path = "digits.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [{ kind = "flatten" }, { kind = "dense", units = 32 }, { kind = "relu" }, { kind = "dense", units = 10 }]
[optimizer]
kind = "sgd"
learning_rate = 0.1
[train]
epochs = 2
batch_size = 16
threads = 1
"""


@unittest.skipIf(slurm.missing(), slurm.missing())
class ClusterUser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="unisono-test-")
        cls.addClassCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        folder.chmod(0o755)
        archive = folder / "bundle.tar.xz"
        words = [SOURCE / "scripts/make-bundle", "--binaries", BINARIES, "--output", archive, "--level", "0"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        archive.chmod(0o644)
        cls.home = folder / "home"
        cls.home.mkdir()
        os.chown(cls.home, USER.pw_uid, USER.pw_gid)
        cluster = folder / "cluster"
        cluster.mkdir()
        cls.slurm = cls.enterClassContext(slurm.Slurm(cluster))
        # All that follows is what the user does.
        cls.succeed("mkdir", "bundle")
        cls.succeed("tar", "-xf", archive, "-C", "bundle", "--strip-components", "1")
        (cls.home / "tiny.toml").write_text(CONFIG)
        cls.succeed("unisono", "data", "digits", "--train", "480", "--test", "100", "--output", "digits.h5")

    @classmethod
    def succeed(cls, *words):
        """What a command of the user prints, with the bundle on the PATH."""
        environment = {
            "PATH": f"{cls.home}/bundle/bin:/usr/bin:/bin",
            "HOME": str(cls.home),
            "SLURM_CONF": cls.slurm.environment["SLURM_CONF"],
        }
        done = subprocess.run(
            list(map(str, words)),
            cwd=cls.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
            **(AS_USER if os.geteuid() == 0 else {}),
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, *words):
        return re.fullmatch(r"Submitted batch job (\d+)\n", self.succeed("sbatch", *words))[1]

    def state_of(self, job):
        return re.search(r"JobState=(\w+)", self.succeed("scontrol", "show", "job", job))[1]

    def log(self, job):
        path = self.home / f"unisono-{job}.log"
        return path.read_text() if path.exists() else ""

    def wait_for(self, job, condition):
        end = time.monotonic() + 100
        while not condition():
            if time.monotonic() > end or self.state_of(job) in ("FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"):
                self.fail(f"job {job} is {self.state_of(job)}\n{self.log(job)}")
            time.sleep(0.1)

    def wait_until_complete(self, job):
        self.wait_for(job, lambda: self.state_of(job) == "COMPLETED")

    def test_a_training_is_interrupted_goes_back_into_the_queue_and_is_evaluated(self):
        nodes = ["--nodes=2", "--ntasks-per-node=1", "--time=00:10:00"]
        job = self.submit(*nodes, TRAIN, "tiny.toml", "runs/tiny", "--set", "train.epochs=60")
        evaluation = self.submit(
            f"--dependency=afterok:{job}",
            "--output=evaluation.log",
            "--wrap=srun --mpi=pmix unisono evaluate runs/tiny --json",
        )
        metrics = self.home / "runs/tiny/metrics.jsonl"
        self.wait_for(job, lambda: metrics.exists() and metrics.read_text().count("\n") >= 4)
        # What Slurm does before the time limit.
        self.succeed("scancel", "--signal=USR1", job)
        self.wait_for(job, lambda: "train.sbatch: interrupted; back into the queue\n" in self.log(job))
        self.wait_for(job, lambda: self.state_of(job) == "PENDING")
        # Slurm would let the job wait for two minutes. It needs a second to forget the first start.
        self.succeed("scontrol", "update", f"JobId={job}", "StartTime=now+2")
        self.wait_until_complete(job)

        log = self.log(job)
        self.assertRegex(log, r"(?m)^tiny: interrupted after [\d.]+ epochs, \d+ steps")
        self.assertRegex(log, r"(?m)^resumed at step \d+$")
        self.assertEqual(log.count("\nallreduce on 2 ranks"), 2, log)
        summary = json.loads((self.home / "runs/tiny/summary.json").read_text())
        self.assertEqual((summary["status"], summary["ranks"], summary["epochs"]), ("complete", 2, 60))
        self.assertIn(" NodeList=node[1-2]\n", self.succeed("scontrol", "show", "job", job))

        self.wait_until_complete(evaluation)
        figures = json.loads((self.home / "evaluation.log").read_text())
        self.assertAlmostEqual(figures["accuracy"], summary["test"]["accuracy"])

    def test_what_the_config_lacks_fails_the_job_at_once(self):
        job = self.submit("--nodes=2", "--ntasks-per-node=1", TRAIN, "nowhere.toml", "runs/no")
        end = time.monotonic() + 60
        while self.state_of(job) != "FAILED" and time.monotonic() < end:
            time.sleep(0.1)
        self.assertIn("ExitCode=2:0", self.succeed("scontrol", "show", "job", job))
        self.assertEqual(self.log(job).count("config error: nowhere.toml"), 1, self.log(job))


if __name__ == "__main__":
    unittest.main()
