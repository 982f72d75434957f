"""A figure of accuracy against bytes and against seconds, a curve for each way of training.

    plot_exchange.py CURVES.json FIGURE.svg

CURVES is a list of {"name": …, "points": [[seconds, megabytes of a rank, accuracy in %], …]}.
"""

import argparse
import json

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves")
    parser.add_argument("figure")
    arguments = parser.parse_args()
    with open(arguments.curves) as file:
        curves = json.load(file)
    plt.rcParams.update({"svg.fonttype": "none", "font.size": 9, "svg.hashsalt": "unisono"})
    figure, (by_bytes, by_seconds) = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    colours = plt.get_cmap("tab20").colors
    for number, curve in enumerate(curves):
        seconds, megabytes, accuracy = zip(*curve["points"])
        look = {"color": colours[number % len(colours)], "linewidth": 1.2, "marker": ".", "markersize": 4}
        look["linestyle"] = "--" if curve["name"] == "allreduce" else "-"
        by_bytes.plot(megabytes, accuracy, label=curve["name"], **look)
        by_seconds.plot(seconds, accuracy, label=curve["name"], **look)
    by_bytes.set(xlabel="megabytes that a rank has sent", ylabel="test accuracy, %", xscale="log")
    by_seconds.set(xlabel="seconds of training over the slow link", xscale="log")
    by_seconds.legend(frameon=False, fontsize=7)
    figure.tight_layout()
    figure.savefig(arguments.figure, metadata={"Date": None})


if __name__ == "__main__":
    main()
