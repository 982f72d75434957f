"""bench/peers.py: tables between markers, output stamped as it comes, medians."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["UNISONO_SOURCE"]) / "bench"))
import peers


class WriteBetweenMarkers(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.path = pathlib.Path(self.scratch.name) / "performance.md"

    def test_only_what_stands_between_them_changes(self):
        other = "<!-- other: begin -->\nkept\n<!-- other: end -->\n"
        self.path.write_text(f"# Head\n<!-- one: begin -->\nold\n<!-- one: end -->\n{other}tail\n")
        for _ in range(2):
            peers.write_between_markers(self.path, "one", "| new |")
        expected = f"# Head\n<!-- one: begin -->\n| new |\n<!-- one: end -->\n{other}tail\n"
        self.assertEqual(self.path.read_text(), expected)

    def test_new_lines_take_the_place_of_those_of_the_same_case(self):
        head = "| model | ranks | error |\n| --- | --- | --- |\n"
        old = ["| lenet | 1 | 5 % |", "| lenet | 2 | 6 % |"]
        self.path.write_text(f"<!-- one: begin -->\ntitle\n\n{head}" + "\n".join(old) + "\n<!-- one: end -->\n")
        self.assertEqual(peers.old_lines(self.path, "one"), old)
        new = ["| lenet | 2 | 7 % |", "| mlp | 2 | 8 % |"]
        self.assertEqual(peers.with_new_lines(old, new, cells=2), [old[0], *new])

    def test_a_file_without_them_is_refused_and_kept(self):
        self.path.write_text("<!-- one: begin -->\n")
        with self.assertRaisesRegex(SystemExit, "lacks the lines '<!-- one: begin -->' and '<!-- one: end -->'"):
            peers.write_between_markers(self.path, "one", "new")
        self.assertEqual(self.path.read_text(), "<!-- one: begin -->\n")

    def test_a_file_that_is_not_there_is_made(self):
        peers.write_between_markers(self.path, "one", "new")
        self.assertIn("<!-- one: begin -->\nnew\n<!-- one: end -->\n", self.path.read_text())


class StampedLines(unittest.TestCase):
    def lines(self, program):
        return peers.stamped_lines([sys.executable, "-c", program])

    def test_progress_without_line_ends_is_stamped_when_it_comes(self):
        program = "import sys, time\nfor i in range(3): print(f'\\rdone {i}', end='', flush=True); time.sleep(0.5)"
        lines = self.lines(program)
        self.assertEqual([text for _, text in lines], ["done 0", "done 1", "done 2"])
        for (before, _), (after, _) in zip(lines, lines[1:]):
            self.assertGreater(after - before, 0.1)

    def test_lines_of_both_outputs_come(self):
        self.assertEqual([t for _, t in self.lines("import sys; print('a\\nb', file=sys.stderr)")], ["a", "b"])

    def test_a_program_that_fails_is_named_with_its_output(self):
        with self.assertRaisesRegex(SystemExit, r"(?s)exit\(3\).* failed:\nwhy$"):
            self.lines("print('why'); exit(3)")


class Figures(unittest.TestCase):
    def test_a_median_of_ratios_is_not_a_ratio_of_medians(self):
        rounds = [{"a": 2, "b": 1}, {"a": 9, "b": 3}, {"a": 4, "b": 1}]
        self.assertEqual(peers.median_ratio(rounds, "a", "b"), 3)

    def test_a_spread_names_its_ends_where_there_are_several_figures(self):
        self.assertEqual(peers.spread([0.5]), "0.500")
        self.assertEqual(peers.spread([0.5, 0.7, 0.6]), "0.600 (0.500 … 0.700)")

    def test_deviations_are_those_of_a_sample(self):
        self.assertEqual(peers.mean_and_deviation([1.0, 3.0], 2), "2.00 ± 1.41")

    def test_millions_have_three_digits(self):
        self.assertEqual([peers.millions(rate) for rate in (342e3, 1.11e6, 58.6e6)], ["0.342 M", "1.11 M", "58.6 M"])


if __name__ == "__main__":
    unittest.main()
