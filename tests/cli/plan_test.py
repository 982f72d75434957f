"""unisono plan: predictions that follow from a profile, a recommendation, and the config that it writes."""

import json
import re
import unittest

import h5py
import numpy
from harness import NETWORK, BinaryTest, settings

# A network that four stages can hold, or ranks that share layers. Its parameters count in a rank's memory.
DEEP = NETWORK.replace(
    'layers = [{ kind = "dense", units = 64 }, ',
    'layers = [{ kind = "dense", units = 700 }, { kind = "dense", units = 700 }, { kind = "dense", units = 700 }, ',
).replace("learning_rate = 0.1", "learning_rate = 0.001")
# Norms between dense layers, which ranks then cannot share.
ONLY_STAGES = DEEP.replace("units = 700 }", 'units = 700 }, { kind = "layer_norm" }')
WHOLE_BATCH = (
    *("--unset", "optimizer.learning_rate", "--unset", "optimizer.momentum", "--unset", "train.batch_size"),
    *settings("optimizer.kind=lbfgs", "strategy.kind=batch"),
)


class Plan(BinaryTest):
    def setUp(self):
        super().setUp()
        self.write("net.toml", NETWORK)

    def plan(self, *words, ranks=0):
        return json.loads(self.succeed("plan", "net.toml", "--json", *words, ranks=ranks).out)

    def refused(self, code, *words, ranks=0):
        result = self.unisono("plan", "net.toml", *words, ranks=ranks)
        self.assertEqual(result.code, code, result)
        self.assertLessEqual(result.err.count("error"), 1, result)  # once, not once a rank
        return result.err

    def test_one_rank_is_predicted_from_its_own_steps(self):
        plan = self.plan()
        [only] = plan["predictions"]
        self.assertEqual((only["hosts"], only["ranks_per_host"]), (1, 1))
        self.assertAlmostEqual(only["efficiency"], 1)
        self.assertEqual(plan["recommended"], only)
        self.assertAlmostEqual(only["epoch_seconds"], 240 / only["examples_per_second"])
        self.assertAlmostEqual(only["node_hours_per_epoch"], only["epoch_seconds"] / 3600)
        self.assertIn("recommended: one rank on 1 host × 1 rank", self.succeed("plan", "net.toml").out)

    def test_predictions_follow_from_the_profile(self):
        measured = self.plan("--save-profile", "profile.toml", ranks=2)
        for way in measured["predictions"]:
            parts = [way["seconds"][part] for part in ("gradient", "update", "messages", "waiting", "bubble")]
            self.assertAlmostEqual(sum(parts), way["seconds"]["step"])
            self.assertAlmostEqual(way["examples_per_second"], 24 / way["seconds"]["step"])
            self.assertEqual(way["sent_bytes_per_host"], 0)
        rates = [way["examples_per_second"] for way in measured["predictions"]]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertGreater(len(rates), 10)
        again = self.plan("--profile", "profile.toml")
        without_memory = lambda plan: [{**way, "memory_bytes": 0} for way in plan["predictions"]]
        for one, other in zip(without_memory(measured), without_memory(again), strict=True):
            self.assertEqual({**one, "seconds": 0}, {**other, "seconds": 0})
            for part, seconds in one["seconds"].items():
                self.assertAlmostEqual(seconds, other["seconds"][part])

    def test_a_link_decides_whether_to_distribute(self):
        self.succeed("plan", "net.toml", "--save-profile", "profile.toml", ranks=2)
        text = (self.folder / "profile.toml").read_text()
        # Steps that take a millisecond for each example, and nothing else that counts.
        for key, values in {"gradient": [0.003, 0.006, 0.012, 0.024], "whole": [0.003, 0.006, 0.012, 0.024]}.items():
            text = re.sub(rf"^{key} = \[.+\]$", f"{key} = {values}", text, flags=re.MULTILINE)
        text = re.sub(r"^examples = \[.+\]$", "examples = [3.0, 6.0, 12.0, 24.0]", text, flags=re.MULTILINE)
        text = re.sub(r"(?<=\[waiting\]\n)seconds = .*\nfactor = .*", "seconds = [1.0]\nfactor = [1.0]", text)
        text = re.sub(r"^update = \[.+\]$", "update = [1e-9, 1e-9, 1e-9, 1e-9]", text, flags=re.MULTILINE)
        self.write("profile.toml", text)
        words = ("--profile", "profile.toml", "--hosts", "1,4")
        slow = self.plan(*words, "--link-mbit", "0.01", "--link-microseconds", "1000000")
        self.assertEqual((slow["recommended"]["hosts"], slow["recommended"]["ranks_per_host"]), (1, 2))
        self.assertIn("do not distribute: on 4 hosts × 2 ranks", " ".join(slow["reasons"]))
        fast = self.plan(*words, "--link-mbit", "100000", "--link-microseconds", "1")
        self.assertEqual(fast["recommended"]["hosts"], 4)
        self.assertTrue(fast["recommended"]["serial_steps"])
        # 50,890 floats, in lines of 16: a host of four sends three quarters of them twice.
        sum_of_all = next(way for way in fast["predictions"] if way["hosts"] == 4 and way["way"] == "allreduce")
        self.assertAlmostEqual(sum_of_all["sent_bytes_per_host"] / (2 * 0.75 * 4 * 50890), 1, delta=0.01)

    def test_the_settings_of_a_way_make_it(self):
        config = NETWORK + '[strategy]\nkind = "averaging"\nperiod = 7\noptimizer_state = "keep"\n'
        self.write("net.toml", config + '[strategy.outer]\nkind = "nesterov"\n')
        plan = self.plan("--save-profile", "profile.toml", ranks=2)
        ways = {way["way"]: way["settings"] for way in plan["predictions"]}
        self.assertEqual(ways.pop("averaging, as configured"), [])
        for name in ("averaging, period 16", "allreduce, top_k", "gossip, exponential"):
            with self.subTest(name):
                same = self.plan("--profile", "profile.toml", *settings(*ways[name]))
                [asked] = {way["way"] for way in same["predictions"] if way["as_configured"]}
                self.assertEqual(asked, name)

    def test_a_simulations_config_is_planned_for_real_ranks(self):
        self.write("net.toml", NETWORK + "[simulation]\nranks = 3\nlink_mbit = 100\n")
        plan = self.plan("--write", "real.toml")
        self.assertEqual(plan["recommended"]["settings"][0], "simulation.ranks=0")
        self.succeed("train", "net.toml", *settings(*plan["recommended"]["settings"]), "--output", "set")
        self.succeed("train", "real.toml", "--output", "written")

    def test_more_ranks_than_examples_are_left_out(self):
        self.succeed("plan", "net.toml", "--save-profile", "profile.toml")
        plan = self.plan("--profile", "profile.toml", "--hosts", "24,25", "--link-mbit", "100")
        self.assertEqual({way["hosts"] for way in plan["predictions"]}, {1, 24})
        self.assertIn("fewer than there are ranks", plan["not_possible"][0]["why"])

    def test_the_recommended_config_is_written(self):
        plan = self.plan("--write", "chosen.toml", ranks=2)
        checked = self.succeed("config", "check", "chosen.toml").out
        for key in plan["recommended"]["settings"]:
            name, value = key.split("=", 1)
            self.assertIn(f"{name.split('.')[-1]} = {value}", checked)
        self.assertIn("choose another name, or set --overwrite", self.refused(2, "--write", "chosen.toml"))
        self.succeed("plan", "net.toml", "--write", "chosen.toml", "--overwrite")

    def test_a_run_is_held_against_its_prediction(self):
        self.train("run", ranks=2, config="net.toml")
        self.succeed("plan", "net.toml", "--save-profile", "profile.toml", ranks=2)
        grade = json.loads(self.succeed("plan", "run", "--grade", "--profile", "profile.toml", "--json").out)
        parts = {part["part"]: part for part in grade["parts"]}
        predicted = self.plan("--profile", "profile.toml", *settings("strategy.kind=allreduce"))["predictions"]
        [own] = [way for way in predicted if way["as_configured"] and way["ranks_per_host"] == 2]
        seconds = own["seconds"]
        self.assertAlmostEqual(parts["a step"]["predicted"], seconds["step"])
        self.assertAlmostEqual(parts["computing"]["predicted"], seconds["gradient"] + seconds["update"])
        self.assertAlmostEqual(parts["messages and waiting"]["predicted"], seconds["messages"] + seconds["waiting"])
        self.assertEqual(parts["examples a second"]["predicted"], own["examples_per_second"])
        summary = self.summary("run")
        self.assertEqual(parts["memory of a rank"]["happened"], summary["peak_memory_bytes"])
        self.assertEqual(parts["examples a second"]["happened"], summary["examples_per_second"])
        self.assertAlmostEqual(parts["a step"]["happened"], 24 / summary["examples_per_second"])
        happened = [parts[part]["happened"] for part in list(parts)[1:4]]
        self.assertAlmostEqual(sum(happened), parts["a step"]["happened"])
        spent = summary["seconds"]
        share = (spent["compute"] + spent["optimizer"]) / (
            spent["total"] - spent["evaluation"] - spent["checkpoint"]
        )
        self.assertAlmostEqual(happened[0] / sum(happened), share, delta=1e-6)
        self.assertEqual(json.loads((self.folder / "run/prediction.json").read_text()), grade)
        told = self.succeed("plan", "run", "--grade", ranks=2).out
        self.assertRegex(told, r"a step +[\d.]+ .s +[\d.]+ .s +[+-]\d+ %")
        self.assertIn("predicted for 1 host × 2 ranks of 1 thread, beside what happened in run", told)
        self.succeed("report", "run", "--output", "run.html")
        self.assertIn("Predicted and happened", (self.folder / "run.html").read_text())

    def test_pipelines_are_predicted(self):
        self.write("net.toml", ONLY_STAGES)
        measured = self.plan("--save-profile", "profile.toml", ranks=2)
        [pipeline] = [way for way in measured["predictions"] if way["stages"] == 2]
        self.assertEqual(pipeline["ranks_per_host"], 2)
        self.assertTrue(pipeline["serial_steps"] and pipeline["fits"])
        self.assertGreaterEqual(pipeline["seconds"]["bubble"], 0)
        words = ("--profile", "profile.toml")
        self.assertEqual({way["tensor"] for way in measured["predictions"]}, {1})
        # On four hosts: pipelines of both ranks of each, and of all ranks that the layers can be cut for.
        several = self.plan(*words, "--hosts", "4", "--link-mbit", "1000")["predictions"]
        shapes = {(way["hosts"], way["stages"]) for way in several if way["stages"] > 1}
        self.assertEqual(shapes, {(1, 2), (4, 2), (4, 8)})

        # The settings make it, and plan says the same of the config that asks for it.
        same = self.plan(*words, *settings(*pipeline["settings"]))["predictions"]
        [asked] = [way for way in same if way["as_configured"]]
        again = self.plan(*words)["predictions"]
        [proposed] = [way for way in again if way["stages"] == 2]
        self.assertEqual(asked["way"], "allreduce, pipelines of 2 stages, as configured")
        self.assertEqual((asked["stages"], asked["settings"]), (2, []))
        self.assertEqual(asked["micro_batches"], proposed["micro_batches"])
        self.assertAlmostEqual(asked["seconds"]["step"], proposed["seconds"]["step"])
        [whole] = [way for way in same if way["way"] == "allreduce" and way["stages"] == 1]
        [first] = [way for way in again if way["way"] == "allreduce" and way["stages"] == 1]
        self.assertEqual(whole["seconds"], first["seconds"])
        self.assertIn("replica.stages=1", whole["settings"])

        # Where no rank can hold the whole model, a pipeline is recommended, and trains.
        needed = min(way["memory_bytes"] for way in again if way["stages"] == 1)
        self.assertLess(proposed["memory_bytes"], needed)
        limit = (proposed["memory_bytes"] + needed) / 2 / 2**20
        self.limit_memory("profile.toml", limit)
        plan = self.plan(*words, "--write", "chosen.toml")
        self.assertEqual(plan["recommended"]["stages"], 2)
        self.assertEqual({way["stages"] for way in plan["predictions"] if way["fits"]}, {2})
        self.assertIn("no rank can hold the whole model", " ".join(plan["reasons"]))
        told = self.succeed("plan", "net.toml", *words).out
        self.assertIn("allreduce: does not fit into a rank's memory", told)
        self.assertIn("recommended: pipeline of 2 stages", told)
        self.train("run", ranks=2, config="chosen.toml")
        self.assertEqual(self.summary("run")["pipeline"]["stages"], 2)

        # What happened in it, beside its prediction: it does not matter that less memory is said to be there now.
        self.limit_memory("profile.toml", 1)
        grade = json.loads(self.succeed("plan", "run", "--grade", *words, "--json").out)
        parts = {part["part"]: part for part in grade["parts"]}
        seconds = proposed["seconds"]
        names = ("computing", "messages and waiting", "waiting for other stages", "reading examples, and the rest")
        self.assertEqual(tuple(parts)[1:5], names)
        self.assertAlmostEqual(parts["a step"]["predicted"], seconds["step"])
        self.assertAlmostEqual(
            parts["messages and waiting"]["predicted"] + parts["waiting for other stages"]["predicted"],
            seconds["step"] - seconds["gradient"] - seconds["update"],
        )
        self.assertAlmostEqual(sum(parts[name]["happened"] for name in names), parts["a step"]["happened"])
        spent = self.summary("run")["seconds"]
        share = spent["bubble"] / (spent["total"] - spent["evaluation"] - spent["checkpoint"])
        found = parts["waiting for other stages"]["happened"] / parts["a step"]["happened"]
        self.assertAlmostEqual(found, share, delta=1e-6)

        self.assertIn("a rank may take 1.0 MiB, but every way of training needs more", self.refused(2, *words))

    def test_layers_that_ranks_share_are_predicted(self):
        self.write("net.toml", DEEP)
        measured = self.plan("--save-profile", "profile.toml", ranks=2)
        [shared] = [way for way in measured["predictions"] if way["tensor"] == 2]
        self.assertEqual(shared["way"], "layers shared by 2 ranks")
        self.assertTrue(shared["serial_steps"] and shared["fits"])
        self.assertIn("replica.tensor=2", shared["settings"])
        words = ("--profile", "profile.toml")
        several = self.plan(*words, "--hosts", "4", "--link-mbit", "1000")["predictions"]
        shapes = {(way["hosts"], way["ranks_per_host"], way["stages"]) for way in several if way["tensor"] == 2}
        self.assertEqual(shapes, {(1, 2, 1), (4, 2, 1)})
        [replicas] = [way for way in several if way["tensor"] == 2 and way["hosts"] == 4]
        self.assertEqual(replicas["way"], "allreduce, layers shared by 2 ranks")
        self.assertEqual(replicas["layer_bytes_per_rank"], shared["layer_bytes_per_rank"] * 8 / 32)  # 6 and 24 rows

        # The settings make it, and plan says the same of the config that asks for it.
        same = self.plan(*words, *settings(*shared["settings"]))["predictions"]
        [asked] = [way for way in same if way["as_configured"]]
        self.assertEqual(asked["way"], "allreduce, layers shared by 2 ranks, as configured")
        self.assertEqual([way for way in same if way["tensor"] == 2], [asked])
        self.assertAlmostEqual(asked["seconds"]["step"], shared["seconds"]["step"])
        [whole] = [way for way in same if way["way"] == "allreduce"]
        self.assertIn("replica.tensor=1", whole["settings"])

        # Where only some ways fit, such as this one, a rank's part of the model trains.
        needed = min(way["memory_bytes"] for way in same if way["stages"] == way["tensor"] == 1)
        self.assertLess(asked["memory_bytes"], needed)
        self.limit_memory("profile.toml", (asked["memory_bytes"] + needed) / 2 / 2**20)
        plan = self.plan(*words)
        self.assertTrue(all(way["stages"] * way["tensor"] == 2 for way in plan["predictions"] if way["fits"]))
        self.assertIn("no rank can hold the whole model", " ".join(plan["reasons"]))
        self.write("shared.toml", DEEP + "[replica]\ntensor = 2\n" + '[strategy]\nkind = "allreduce"\n')
        self.train("run", ranks=2, config="shared.toml")
        summary = self.summary("run")
        sent = summary["tensor_bytes"] / summary["steps"]  # of both ranks
        self.assertEqual(sent, 2 * shared["layer_bytes_per_rank"])

        # A profile without such sums has the speed of messages, as older ones do.
        text = (self.folder / "profile.toml").read_text()
        self.write("older.toml", re.sub(r"\[sums_of_layers\]\n.*\n.*\n", "", text))
        for profile in ("profile.toml", "older.toml"):
            grade = json.loads(self.succeed("plan", "run", "--grade", "--profile", profile, "--json").out)
            parts = {part["part"]: part for part in grade["parts"]}
            self.assertAlmostEqual(
                parts["computing"]["predicted"], shared["seconds"]["gradient"] + shared["seconds"]["update"]
            )
            self.assertGreater(parts["messages and waiting"]["predicted"], 0)
            self.assertEqual(parts["memory of a rank"]["happened"], summary["peak_memory_bytes"])
        # info says the same of a rank's memory, but for what its own process has.
        told = json.loads(self.succeed("info", "shared.toml", "--json", ranks=2).out)
        self.assertAlmostEqual(asked["memory_bytes"] / told["peak_memory_bytes"], 1, delta=0.1)

    def test_one_rank_with_all_cores_is_an_alternative_to_several(self):
        self.write("net.toml", NETWORK.replace("threads = 1", ""))
        self.plan("--save-profile", "profile.toml", *settings("train.threads=1"), ranks=2)
        text = (self.folder / "profile.toml").read_text()
        [one_rank] = re.findall(r"\[one_rank\]\n((?:.*=.*\n)+)", text)
        # As fast as one rank with a thread, if its seconds are the same.
        text = text.replace("threads = 1\n", "threads = 1\nwhole_host_threads = 2\n", 1)
        text = re.sub(r"\[whole_host\]\n(.*=.*\n)*", "[whole_host]\n" + one_rank.replace("\\", "\\\\"), text)
        text = re.sub(r"^whole_host_threads = 0\n", "", text, flags=re.MULTILINE)
        self.write("profile.toml", text)
        ways = {way["way"]: way for way in self.plan("--profile", "profile.toml")["predictions"]}
        whole, one = ways["one rank of 2 threads"], ways["one rank"]
        self.assertEqual((whole["threads"], one["threads"]), (2, 1))
        self.assertEqual((whole["hosts"], whole["ranks_per_host"]), (1, 1))
        self.assertEqual(whole["seconds"], one["seconds"])
        self.assertIn("train.threads=2", whole["settings"])
        # Who asks for a number of threads gets no other.
        asked = self.plan("--profile", "profile.toml", *settings("train.threads=1"))
        self.assertNotIn("one rank of 2 threads", {way["way"] for way in asked["predictions"]})
        self.write("profile.toml", text.replace("whole_host_threads = 2", "whole_host_threads = 0"))
        self.assertIn("belong together", self.refused(2, "--profile", "profile.toml"))

    def test_threads_that_share_a_model_are_predicted(self):
        self.write("net.toml", NETWORK.replace("threads = 1", "") + '[strategy]\nkind = "hogwild"\nthreads = 2\n')
        plan = self.plan("--save-profile", "profile.toml")
        [asked] = [way for way in plan["predictions"] if way["as_configured"]]
        self.assertEqual((asked["way"], asked["threads"]), ("hogwild, as configured", 2))
        self.assertFalse(asked["serial_steps"])
        self.assertGreater(asked["seconds"]["gradient"], 0)
        self.assertEqual({way["way"] for way in plan["predictions"]}, {"hogwild, as configured", "one rank"})

        self.train("run", config="net.toml")
        grade = json.loads(self.succeed("plan", "run", "--grade", "--profile", "profile.toml", "--json").out)
        parts = {part["part"]: part for part in grade["parts"]}
        seconds = asked["seconds"]
        self.assertAlmostEqual(parts["computing"]["predicted"], seconds["gradient"] + seconds["update"])
        self.assertAlmostEqual(parts["a step"]["predicted"], seconds["step"])

        # A profile of other ranks does not say how fast such threads are; and nothing is known of several ranks.
        text = (self.folder / "profile.toml").read_text()
        self.write("older.toml", re.sub(r"\[workers\]\n(.*=.*\n)+", "", text))
        [why] = [way["why"] for way in self.plan("--profile", "older.toml")["not_possible"] if "hogwild" in way["way"]]
        self.assertIn("the profile does not say how long threads take", why)
        [why] = [way["why"] for way in self.plan(ranks=2)["not_possible"] if "hogwild" in way["way"]]
        self.assertIn("on one rank only", why)
        message = self.refused(2, "--profile", "profile.toml", *settings("strategy.threads=3"))
        self.assertIn("the config asks for 3", message)

    def limit_memory(self, profile, mebibytes):
        path = self.folder / profile
        line = f"memory_mebibytes = {float(mebibytes)}"
        path.write_text(re.sub(r"^memory_mebibytes = .*$", line, path.read_text(), flags=re.MULTILINE))

    def test_passes_of_whole_batch_methods_are_predicted(self):
        words = (*WHOLE_BATCH, "--save-profile", "passes.toml")
        here = self.plan(*words, ranks=2)
        self.assertEqual(here["batch_size"], 240)
        by_ranks = {way["ranks_per_host"]: way for way in here["predictions"]}
        self.assertEqual(set(by_ranks), {1, 2})
        self.assertAlmostEqual(by_ranks[1]["efficiency"], 1)
        for way in by_ranks.values():
            self.assertTrue(way["serial_steps"])
            self.assertNotIn("epoch_seconds", way)  # iterations may take several passes
            self.assertAlmostEqual(way["examples_per_second"], 240 / way["seconds"]["step"])
        there = self.plan(*WHOLE_BATCH, "--profile", "passes.toml", "--hosts", "1,4", "--link-mbit", "100")
        far = next(way for way in there["predictions"] if way["hosts"] == 4)
        # Each rank sends its shard of θ, and those of its node of the tree of portions, to six ranks of other hosts.
        [parameters] = re.findall(r'^model = "([\d,]+) parameters', (self.folder / "passes.toml").read_text(), re.M)
        shards = 2 * 6 * 4 * 2 * int(parameters.replace(",", "")) / 8
        # Sums have 256 pieces of 8 bytes: three products of each of 21 vectors in one, cut among four hosts, and five
        # of one number, which go to three hosts as they are.
        sums = 256 * 8 * (3 * 21 * 2 * 3 / 4 + 5 * 3)
        self.assertAlmostEqual(far["sent_bytes_per_host"] / (shards + sums), 1, delta=0.001)
        self.succeed("train", "net.toml", *WHOLE_BATCH, *settings("train.epochs=3"), "--output", "passes", ranks=2)
        table = self.succeed("plan", "passes", "--grade", "--profile", "passes.toml").out
        self.assertIn("predicted for 1 host × 2 ranks of 1 thread", table)
        error = self.unisono("plan", "passes", "--noise-scale").err
        self.assertIn("a step of optimizer.kind = \"lbfgs\" takes the whole set", error)

    def test_a_run_that_cannot_be_graded_is_refused(self):
        self.train("run", config="net.toml")
        for words, ranks, code, message in (
            (("run", "--grade"), 2, 2, "the run had 1 host × 1 rank of 1 thread, but these are 1 host × 2 ranks"),
            (("run", "--grade", "--hosts", "2"), 0, 2, "leave --hosts"),
            (("run", "--grade", "--write", "x.toml"), 0, 2, "leave --hosts, --write"),
            (("nowhere", "--grade"), 0, 2, "nowhere/config.toml"),
        ):
            with self.subTest(words):
                result = self.unisono("plan", *words, ranks=ranks)
                self.assertEqual(result.code, code, result)
                self.assertIn(message, result.err)
                self.assertLessEqual(result.err.count("error"), 1, result)
        own = settings("simulation.ranks=2", "simulation.microseconds_per_example=100", "train.threads=1")
        self.succeed("simulate", "net.toml", *own, "--output", "simulated")
        result = self.unisono("plan", "simulated", "--grade")
        self.assertEqual(result.code, 2, result)
        self.assertIn("--grade simulated: its ranks were simulated", result.err)
        (self.folder / "run/summary.json").write_text("{")
        result = self.unisono("plan", "run", "--grade")
        self.assertEqual(result.code, 4, result)
        self.assertIn("has no summary of steps", result.err)

    def test_the_noise_scale_is_that_of_the_training_examples(self):
        self.succeed("data", "digits", "--train", "4000", "--test", "20", "--output", "many.h5")
        regression = ("--set", 'model.layers=[{ kind = "flatten" }, { kind = "dense", units = 10 }]')
        self.train("run", *regression, *settings("data.path=many.h5", "train.batch_size=64"), config="net.toml")
        self.succeed("predict", "run", "--split", "train", "--output", "predicted.h5")
        with h5py.File(self.folder / "many.h5", "r") as file:
            x = file["train/features"][:].reshape(4000, -1) * file["train/features"].attrs["scale"]
            labels = file["train/labels"][:]
        with h5py.File(self.folder / "predicted.h5", "r") as file:
            off = file["predictions"][:] - numpy.eye(10)[labels]
        # An example's gradient is (p - y) (x, 1)'.
        x = numpy.hstack([x, numpy.ones((4000, 1))])
        squared = ((off.T @ x / 4000) ** 2).sum()
        variance = ((off**2).sum(axis=1) * (x**2).sum(axis=1)).mean() - squared
        for ranks in (0, 2):
            told = json.loads(self.succeed("plan", "run", "--noise-scale", "--json", ranks=ranks).out)
            found = told["gradient_noise"]
            self.assertEqual(found["examples"], 62 * 64)
            # The variance's error is a few percent, that of |G|² has the noise of as many.
            self.assertAlmostEqual(found["variance"] / variance, 1, delta=0.15)
            self.assertAlmostEqual(found["squared_norm"], squared, delta=3 * variance / (62 * 64))
            scale = found["variance"] / found["squared_norm"]
            self.assertAlmostEqual(found["scale"], scale, delta=1e-6 * scale)
        told = self.succeed("plan", "run", "--noise-scale").out
        self.assertRegex(told, r"noise scale about [\d,]+ examples, at step 63 of run/.*\.h5: in steps of 64, ")
        self.succeed("data", "digits", "--train", "1", "--test", "1", "--output", "few.h5")
        self.train("few", *settings("data.path=few.h5", "train.batch_size=1"), config="net.toml")
        deeper = 'model.layers=[{ kind = "flatten" }, { kind = "dense", units = 9 }, { kind = "dense", units = 10 }]'
        result = self.unisono("plan", "run", "--noise-scale", "--set", deeper)
        self.assertEqual(result.code, 4, result)
        self.assertIn("another model", result.err)
        for words in (
            ("nowhere", "--noise-scale"),
            ("net.toml", "--noise-scale"),
            ("few", "--noise-scale"),
            ("run", "--noise-scale", "--features", "5", "--classes", "2"),
        ):
            result = self.unisono("plan", *words)
            self.assertEqual(result.code, 2, result)
            self.assertEqual(result.err.count("error:"), 1, result)
        self.assertIn("--grade excludes", self.unisono("plan", "run", "--noise-scale", "--grade").err)

    def test_what_cannot_be_predicted_is_refused(self):
        self.succeed("plan", "net.toml", "--save-profile", "profile.toml")
        for words, message in {
            ("--hosts", "1,2"): "--link-mbit",
            ("--hosts", "0", "--link-mbit", "100"): "--hosts",
            ("--link-microseconds", "5"): "--link-mbit",
            ("--write", "x.toml", "--features", "5", "--classes", "2"): "--write",
            ("--profile", "missing.toml"): "missing.toml",
            ("--profile", "net.toml"): "net.toml:",
            ("--profile", "profile.toml", "--set", "optimizer.kind=adam"): "of another model",
            ("--profile", "profile.toml", "--save-profile", "x.toml"): "--save-profile",
            ("--profile", "profile.toml", *settings("train.threads=2")): "the config asks for 2",
            ("--save-profile", "nowhere/profile.toml"): "there is no folder nowhere",
            ("--save-profile", "."): "it is a folder",
            ("--hosts", "2", "--link-mbit", "nan"): "nan",
            tuple(settings("replica.tensor_leaves=2")): "set replica.tensor to 2 or more",
            tuple(settings("replica.tensor=2", "replica.stages=2")): "replica.stages to 1",
            tuple(settings("replica.stages=auto")): "replica.stages",
            tuple(settings('replica.placement.memory=["1 GiB"]')): "memory and speed of",
            tuple(settings("fault.emulated_seconds=0.1")): "[fault]",
            tuple(settings("train.micro_batches=4")): "micro_batches",
            tuple(settings("train.batch_size=largest")): "batch_size",
            (*WHOLE_BATCH, "--features", "5", "--classes", "2"): "it measures portions of the training set",
            (*WHOLE_BATCH, "--profile", "profile.toml"): "of another model",
            ("--features", "5", "--classes", "2", *settings("model.kind=linear")): "plan: it predicts networks",
        }.items():
            with self.subTest(words):
                error = self.refused(2, *words)
                self.assertIn(message, error)
        words = ("--profile", "profile.toml", *settings("optimizer.kind=adam"))
        self.assertIn("of another model", self.refused(2, *words, ranks=2))

    def test_bench_refuses_threads_that_are_workers(self):
        result = self.unisono("bench", "net.toml", *settings("strategy.kind=hogwild"))
        self.assertEqual(result.code, 2, result)
        self.assertIn("train instead", result.err)


if __name__ == "__main__":
    unittest.main()
