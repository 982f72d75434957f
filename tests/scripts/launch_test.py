#!/usr/bin/env python3
"""scripts/launch: exit codes, signals, binding and bad command lines, with small programs in place of unisono."""
import concurrent.futures
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from fakes import ScriptTest

LAUNCH = Path(__file__).resolve().parents[2] / "scripts/launch"

# Ends with 75 at USR1, as a training does; says when it is ready for signals.
RANK = "trap 'exit 75' USR1; echo ready; for i in $(seq 300); do sleep 0.1; done; exit 3"
DEAF = "trap '' USR1; echo ready; exec sleep 30"


def side_by_side(run, cases):
    """The results of cases that mostly wait."""
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        return list(pool.map(run, cases))


def launch(*arguments, **options):
    return subprocess.run([LAUNCH, *arguments], capture_output=True, text=True, timeout=60, check=False, **options)


def signalled(ranks, program, signals):
    """The exit code of a launch that gets the signals once all its ranks are ready."""
    with subprocess.Popen([LAUNCH, "-n", str(ranks), "bash", "-c", program], stdout=subprocess.PIPE, text=True) as job:
        for _ in range(ranks):
            assert job.stdout.readline() == "ready\n"
        for number in signals:
            job.send_signal(number)
            time.sleep(0.5)
        return job.wait(timeout=30)


class Launch(unittest.TestCase):
    def test_starts_so_many_ranks_also_more_than_there_are_cores(self):
        for ranks in (1, 2, os.cpu_count() + 1):
            result = launch("-n", str(ranks), "bash", "-c", "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE")
            expected = [f"rank {rank} of {ranks}" for rank in range(ranks)]
            self.assertEqual(sorted(result.stdout.splitlines()), sorted(expected))
            self.assertEqual(result.stderr, "")
            self.assertEqual(result.returncode, 0)

    def test_returns_the_code_of_the_ranks_and_adds_no_banner(self):
        result = launch("-n", "2", "bash", "-c", "exit 4")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (4, "", ""))

    def test_a_training_ends_with_75_at_any_signal(self):
        signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
        codes = side_by_side(lambda number: signalled(2, RANK, [number]), signals)
        self.assertEqual(dict(zip(signals, codes)), dict.fromkeys(signals, 75))

    def test_a_command_that_is_no_training_is_ended_with_130(self):
        self.assertEqual(signalled(2, "echo ready; exec sleep 30", [signal.SIGINT]), 130)

    def test_a_second_signal_kills(self):
        started = time.monotonic()
        self.assertNotIn(signalled(2, DEAF, [signal.SIGINT, signal.SIGINT]), (0, 75))
        self.assertLess(time.monotonic() - started, 20)

    def test_a_rank_that_is_killed_is_told_from_one_that_fails(self):
        rank = "trap '' TERM; sleep 1; [[ $OMPI_COMM_WORLD_RANK == 0 ]] || kill -KILL $$; sleep 20"
        result = launch("-n", "2", "bash", "-c", rank)
        self.assertEqual(result.returncode, 5)
        self.assertIn("launch: signal 9 (KILL) ended rank 1", result.stderr)

    def test_ranks_that_last_are_not_taken_for_a_hanging_mpirun(self):
        result = launch("-n", "2", "bash", "-c", "[[ $OMPI_COMM_WORLD_RANK == 0 ]] || sleep 9; exit 0")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_what_mpirun_says_is_said_with_what_to_do(self):
        cases = {
            "--host localhost:1": ("not enough slots", "start fewer, give the hosts more"),
            "--hostfile nowhere": ("unable to open the hostfile", "check the name of the hostfile"),
            "--host no.such.host.example": ("", "check the names of the hosts"),
        }
        for option, (said, advice) in cases.items():
            result = launch("-n", "3", "-o", option, "true")
            self.assertEqual(result.returncode, 5, option)
            expected = f"(?s)launch: mpirun started no ranks; it says:.*{said}.*launch: .*{advice}"
            self.assertRegex(result.stderr, expected)

    def test_words_with_blanks_stand_in_quotes(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "my hosts").write_text("localhost slots=2\n")
            result = launch("-n", "2", "-o", "--hostfile 'my hosts'", "echo", "started", cwd=folder)
        self.assertEqual((result.returncode, result.stdout), (0, "started\nstarted\n"))
        result = launch("-n", "2", "-o", "--hostfile 'my hosts", "true")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, "launch: -o --hostfile 'my hosts: a quote is missing\n")

    def test_a_place_for_output_that_is_no_folder_is_refused(self):
        result = launch("-n", "1", "-o", "--output-filename /dev/null", "true")
        self.assertEqual(result.returncode, 2)
        self.assertIn("launch: --output-filename /dev/null: mpirun makes folders there", result.stderr)

    def test_a_missing_folder_for_temporary_files_is_named(self):
        result = launch("-n", "1", "true", env={**os.environ, "TMPDIR": "/nowhere"})
        self.assertEqual(result.returncode, 5)
        self.assertIn("launch: no file can be written in /nowhere", result.stderr)
        self.assertIn("set TMPDIR", result.stderr)

    def test_signals_of_the_first_moments_wait_for_the_ranks(self):
        def stopped_after(seconds):
            with subprocess.Popen([LAUNCH, "-n", "2", "bash", "-c", RANK], stdout=subprocess.DEVNULL) as job:
                time.sleep(seconds)
                job.send_signal(signal.SIGUSR1)
                return job.wait(timeout=30)

        delays = (0.03, 0.06, 0.1, 0.15, 0.25)
        self.assertEqual(side_by_side(stopped_after, delays), [75] * len(delays))

    def test_one_rank_may_run_on_every_core(self):
        result = launch("-n", "1", "nproc")
        self.assertEqual(int(result.stdout), len(os.sched_getaffinity(0)))

    def test_ranks_stay_on_the_cores_that_the_shell_may_use(self):
        core = max(os.sched_getaffinity(0))
        result = launch("-n", "2", "grep", "Cpus_allowed_list", "/proc/self/status",
                        preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        self.assertEqual(re.findall(r"list:\s*(\S+)", result.stdout), [str(core)] * 2)

    def test_options_for_mpirun_are_handed_on(self):
        result = launch("-n", "2", "-o", "-x UNISONO_LAUNCH_TEST=heard", "bash", "-c", "echo $UNISONO_LAUNCH_TEST")
        self.assertEqual(result.stdout, "heard\nheard\n")

    def test_a_bad_command_line_is_refused_with_the_usage(self):
        for arguments in ((), ("-n", "2"), ("-n", "0", "true"), ("-n", "two", "true"), ("true",), ("-x", "true")):
            result = launch(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn("scripts/launch -n RANKS", result.stderr)

    def test_a_command_that_is_not_there_is_named(self):
        result = launch("-n", "2", "./no-such-program")
        self.assertEqual(result.returncode, 127)
        self.assertEqual(result.stderr, "launch: './no-such-program' is not there or cannot be executed\n")


# Starts the ranks as mpirun does, and then hangs whatever it is told.
HANGING = """
while [[ $1 != -n ]]; do shift; done
ranks=$2
shift 2
for rank in $(seq 0 $((ranks - 1))); do OMPI_COMM_WORLD_RANK=$rank "$@" & done
wait
trap '' TERM INT USR1
exec sleep 50
"""


class HangingLauncher(ScriptTest):
    def launch_on_it(self, command):
        started = time.monotonic()
        result = self.run_script("scripts/launch", "-n", "2", *command)
        self.assertLess(time.monotonic() - started, 30)
        self.assertEqual(result.stderr.count("mpirun had not ended 5 s after the last rank, and was ended"), 1, result)
        return result.returncode

    def test_it_is_ended_with_the_code_of_the_ranks_or_an_error_of_its_own(self):
        self.fake("mpirun", HANGING)
        (self.folder / "config.toml").write_text("nonsense = 1\n")
        said = ("bash", "-c", "sleep 1; echo 4 > $UNISONO_EXIT_CODE_FILE")
        unknown = ("sleep", "1")
        of_unisono = (os.environ["UNISONO"], "info", "config.toml")
        self.assertEqual(side_by_side(self.launch_on_it, (said, unknown, of_unisono)), [4, 5, 2])


# What a training leaves behind, for a program in its place: a checkpoint of a step, and its word how it ends.
CHECKPOINT = "mkdir -p run/checkpoints; touch run/checkpoints/step-$(printf %09d $1).h5"
ENDS = "echo $1 > $UNISONO_EXIT_CODE_FILE; exit $1"
TRAINING = f"""
checkpoint() {{ {CHECKPOINT}; }}
ends_with() {{ {ENDS}; }}
resumes() {{ [[ " $* " == *" --resume "* ]]; }}
"""


class Restarts(ScriptTest):
    def launch(self, body, *options, ranks=1, restarts=5, output="run", after=(), **environment):
        """A launch of a program that does `body` in place of a training."""
        self.fake("trainer", TRAINING + body)
        words = ("-n", str(ranks), "--restarts", str(restarts), *options)
        words += ("trainer", "train", "c", "--output", output, *after)
        environment["OMPI_MCA_odls_base_sigkill_timeout"] = "0"
        return self.run_script("scripts/launch", *words, **environment)

    def test_a_killed_rank_begins_again_from_the_newest_checkpoint(self):
        result = self.launch("resumes $* && ends_with 0; checkpoint 7; kill -KILL $$")
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual([" ".join(call.split()[1:]) for call in self.calls("trainer")],
                         ["train c --output run", "train c --output run --resume"])
        self.assertIn("launch: restart 1 of 5, from step 7, on 1 rank\n", result.stderr)

    def test_without_a_checkpoint_it_begins_anew(self):
        result = self.launch('[[ " $* " == *" --overwrite "* ]] && ends_with 0; kill -KILL $$')
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("launch: restart 1 of 5, from step 0, on 1 rank\n", result.stderr)

    def test_a_folder_that_was_there_is_not_replaced(self):
        (self.folder / "run").mkdir()
        result = self.launch("[[ -e once ]] && ends_with 2; touch once; kill -KILL $$")
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual([call.split()[1:] for call in self.calls("trainer")], [["train", "c", "--output", "run"]] * 2)

    def test_a_run_that_was_there_is_not_gone_on_with_unasked(self):
        old = self.folder / "run/checkpoints/step-000000900.h5"
        for asked, taken in (((), ()), (("--overwrite",), ("--overwrite",)), (("--resume",), ("--resume",))):
            old.parent.mkdir(parents=True, exist_ok=True)
            old.touch()
            self.calls_file.write_text("")
            result = self.launch("[[ -e once ]] && ends_with 2; touch once; kill -KILL $$", after=asked)
            self.assertEqual(result.returncode, 2, result)
            words = ["train", "c", "--output", "run"]
            self.assertEqual([call.split()[1:] for call in self.calls("trainer")], [[*words, *asked], [*words, *taken]])
            (self.folder / "once").unlink()

    def test_what_replaced_a_run_is_gone_on_with(self):
        (self.folder / "run/checkpoints").mkdir(parents=True)
        (self.folder / "run/checkpoints/step-000000900.h5").touch()
        body = "resumes $* && ends_with 0; rm run/checkpoints/*; checkpoint 7; kill -KILL $$"
        result = self.launch(body, after=("--overwrite",))
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("launch: restart 1 of 5, from step 7, on 1 rank\n", result.stderr)

    def test_folders_may_have_any_name(self):
        for name in ("run [1]*", "what?"):
            body = f"run='{name}'; " + "resumes $* && ends_with 0; mkdir -p \"$run/checkpoints\"; " \
                "touch \"$run/checkpoints/step-000000007.h5\"; kill -KILL $$"
            result = self.launch(body, output=name)
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("from step 7,", result.stderr)

    def test_a_bad_command_line_of_the_training_is_not_repeated(self):
        result = self.launch("exit 2")
        self.assertEqual((result.returncode, len(self.calls("trainer"))), (2, 1))

    def test_ranks_whose_mpirun_was_killed_are_ended(self):
        body = ("resumes $* && ends_with 0; checkpoint 7; echo $$ > rank; kill -KILL $PPID; sleep 30; touch outlived")
        result = self.launch(body)
        self.assertEqual(result.returncode, 0, result)
        stat = Path(f"/proc/{int((self.folder / 'rank').read_text())}/stat")
        self.assertTrue(not stat.exists() or stat.read_text().split(")")[-1].split()[0] == "Z")

    def test_hostfiles_of_all_kinds_are_read(self):
        for text in ("localhost slots=2", "\n# mine\nlocalhost slots=02 max_slots=4\r\n", "localhost\nlocalhost\n"):
            (self.folder / "hosts").write_text(text)
            body = "resumes $* && ends_with 0; checkpoint 7; kill -KILL $$"
            result = self.launch(body, "-o", "--hostfile hosts", ranks=2)
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("from step 7, on 2 ranks of localhost\n", result.stderr)
            (self.folder / "run/checkpoints/step-000000007.h5").unlink()
            (self.folder / "run/checkpoints").rmdir()
            (self.folder / "run").rmdir()

    def test_hosts_that_cannot_be_taken_are_refused(self):
        (self.folder / "hosts").write_text("# none\n")
        (self.folder / "more").write_text("localhost\n")
        for option, expected in (("--hostfile hosts", "the hostfile names no host"),
                                 ("--hostfile more --host localhost", "not from both"),
                                 ("--hostfile nowhere", "cannot be read")):
            result = self.launch("true", "-o", option)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(expected, result.stderr)

    def test_options_for_mpirun_are_handed_on_with_all_their_characters(self):
        value = "a 'b' \"c\" $d \\e"
        quoted = "".join(f"\\{letter}" for letter in f"WORD={value}")
        body = '[[ $WORD == "$EXPECTED" ]] && ends_with 0; ends_with 4'
        result = self.launch(body, "-o", f"-x {quoted}", EXPECTED=value)
        self.assertEqual(result.returncode, 0, result)

    def test_a_checkpoint_on_a_local_disk_or_in_memory_is_taken(self):
        for note, said in (("local", "step 0,"), ("memory", "step 0 or a later copy in memory,")):
            body = f"mkdir -p run/checkpoints; touch run/checkpoints/{note}.txt; kill -KILL $$"
            result = self.launch("resumes $* && ends_with 0; " + body)
            self.assertEqual(result.returncode, 0, result)
            self.assertIn(f"launch: restart 1 of 5, from {said} on", result.stderr)

    def test_lost_messages_and_unasked_interruptions_are_restarted(self):
        for code in (5, 75):
            result = self.launch(f"resumes $* && ends_with 0; checkpoint {code}; ends_with {code}")
            self.assertEqual(result.returncode, 0, result)
            self.assertIn(f"launch: restart 1 of 5, from step {code}, on 1 rank\n", result.stderr)

    def test_what_would_come_again_is_not_restarted(self):
        for code in (1, 2, 3, 4, 6):
            result = self.launch(f"checkpoint {code}; ends_with {code}")
            self.assertEqual((result.returncode, result.stderr), (code, ""))
        self.assertEqual(len(self.calls("trainer")), 5)

    def test_three_starts_without_a_checkpoint_are_enough(self):
        result = self.launch("checkpoint 7; kill -KILL $$")
        self.assertEqual(result.returncode, 5)
        self.assertEqual(len(self.calls("trainer")), 4)  # the first one reaches step 7
        self.assertIn("three starts in a row have not reached a checkpoint after step 7", result.stderr)

    NOTES = "mkdir -p run/checkpoints; printf 'id\\nstep %d\\n' "

    def test_copies_in_memory_are_progress(self):
        count = "$(wc -l < calls)"
        result = self.launch(f"[[ {count} -lt 6 ]] || ends_with 0; {self.NOTES} {count} > run/checkpoints/memory.txt; "
                             "kill -KILL $$")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("restart 5 of 5, from step 0 or a later copy in memory, on 1 rank\n", result.stderr)

    def test_three_starts_without_a_new_copy_in_memory_are_enough(self):
        result = self.launch(f"{self.NOTES} 7 > run/checkpoints/memory.txt; kill -KILL $$")
        self.assertEqual((result.returncode, len(self.calls("trainer"))), (5, 4))
        self.assertIn("three starts in a row have not reached a checkpoint after step 7", result.stderr)

    def test_the_number_of_restarts_is_kept(self):
        result = self.launch("checkpoint $(ls run/checkpoints 2>/dev/null | wc -l | sed 's/$/1/'); kill -KILL $$",
                             restarts=2)
        self.assertEqual(result.returncode, 5)
        self.assertEqual(len(self.calls("trainer")), 3)
        self.assertIn("launch: not started again after 2 restarts; it goes on with --resume", result.stderr)

    def test_a_host_that_does_not_answer_is_left_out_and_comes_back(self):
        for option in ("--hostfile hosts", "--host localhost:1,ghost:1"):
            (self.folder / "hosts").write_text("localhost slots=1\nghost slots=1 # away\n")
            agent = self.fake("agent", "exit 255")
            result = self.launch("ends_with 0", "-o", option, ranks=2, OMPI_MCA_plm_rsh_agent=str(agent))
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("launch: no answer from ghost\n", result.stderr)
            self.assertIn("launch: restart 1 of 5, from step 0, on 1 rank of localhost\n", result.stderr)

    def test_a_host_that_answers_again_comes_back(self):
        (self.folder / "hosts").write_text("localhost slots=1\nghost slots=1\n")
        agent = self.fake("agent", "[[ $2 == true && -e run/checkpoints ]] || exit 255")
        result = self.launch("checkpoint 3; kill -KILL $$", "-o", "--hostfile hosts", ranks=2, restarts=2,
                             OMPI_MCA_plm_rsh_agent=str(agent))
        self.assertIn("launch: restart 1 of 2, from step 0, on 1 rank of localhost\n", result.stderr)
        self.assertIn("launch: restart 2 of 2, from step 3, on 2 ranks of localhost ghost\n", result.stderr)

    def test_a_host_that_fails_twice_stays_out_and_no_host_is_an_end(self):
        (self.folder / "hosts").write_text("ghost slots=1\n")
        agent = self.fake("agent", "exit 255")
        result = self.launch("true", "-o", "--hostfile hosts", OMPI_MCA_plm_rsh_agent=str(agent))
        self.assertEqual(result.returncode, 5)
        self.assertIn("launch: no host is left", result.stderr)
        (self.folder / "hosts").write_text("localhost slots=1\nghost slots=1\n")
        body = "checkpoint $RANDOM; [[ $(ls run/checkpoints | wc -l) -lt 4 ]] || ends_with 0; kill -KILL $$"
        result = self.launch(body, "-o", "--hostfile hosts", OMPI_MCA_plm_rsh_agent=str(agent))
        self.assertEqual(result.stderr.count("no answer from ghost (for the second time; it stays out)\n"), 1, result)
        self.assertEqual(result.stderr.count("no answer from ghost"), 2)

    def test_without_restarts_the_hosts_that_do_not_answer_are_named(self):
        agent = self.fake("agent", "exit 255")
        self.fake("mpirun", 'while [[ $1 != -n ]]; do shift; done; shift 2\n'
                            'OMPI_COMM_WORLD_RANK=0 "$@" & sleep 0.6; exit 9')
        result = self.run_script("scripts/launch", "-n", "1", "-o", "--host ghost", "sleep", "0.5",
                                 OMPI_MCA_plm_rsh_agent=str(agent))
        self.assertEqual(result.returncode, 5, result)
        self.assertIn("launch: no answer from ghost. A training goes on", result.stderr)

    def test_a_signal_of_the_user_ends_it(self):
        self.fake("trainer", TRAINING + RANK.replace("exit 75", "ends_with 75"))
        words = ["-n", "2", "--restarts", "5", "trainer", "train", "--output", "run"]
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        with subprocess.Popen([LAUNCH, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder, env={**os.environ, "PATH": path}) as job:
            for _ in range(2):
                self.assertEqual(job.stdout.readline(), "ready\n")
            job.send_signal(signal.SIGINT)
            self.assertEqual(job.wait(timeout=30), 75)
            self.assertNotIn("restart 1", job.stderr.read())
        self.assertEqual(len(self.calls("trainer")), 2)

    def test_what_cannot_be_restarted_is_refused(self):
        for words in (("train", "c"), ("predict", "c", "--output", "o")):
            result = self.run_script("scripts/launch", "-n", "1", "--restarts", "1", "true", *words)
            self.assertEqual(result.returncode, 2)
            self.assertIn("launch: --restarts needs a training with --output", result.stderr)
        for words in (("--restarts", "x", "true"), ("--restarts",), ("--restart", "1", "true")):
            result = self.run_script("scripts/launch", "-n", "1", *words)
            self.assertEqual(result.returncode, 2)
            self.assertIn("scripts/launch -n RANKS", result.stderr)


if __name__ == "__main__":
    unittest.main()
