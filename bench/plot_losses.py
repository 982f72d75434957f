"""A figure of losses against time and against examples, a row of panels for each group of runs.

    plot_losses.py CURVES.json FIGURE.svg [--exact] [--against "passes over the training set"]

CURVES is a list of {"panel": its row, "name": …, "points": [[seconds, examples, loss], …]}. Losses of batches are
smoothed; --exact draws them as they are. --against names what the second number of a point is.
"""

import argparse
import json

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402


def smoothed(losses, keep=0.6):
    """The exponential average of what came so far."""
    mean, means = losses[0], []
    for loss in losses:
        mean = keep * mean + (1 - keep) * loss
        means.append(mean)
    return means


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves")
    parser.add_argument("figure")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--against", default="examples")
    arguments = parser.parse_args()
    with open(arguments.curves) as file:
        curves = json.load(file)
    panels = list(dict.fromkeys(curve["panel"] for curve in curves))
    plt.rcParams.update({"svg.fonttype": "none", "font.size": 9, "svg.hashsalt": "unisono"})
    figure, axes = plt.subplots(len(panels), 2, figsize=(9, 3.2 * len(panels)), squeeze=False, sharey=True)
    for curve in curves:
        row = axes[panels.index(curve["panel"])]
        seconds, examples, losses = zip(*curve["points"])
        shown = losses if arguments.exact else smoothed(losses)
        dashes = "--" if curve["name"] == "allreduce" else "-"
        row[0].plot(seconds, shown, dashes, label=curve["name"], linewidth=1.2)
        row[1].plot(examples, shown, dashes, label=curve["name"], linewidth=1.2)
    for panel, row in zip(panels, axes):
        row[0].set(title=panel, xlabel="seconds of training", ylabel="training loss", yscale="log")
        row[1].set(title=panel, xlabel=arguments.against)
        row[1].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(arguments.figure, metadata={"Date": None})


if __name__ == "__main__":
    main()
