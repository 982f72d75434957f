"""Networks of configs/ for images: after three steps they are where PyTorch is, in float64, from the same weights
(scripts/check-against-torchvision --write makes image_networks.json)."""

import json
import unittest

import image_networks
import numpy
from harness import BinaryTest

TOLERANCE = 1e-5  # of image_networks.size_of


class ImageNetworks(BinaryTest):
    def check(self, name):
        image_networks.write_inputs(self.folder, name)
        self.succeed("train", "config.toml", "--output", "run")
        self.succeed("export", "run", "--output", "trained.npz", "--format", "npz")
        expected = json.loads(image_networks.EXPECTED.read_text())[name]
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertAlmostEqual(summary["train"]["loss"] / expected["loss"], 1, delta=TOLERANCE)
        with numpy.load(self.folder / "trained.npz", "--format", "npz") as trained:
            self.assertEqual(set(trained.files), set(expected["projections"]))
            for tensor, value in expected["projections"].items():
                with self.subTest(tensor):
                    found = image_networks.projection(tensor, trained[tensor])
                    self.assertLessEqual(abs(found - value), TOLERANCE * image_networks.size_of(tensor, trained))

    def test_resnet18(self):
        self.check("resnet18")

    def test_resnet50(self):
        self.check("resnet50")

    def test_convnext(self):
        self.check("convnext")


if __name__ == "__main__":
    unittest.main()
