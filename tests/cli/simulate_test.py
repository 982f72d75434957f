"""unisono simulate: ranks that train as real ones would; their time, speeds and links; studies of them; refusals."""

import json
import re
import unittest

from harness import NETWORK, BinaryTest, settings

SMALL = NETWORK.replace("units = 64", "units = 16")
GIVEN = settings("simulation.microseconds_per_example=200")


def ranks(count, *more):
    return (*GIVEN, *settings(f"simulation.ranks={count}", *more))


class Simulate(BinaryTest):
    def simulate(self, output, *arguments, code=0, config="config.toml"):
        result = self.unisono("simulate", config, "--output", output, "--progress", "none", *arguments)
        self.assertEqual(result.code, code, result)
        return result

    def test_ranks_that_train_in_step_end_with_the_bits_of_real_ones(self):
        # The config has batch normalisation, dropout, augmentation and Adam.
        for strategy in (
            ["strategy.kind=allreduce"],
            ["strategy.kind=averaging", "strategy.period=3"],
            ["strategy.kind=parameter_server", "strategy.consistency=synchronous"],
            ["strategy.kind=gradient_sharing", "strategy.staleness_bound=0"],
        ):
            name = strategy[0].split("=")[1]
            self.train(f"real-{name}", *settings(*strategy), ranks=3)
            told = self.simulate(f"simulated-{name}", *settings(*strategy), *ranks(3)).out
            self.assertRegex(told, r"simulated [\d.]+ m?s in [\d.]+ m?s, with 60 gradients")
            self.assert_same_bits(f"real-{name}", f"simulated-{name}")

    def test_its_folder_is_that_of_a_run(self):
        self.simulate("run", *settings("strategy.kind=parameter_server", "strategy.servers=2"), *ranks(10))
        summary = self.summary("run")
        self.assertEqual(len(summary["worker_steps"]), 8)
        self.assertEqual(sum(summary["worker_steps"]), 8 * 20)
        self.assertEqual(sum(summary["serving"]["staleness"]["counts"]), 2 * 8 * 20)
        evaluated = self.succeed("evaluate", "run").out
        self.assertRegex(evaluated, rf" accuracy +{summary['test']['accuracy']:.6g}\n")
        self.succeed("report", "run", "--output", "run.html")
        self.assertRegex(self.succeed("runs", ".").out, r"run +complete +10 ")

    def test_slow_ranks_make_fewer_steps_and_take_longer(self):
        own = settings("strategy.kind=gossip_async", "train.batch_size=8", "train.report_every_steps=100")
        self.simulate("alike", *own, *ranks(4))
        slow = ("simulation.slow_share=0.5", "simulation.slow_factor=8")
        self.simulate("unlike", *own, *ranks(4, *slow))
        steps = {run: sorted(self.summary(run)["gossip"]["rank_steps"]) for run in ("alike", "unlike")}
        self.assertEqual(sum(steps["alike"]), sum(steps["unlike"]))
        self.assertLess(steps["alike"][-1], 1.5 * steps["alike"][0])
        self.assertGreater(steps["unlike"][-1], 3 * steps["unlike"][0])
        self.assertGreater(self.summary("unlike")["seconds"]["total"], 1.3 * self.summary("alike")["seconds"]["total"])
        found = json.loads((self.folder / "unlike/timeline.json").read_text())["ranks"]
        self.assertEqual([rank["rank"] for rank in found], [0, 1, 2, 3])
        lengths = []
        for rank in found:
            spans = rank["gradients"]
            self.assertTrue(all(a[1] <= b[0] for a, b in zip(spans, spans[1:])))  # one after the other
            lengths.append(spans[0][1] - spans[0][0])
        self.assertAlmostEqual(max(lengths) / min(lengths), 8, delta=1e-6)
        self.succeed("report", "unlike", "--output", "unlike.html")
        self.assertIn("The first gradients of the first ranks", (self.folder / "unlike.html").read_text())
        self.write("unlike/timeline.json", "{")
        (self.folder / "unlike/failures.json").mkdir()
        self.succeed("report", "unlike", "--output", "unlike.html")
        page = (self.folder / "unlike.html").read_text()
        self.assertIn("timeline.json is damaged", page)
        self.assertIn("failures.json is damaged", page)

    def test_a_rank_whose_averages_are_always_under_way_makes_its_steps_between_them(self):
        own = settings("strategy.kind=gossip_async", "train.batch_size=8", "train.report_every_steps=100")
        self.simulate("run", *own, *settings("train.epochs=1"), *ranks(3, "simulation.link_mbit=1"))
        steps = self.summary("run")["gossip"]["rank_steps"]
        self.assertGreater(steps[1], 0.9 * max(steps), steps)  # it answers the two others

    def test_a_slower_link_takes_longer_and_changes_no_bit_of_a_step(self):
        own = settings("strategy.kind=allreduce", "train.report_every_steps=100")
        self.simulate("fast", *own, *ranks(8, "simulation.link_mbit=10000"))
        self.simulate("slow", *own, *ranks(8, "simulation.link_mbit=1"))
        self.assert_same_bits("fast", "slow")
        waited = [self.summary(run)["seconds"] for run in ("fast", "slow")]
        self.assertAlmostEqual(waited[0]["compute"], waited[1]["compute"], delta=1e-9)
        # 20 steps, each of a sum of 4 N bytes: 7/8 of them there and back at 125 kB/s. Batch statistics add a little.
        floats = 4 * 25 + 2 * 4 + 4 * 12 * 12 * 10 + 10
        longer = 20 * 2 * 7 / 8 * 4 * floats * 8 * (1e-6 - 1e-10)
        total = [one["exposed_communication"] + one["straggler_wait"] for one in waited]
        self.assertAlmostEqual(total[1] - total[0], longer, delta=0.06 * longer)

    def test_the_same_config_gives_the_same_run_on_any_number_of_threads(self):
        random = ("simulation.speed_spread=0.4", "simulation.step_times=pareto", "simulation.step_spread=0.4")
        for name, threads in (("run1", 1), ("run2", 2), ("run3", 3)):
            self.simulate(
                name, *settings("strategy.kind=parameter_server"), *ranks(5, *random), "--threads", threads
            )
        self.assert_same_bits("run1", "run2")
        self.assert_same_bits("run1", "run3")
        self.assertEqual(self.summary("run1")["seconds"], self.summary("run3")["seconds"])

    def test_what_an_example_takes_is_measured_and_kept_in_the_config(self):
        told = self.simulate("run", *settings("simulation.ranks=2")).out
        self.assertRegex(told, r"simulation.microseconds_per_example = [\d.e+-]+, as measured on one core")
        with open(self.folder / "run/config.toml", encoding="utf-8") as config:
            self.assertRegex(config.read(), r"microseconds_per_example = [\d.e+-]*[1-9]")
        again = self.unisono("simulate", "run/config.toml", "--output", "two", "--progress", "none")
        self.assertEqual(again.code, 0, again)
        self.assert_same_bits("run", "two")
        seconds = [self.summary(run)["seconds"] for run in ("run", "two")]
        for part in ("compute", "exposed_communication", "straggler_wait", "evaluation"):
            self.assertEqual(seconds[0][part], seconds[1][part], part)

    def test_a_study_compares_simulated_ranks(self):
        with open(self.folder / "config.toml", encoding="utf-8") as config:
            text = config.read()
        server = '{ kind = "parameter_server", servers = 1 }'
        self.write(
            "study.toml",
            text
            + "[simulation]\nranks = 1\nmicroseconds_per_example = 300\n"
            + '[study]\nmetric = "test accuracy"\nmargin = 0.1\nseeds = 2\nvariants = [\n'
            + f'  {{ name = "servers", strategy = {server}, simulation = {{ ranks = 9 }} }},\n'
            + '  { name = "sums", strategy = { kind = "allreduce" }, simulation = { ranks = 4 } },\n]\n',
        )
        told = self.succeed("study", "study.toml", "--output", "study").out
        self.assertRegex(told, r"servers +\| 9 × 1 ")
        self.assertRegex(told, r"sums +\| 4 × 1 ")
        again = self.succeed("study", "study.toml", "--output", "again").out
        lines = [[line for line in text.splitlines() if "× 1" in line] for text in (told, again)]
        self.assertEqual(lines[0], lines[1])  # seconds, too

    def test_a_recorded_simulation_is_repeated_by_real_ranks(self):
        self.simulate("run", *settings("strategy.kind=parameter_server", "strategy.record=true"), *ranks(3))
        self.assertIn("bit for bit", self.succeed("replay", "run", "--output", "again", ranks=2).out)
        self.assert_same_bits("run", "again")

    def test_a_study_of_real_and_simulated_seconds_is_refused(self):
        text = (self.folder / "config.toml").read_text()
        variant = '{ strategy = { kind = "allreduce" }, simulation = { ranks = 2, microseconds_per_example = 9 } }'
        study = f'[study]\nmetric = "test accuracy"\nmargin = 0.1\nvariants = [{variant}]\n'
        self.write("study.toml", text + study)
        result = self.unisono("study", "study.toml")
        self.assertEqual(result.code, 2, result)
        self.assertIn("its time is simulated, but that of the serial run is not", result.err)
        self.write("study.toml", text + "[simulation]\nranks = 1\nmicroseconds_per_example = 9\n" + study)
        result = self.unisono("study", "study.toml", ranks=2)
        self.assertEqual(result.code, 2, result)
        self.assertIn("start the study without mpirun", result.err)

    def test_a_simulation_goes_on_after_its_last_checkpoint(self):
        own = settings("strategy.kind=averaging", "strategy.period=3", "simulation.step_times=lognormal")
        self.simulate("whole", *own, *ranks(3))
        self.simulate("parts", *own, *ranks(3), *settings("train.epochs=1"))
        self.simulate("parts", *own, *ranks(3), "--resume")
        self.assert_same_bits("whole", "parts")

    def test_failing_hosts_cost_time_and_no_bit(self):
        # 20 steps of 24 examples: 6 s on each of 4 ranks, and a failure every 36.
        own = ranks(4, "simulation.microseconds_per_example=1e6", "simulation.checkpoint_seconds=0.5")
        often = settings("checkpoint.every_steps=2", "simulation.restart_seconds=5")
        self.simulate("whole", *own, *often)
        fail = settings("simulation.hours_between_failures=0.01")
        told = self.simulate("failed", *own, *often, *fail).out
        self.assert_same_bits("whole", "failed")
        found = json.loads((self.folder / "failed/failures.json").read_text())
        self.assertGreater(found["failures"], 1)
        self.assertEqual(told.count("a host failed after"), found["failures"])
        self.assertRegex(told, rf"{found['failures']} failures cost [\d.]+ % of the time: .* to be expected")
        shares = found["shares"]
        parts = shares["checkpoints"] + shares["made_again"] + shares["restarts"]
        self.assertAlmostEqual(parts, shares["lost"], delta=1e-9)
        self.assertAlmostEqual(shares["restarts"], 5 * found["failures"] / found["seconds"], delta=1e-9)
        self.assertEqual(len(found["events"]), found["failures"])
        self.succeed("report", "failed", "--output", "failed.html")
        page = (self.folder / "failed.html").read_text()
        self.assertIn("What failures of simulated hosts cost", page)
        self.assertIn("went on from step", page)
        self.assertFalse((self.folder / "whole/failures.json").exists())
        # The run chooses how often where the config says how often hosts fail.
        itself = settings("checkpoint.hours_between_failures=0.01")
        self.simulate("itself", *own, *fail, *itself)
        self.assert_same_bits("whole", "itself")

    def test_failed_hosts_are_missing_until_they_are_repaired(self):
        # 20 steps of 24 examples: 6 s on each of 4 ranks. The first host lost has a spare one, the second has none.
        self.write("failures.jsonl", '{"seconds": 50}\n\n{"seconds": 20}\n')
        own = ranks(4, "simulation.microseconds_per_example=1e6", "simulation.failure_times=failures.jsonl")
        repaired = settings("simulation.spare_hosts=1", "simulation.restart_seconds=5", "checkpoint.every_steps=2")
        told = self.simulate("run", *own, *repaired, *settings("simulation.repair_hours=1")).out
        self.assertRegex(told, r"a host failed after 20 s; the run goes on from step \d+\n")
        self.assertRegex(told, r"a host failed after 50 s; the run goes on from step \d+, on 3 ranks\n")
        found = json.loads((self.folder / "run/failures.json").read_text())
        self.assertEqual([(event["seconds"], event["ranks"]) for event in found["events"]], [(20, 4), (50, 3)])
        self.assertEqual(self.summary("run")["ranks"], 3)
        # Three ranks compute 8 examples in each step after that, four 6.
        left = 20 - found["events"][1]["step"]
        self.assertGreater(self.summary("run")["seconds"]["total"] + 55, 55 + 8 * left)
        told = self.simulate("soon", *own, *repaired, *settings("simulation.repair_hours=0.001")).out
        self.assertNotIn("on 3 ranks", told)
        # All hosts are missing: the run waits for the first one.
        self.write("both.jsonl", '{"seconds": 20}\n{"seconds": 22}\n')
        both = ("simulation.failure_times=both.jsonl", "simulation.repair_hours=0.05", "simulation.restart_seconds=1")
        told = self.simulate(
            "none", *ranks(2, "simulation.microseconds_per_example=1e6", *both), *settings("checkpoint.every_steps=2")
        ).out
        self.assertRegex(told, r"a host failed after 22 s; .*, on 1 rank\n")
        found = json.loads((self.folder / "none/failures.json").read_text())
        self.assertAlmostEqual(found["shares"]["restarts"] * found["seconds"], 1 + 178, delta=1e-6)

    def test_a_run_that_lost_its_workers_waits_until_one_is_repaired(self):
        self.write("failures.jsonl", '{"seconds": 10}\n')
        own = settings("strategy.kind=parameter_server", "strategy.servers=2", "checkpoint.every_steps=2")
        lose = settings("simulation.failure_times=failures.jsonl", "simulation.repair_hours=0.1")
        own += [*lose, *settings("simulation.restart_seconds=1")]
        told = self.simulate("run", *own, *ranks(3, "simulation.microseconds_per_example=1e6")).out
        self.assertNotIn("on 2 ranks", told)
        found = json.loads((self.folder / "run/failures.json").read_text())
        self.assertAlmostEqual(found["shares"]["restarts"] * found["seconds"], 360, delta=1e-6)

    def test_what_a_resumed_simulation_keeps(self):
        self.write("failures.jsonl", '{"seconds": 20}\n{"seconds": 120}\n')
        self.write("late.jsonl", '{"rank": 1, "seconds": 30}\n')
        own = ranks(4, "simulation.microseconds_per_example=1e6", "simulation.failure_times=failures.jsonl")
        more = ("simulation.start_times=late.jsonl", "checkpoint.every_steps=2", "simulation.restart_seconds=1")
        own = (*own, *settings(*more))
        self.simulate("run", *own, *settings("train.epochs=1"))
        first = json.loads((self.folder / "run/failures.json").read_text())
        self.assertEqual(first["failures"], 1)
        self.assertGreater(first["seconds"], 30 + 60)  # the late rank is late after the failure, too
        self.assertLess(first["seconds"], 30 + 60 + 2)
        timeline = (self.folder / "run/timeline.json").read_bytes()
        self.simulate("run", *own, *settings("train.epochs=1"), "--resume")
        self.assertEqual(json.loads((self.folder / "run/failures.json").read_text()), first)
        self.assertEqual((self.folder / "run/timeline.json").read_bytes(), timeline)
        self.simulate("run", *own, *settings("train.epochs=3"), "--resume")
        both = json.loads((self.folder / "run/failures.json").read_text())
        self.assertEqual([event["seconds"] for event in both["events"]], [20, 120])
        self.assertGreater(both["seconds"], first["seconds"])
        # Twenty steps of 6 s, some of them twice, and nobody is late again.
        self.assertLess(both["seconds"] - first["seconds"], 20 * 6 + 2 * 6 + 2)
        self.write("run/failures.json", '{"seconds": "long"}')
        result = self.simulate("run", *own, *settings("train.epochs=4"), "--resume", code=4)
        self.assertIn("run/failures.json is damaged", result.err)

    def test_ranks_that_begin_later_make_fewer_steps(self):
        own = settings("strategy.kind=gossip_async", "train.batch_size=8", "train.report_every_steps=100")
        self.simulate("all", *own, *ranks(4))
        self.write("late.jsonl", '{"rank": 2, "seconds": 0.02}\n')
        self.simulate("late", *own, *ranks(4, "simulation.start_times=late.jsonl"))
        steps = {run: self.summary(run)["gossip"]["rank_steps"] for run in ("all", "late")}
        self.assertLess(steps["late"][2], steps["all"][2] - 5)
        spans = json.loads((self.folder / "late/timeline.json").read_text())["ranks"]
        begins = [rank["gradients"][0][0] for rank in spans]
        self.assertAlmostEqual(begins[2] - begins[1], 0.02, delta=0.01)  # an exchange may come first
        # Where all wait for all, the late one holds up the others.
        own = settings("strategy.kind=allreduce", "train.report_every_steps=100")
        half = ("simulation.late_share=0.5", "simulation.late_seconds=3")
        for name, more in (("together", ()), ("held", half)):
            self.simulate(name, *own, *ranks(8, *more))
        self.assert_same_bits("together", "held")
        longer = [self.summary(run)["seconds"]["total"] for run in ("together", "held")]
        self.assertGreater(longer[1], longer[0] + 1)

    def test_gradients_take_as_long_as_a_file_says(self):
        lines = [{"rank": rank, "seconds": seconds} for rank in (0, 2) for seconds in (0.25, 0.5, 1 + rank)]
        self.write("times.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        own = settings("simulation.gradient_times=times.jsonl", "simulation.ranks=3", "train.report_every_steps=100")
        self.simulate("run", *own)
        found = json.loads((self.folder / "run/timeline.json").read_text())["ranks"]
        # Ranks 0 and 2 of the file are the first two; rank 2 takes what the first one takes, and so on.
        for rank, third in enumerate((1, 3, 1)):
            lengths = [end - begin for begin, end in found[rank]["gradients"]]
            for i, expected in enumerate((0.25, 0.5, third) * 6):
                self.assertAlmostEqual(lengths[i], expected, delta=1e-9)

    def test_a_real_run_is_reproduced_from_its_recorded_times(self):
        own = settings("strategy.kind=parameter_server", "strategy.servers=1", "strategy.record=true")
        own += settings("communication.record_times=true", "train.epochs=4")
        self.train("real", *own, ranks=5)
        times = settings("simulation.gradient_times=real/gradients.jsonl", "simulation.ranks_per_host=5")
        told = self.simulate(
            "again", *times, *settings("simulation.ranks=5", "simulation.message_times=real/messages.jsonl"),
            config="real/config.toml",
        )
        self.assertRegex(told.out, r"\d+ messages arrived when those of the recorded run did\n")
        self.assertEqual(told.err, "")
        # The order of all pulls and pushes is the same, and so is all that follows from it.
        events = [(self.folder / run / "events.bin").read_bytes() for run in ("real", "again")]
        header = len(b"unisono-events-1\n")
        tails = [one[header + 16 + int.from_bytes(one[header : header + 8], "little") :] for one in events]
        self.assertEqual(tails[0], tails[1])
        self.assert_same_bits("real", "again")
        real, again = self.summary("real"), self.summary("again")
        self.assertEqual(real["serving"]["staleness"], again["serving"]["staleness"])
        self.assertEqual(real["worker_steps"], again["worker_steps"])
        losses = [[line["loss"] for line in self.metrics(run) if "loss" in line] for run in ("real", "again")]
        self.assertEqual(losses[0], losses[1])
        # Another training has other messages, and says so.
        told = self.simulate(
            "other", *times, *settings("simulation.ranks=5", "simulation.message_times=real/messages.jsonl"),
            *settings("train.epochs=5"), config="real/config.toml",
        )
        self.assertRegex(told.err, r"this run is not the recorded one: [1-9]\d* messages had no recorded time")
        # A resumed run has no times of its first part, and sums send no messages of their own.
        self.assertIn("a resumed run has no recorded times", self.train("real", *own, "--resume", "--set",
                                                                        "train.epochs=5", ranks=5).err)
        self.assertFalse((self.folder / "real/messages.jsonl").exists())
        self.train("sums", *settings("strategy.kind=allreduce", "communication.record_times=true"), ranks=2)
        self.assertTrue((self.folder / "sums/gradients.jsonl").exists())
        self.assertFalse((self.folder / "sums/messages.jsonl").exists())

    def test_a_thousand_nodes_start_in_few_messages_and_need_no_memory_for_each_other(self):
        """What a node sends before its first step grows with the logarithm of their number, and no rank has a list of
        what each rank has of all."""
        self.succeed("data", "digits", "--train", "1100", "--test", "20", "--output", "many.h5")
        seconds, memory = {}, {}
        for nodes in (32, 256, 512, 1024):
            own = settings("data.path=many.h5", f"train.batch_size={nodes}", "train.steps=1")
            slow = ranks(nodes, "simulation.link_microseconds=100000", "simulation.link_mbit=1e6")
            told = self.simulate(f"run{nodes}", "--unset", "train.epochs", *own, *slow).out
            seconds[nodes] = float(re.search(r"simulated ([\d.]+) s in", told).group(1))
            memory[nodes] = self.summary(f"run{nodes}")["peak_memory_bytes"]
        self.assertLess(seconds[1024] / seconds[32], 10 / 5)
        self.assertLess((memory[1024] - memory[512]) / (memory[512] - memory[256]), 3)  # 2, and 4 with the square

    def profile(self, **lists):
        """A profile of a network, net.toml, with other numbers in some of its lists and sections."""
        self.write("net.toml", SMALL)
        self.succeed("plan", "net.toml", "--save-profile", "measured.toml")
        text = (self.folder / "measured.toml").read_text()
        for section, values in lists.items():
            head, _, rest = text.partition(f"[{section}]\n")
            body, blank, tail = rest.partition("\n\n")
            for key, value in values.items():
                body = re.sub(rf"^{key} = .*$", f"{key} = {value}", body, flags=re.MULTILINE)
            text = f"{head}[{section}]\n{body}{blank}{tail}"
        self.write("profile.toml", text)

    def test_ranks_and_links_are_as_fast_as_a_profile_says(self):
        steps = {"examples": "[6.0, 12.0]", "gradient": "[0.006, 0.009]", "update": "[0.001, 0.001]"}
        self.profile(
            all_hosts={**steps, "whole": "[0.007, 0.01]"},
            waiting={"seconds": "[0.0045]", "factor": "[2.0]"},
            between_hosts={"microseconds": "70.0", "megabytes_per_second": "250.0"},
        )
        own = settings("simulation.ranks=2", "strategy.kind=allreduce")
        told = self.simulate("run", *own, "--profile", "profile.toml", config="net.toml").out
        self.assertRegex(told, r"750 µs an example, .* links as measured: 2000 Mbit/s and 70 µs")
        # 10 steps of 12 examples on each rank.
        self.assertAlmostEqual(self.summary("run")["seconds"]["compute"], 10 * 0.009, delta=1e-6)
        self.assertAlmostEqual(self.summary("run")["seconds"]["optimizer"], 10 * 0.001, delta=1e-5)
        # What the command line says stays.
        told = self.simulate(
            "kept", *own, *settings("simulation.link_mbit=5"), "--profile", "profile.toml", config="net.toml"
        ).out
        self.assertRegex(told, r"750 µs an example, .* 5 Mbit/s and 70 µs")
        # Servers' threads wait for messages, and take time from those that compute.
        own = settings("simulation.ranks=2", "strategy.kind=parameter_server", "train.report_every_steps=1000")
        self.simulate("served", *own, "--profile", "profile.toml", config="net.toml")
        self.assertAlmostEqual(self.summary("served")["seconds"]["compute"], 10 * 0.018, delta=1e-6)

    def test_a_profile_that_does_not_fit_is_refused(self):
        self.profile()
        own = settings("simulation.ranks=2", "strategy.kind=allreduce")

        def refused(words, *arguments, code=2, profile="profile.toml"):
            result = self.simulate("none", *own, *arguments, "--profile", profile, config="net.toml", code=code)
            self.assertIn(words, result.err)
            self.assertEqual(result.err.count("error:"), 1, result)

        refused("it is of another model", "--set", "optimizer.momentum=0")
        refused("but simulation.ranks_per_host is 2", *ranks(2, "simulation.ranks_per_host=2"))
        refused("missing.toml", profile="missing.toml", code=2)
        refused("'model' at the top level must be a string", profile="net.toml")
        text = (self.folder / "profile.toml").read_text()
        self.write("negative.toml", text.replace("[all_hosts]\nexamples = [", "[all_hosts]\nexamples = [-1.0, "))
        refused("in [all_hosts]: examples must ascend", profile="negative.toml")
        long = re.sub(r"(\[all_hosts\]\nexamples = .*\ngradient = ).*", r"\g<1>[900000.0, 999999.0]", text)
        self.write("long.toml", re.sub(r"(\[all_hosts\](?:\n.*){2}\nwhole = ).*", r"\g<1>[900000.0, 999999.0]", long))
        refused("microseconds_per_example would be", profile="long.toml")
        refused("profiles are of networks", *settings("model.kind=linear"), "--unset", "model.layers")
        self.simulate("run", *own, config="net.toml")
        result = self.unisono("simulate", "run", "--resume", "--profile", "profile.toml")
        self.assertNotEqual(result.code, 0)
        self.assertIn("--resume excludes --profile", result.err)

    def test_more_ranks_than_fit_into_memory_are_refused(self):
        self.write("net.toml", SMALL)
        wide = 'model.layers=[{kind="flatten"}, {kind="dense", units=100000}, {kind="dense", units=10}]'
        own = (*ranks(240), "--set", wide, *settings("train.batch_size=240"))
        result = self.simulate("none", *own, config="net.toml", code=2)
        self.assertRegex(result.err, r"240 ranks of this model need about [\d.]+ GiB, but [\d.]+ [GM]iB are free")

    def test_files_of_times_that_are_wrong_are_refused(self):
        def refused(words, key, text, *more):
            self.write("times.jsonl", text)
            own = settings("simulation.ranks=4", f"simulation.{key}=times.jsonl", *more)
            result = self.simulate("none", *own, code=3)
            self.assertIn(f"simulation.{key}: ", result.err)
            self.assertIn(words, result.err)
            self.assertEqual(result.err.count("error:"), 1, result)

        speed = "simulation.microseconds_per_example=9"
        refused("times.jsonl has no line", "gradient_times", "\n")
        refused("times.jsonl:2: it is no JSON object", "gradient_times", '{"rank": 0, "seconds": 1}\n{"rank": 0,\n')
        refused('times.jsonl:1: it has no number "seconds"', "gradient_times", '{"rank": 0}\n')
        refused('"seconds" is -1, but must be between 0', "gradient_times", '{"rank": 0, "seconds": -1}\n')
        refused('"rank" is 0.5, but must be an integer', "gradient_times", '{"rank": 0.5, "seconds": 1}\n')
        refused('"rank" is 131072', "start_times", '{"rank": 131072, "seconds": 1}\n', speed)
        refused("names rank 4, but there are 4 ranks", "start_times", '{"rank": 4, "seconds": 1}\n', speed)
        refused('it has no number "seconds"', "failure_times", '{"seconds": "soon"}\n', speed)
        message = '{"from": 5, "to": 0, "tag": 1, "seconds": 1}\n'
        refused("has messages of 6 ranks, but 4 are simulated", "message_times", message, speed)
        twice = '{"rank": 1, "seconds": 1}\n' * 2
        refused("times.jsonl:2: rank 1 has a line before", "start_times", twice, speed)
        (self.folder / "folder").mkdir()
        result = self.simulate("none", *ranks(4, "simulation.start_times=folder"), code=3)
        self.assertIn("simulation.start_times: folder is no file", result.err)
        result = self.simulate("none", *ranks(4, "simulation.start_times=nowhere.jsonl"), code=3)
        self.assertIn("simulation.start_times: nowhere.jsonl cannot be read: No such file", result.err)

    def test_what_is_no_simulation_is_refused(self):
        def refused(words, *arguments, command="simulate"):
            result = self.unisono(command, "config.toml", "--output", "none", *arguments)
            self.assertEqual(result.code, 2, result)
            self.assertIn(words, result.err)
            self.assertEqual(result.err.count("error:"), 1, result)

        refused("simulation.ranks: how many ranks are simulated?")
        refused("start it by `unisono simulate`", *ranks(4), command="train")
        refused('strategy.kind = "hogwild" cannot be simulated', *settings("strategy.kind=hogwild"), *ranks(4))
        refused("a simulated rank computes on one thread", *settings("train.threads=2"), *ranks(4))
        refused("how many examples does a step", *settings("train.batch_size=largest"), *ranks(4))
        refused("300 workers for 240 training examples", *settings("strategy.kind=averaging"), *ranks(300))
        refused("remove [fault]", *settings("fault.emulated_seconds=0.1"), *ranks(4))
        refused("leaves some of the 200 ranks without", *settings("strategy.kind=gossip_async"), *ranks(200))
        refused("slow_share and slow_factor work together", *ranks(4, "simulation.slow_factor=2"))
        refused("simulated hosts have no memory", *settings("checkpoint.memory_every_steps=5"), *ranks(4))
        refused("simulated hosts do not fail", *settings("checkpoint.hours_between_failures=5"), *ranks(4))
        refused("hours_between_failures", *ranks(4, "simulation.hours_between_failures=-1"))
        refused("restart_seconds", *ranks(4, "simulation.restart_seconds=-1"))
        refused("servers", *settings("strategy.kind=parameter_server", "strategy.servers=4"), *ranks(4))
        refused("late_share and late_seconds work together", *ranks(4, "simulation.late_share=0.5"))
        late = ("simulation.late_share=0.5", "simulation.late_seconds=2")
        refused("remove late_share and late_seconds", *ranks(4, "simulation.start_times=x", *late))
        refused("remove hours_between_failures",
                *ranks(4, "simulation.failure_times=x", "simulation.hours_between_failures=1"))
        refused("remove microseconds_per_example", *ranks(4, "simulation.gradient_times=x"))
        refused("set repair_hours, too", *ranks(4, "simulation.spare_hosts=1"))
        refused("no host fails that could be repaired", *ranks(4, "simulation.repair_hours=1"))
        refused("a run that starts again has other messages",
                *ranks(4, "simulation.message_times=x", "simulation.hours_between_failures=1"))
        often = ranks(4, "simulation.hours_between_failures=1e-6")
        result = self.simulate("often", *often, *settings("checkpoint.every_epochs=0"), code=1)
        self.assertIn("10 simulated failures in a row came before a new checkpoint", result.err)
        self.assertEqual(result.err.count("error:"), 1, result)
        result = self.unisono("simulate", "config.toml", *ranks(4), ranks=2)
        self.assertNotEqual(result.code, 0)
        self.assertIn("start it without mpirun", result.err)
        self.assertEqual(result.err.count("error:"), 1, result)


if __name__ == "__main__":
    unittest.main()
