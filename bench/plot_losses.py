"""A figure of losses against time and against examples, a row of panels for each group of runs.

    plot_losses.py CURVES.json FIGURE.svg

CURVES is a list of {"panel": its row, "name": …, "points": [[seconds, examples, loss], …]}.
"""

import json
import sys

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
    with open(sys.argv[1]) as file:
        curves = json.load(file)
    panels = list(dict.fromkeys(curve["panel"] for curve in curves))
    plt.rcParams.update({"svg.fonttype": "none", "font.size": 9, "svg.hashsalt": "unisono"})
    figure, axes = plt.subplots(len(panels), 2, figsize=(9, 3.2 * len(panels)), squeeze=False, sharey=True)
    for curve in curves:
        row = axes[panels.index(curve["panel"])]
        seconds, examples, losses = zip(*curve["points"])
        dashes = "--" if curve["name"] == "allreduce" else "-"
        row[0].plot(seconds, smoothed(losses), dashes, label=curve["name"], linewidth=1.2)
        row[1].plot(examples, smoothed(losses), dashes, label=curve["name"], linewidth=1.2)
    for panel, row in zip(panels, axes):
        row[0].set(title=panel, xlabel="seconds of training", ylabel="training loss", yscale="log")
        row[1].set(title=panel, xlabel="examples")
        row[1].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
