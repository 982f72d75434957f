"""The example notebook runs: its cells one after the other, and in Jupyter where that is installed."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["UNISONO_SOURCE"])
NOTEBOOK = SOURCE / "python/examples/wine.ipynb"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE / "python")}

# What a notebook shows of a cell is the value of its last expression.
RUNNER = """
import ast, json, sys
scope, shown = {}, []
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code":
        continue
    body = ast.parse("".join(cell["source"])).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), scope)
    shown.append(repr(eval(compile(ast.Expression(last.value), "cell", "eval"), scope)) if last else "")
print(json.dumps(shown))
"""


class Notebook(unittest.TestCase):
    def test_cells_one_after_the_other(self):
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-c", RUNNER, NOTEBOOK]
            done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(shown[0], "Set(train: 120 examples, validation: 30 examples, test: 28 examples)")
        self.assertGreater(float(shown[1]), 0.9)
        self.assertIn("epoch 20, step 120", done.stdout)
        self.assertIn("'dense1.weight': (16, 13, 1, 1)", shown[4])
        self.assertGreater(float(shown[-1].removeprefix("np.float64(").rstrip(")")), 0.9)

    @unittest.skipUnless(
        importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"), "Jupyter is not installed"
    )
    def test_in_jupyter(self):
        import nbclient
        import nbformat

        notebook = nbformat.read(NOTEBOOK, as_version=4)
        os.environ["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]
        with tempfile.TemporaryDirectory() as folder:
            nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": folder}}).execute()
        progress = [
            output["data"]["text/plain"]
            for cell in notebook.cells
            if cell.cell_type == "code"
            for output in cell.outputs
            if output.output_type == "display_data"
        ]
        self.assertEqual(len(progress), 1)
        self.assertIn("epoch 20", progress[0])


if __name__ == "__main__":
    unittest.main()
