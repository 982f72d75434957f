"""Successive halving of small networks by Optuna and PyTorch, in two processes; prints one JSON object.

    optuna_peer.py SET.h5 TRIALS.json --epochs 9 --reduction 3

TRIALS.json lists the configurations, as {"kind": "adamw", "learning_rate": 0.01, "units": 64, "rate": 0.1,
"batch_size": 32}. Optuna hands them out in this order and prunes by its SuccessiveHalvingPruner, by the accuracy on the
last fifth of the training examples after 1, 3, 9, … epochs. The processes share a journal file, as Optuna's
documentation advises; each keeps the set in memory and trains on one thread. Runs inside the virtual environment that
bench/compare-search makes.
"""

import argparse
import json
import logging
import multiprocessing
import pathlib
import tempfile

import h5py
import optuna
import torch
from optuna.storages.journal import JournalFileBackend
from torch import nn
from torch.nn.functional import cross_entropy


def open_study(path, arguments):
    return optuna.create_study(
        study_name="digits",
        storage=optuna.storages.JournalStorage(JournalFileBackend(str(path))),
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=1),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=arguments.reduction),
        load_if_exists=True,
    )


def load(path):
    """Images and labels for training, and for validation: the last fifth."""
    with h5py.File(path) as file:
        images = torch.tensor(file["train/features"][:])
        labels = torch.tensor(file["train/labels"][:], dtype=torch.long)
    images = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    held_back = len(labels) // 5
    return images[:-held_back], labels[:-held_back], images[-held_back:], labels[-held_back:]


def network(config):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, config["units"]),
        nn.ReLU(),
        nn.Dropout(config["rate"]),
        nn.Linear(config["units"], 10),
    )


def optimizer_of(model, config):
    if config["kind"] == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=config["learning_rate"], fused=True)
    return torch.optim.SGD(model.parameters(), lr=config["learning_rate"], momentum=config["momentum"], fused=True)


def train_epoch(model, optimizer, images, labels, batch_size):
    model.train()
    for batch in torch.randperm(len(labels)).split(batch_size):
        optimizer.zero_grad(set_to_none=True)
        cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()


def accuracy(model, images, labels):
    model.eval()
    with torch.inference_mode():
        return (model(images).argmax(1) == labels).float().mean().item()


def rungs_of(arguments):
    """The epochs at which trials are compared: 1, 3, 9."""
    rungs = [1]
    while rungs[-1] * arguments.reduction <= arguments.epochs:
        rungs.append(rungs[-1] * arguments.reduction)
    return rungs


def work(path, arguments, trials):
    """Takes trials until there are no more."""
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(logging.WARNING)
    images, labels, held_back, held_back_labels = load(arguments.file)
    rungs = rungs_of(arguments)

    def objective(trial):
        if trial.number >= len(trials):
            raise optuna.TrialPruned  # both processes saw the last one that was waiting
        config = trials[trial.suggest_int("configuration", 0, len(trials) - 1)]
        torch.manual_seed(arguments.seed + trial.number)
        model = network(config)
        optimizer = optimizer_of(model, config)
        for epoch in range(1, arguments.epochs + 1):
            train_epoch(model, optimizer, images, labels, config["batch_size"])
            if epoch in rungs:
                found = accuracy(model, held_back, held_back_labels)
                trial.report(found, epoch)
                if epoch < arguments.epochs and trial.should_prune():
                    raise optuna.TrialPruned
        return found

    study = open_study(path, arguments)
    waiting = (optuna.trial.TrialState.WAITING,)
    while study.get_trials(deepcopy=False, states=waiting):
        study.optimize(objective, n_trials=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("trials", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--reduction", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(logging.WARNING)
    trials = json.loads(arguments.trials.read_text())
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "journal.log"
        study = open_study(path, arguments)
        for number in range(len(trials)):
            study.enqueue_trial({"configuration": number})
        workers = [multiprocessing.Process(target=work, args=(path, arguments, trials)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        done = study.get_trials(deepcopy=False)
    epochs = [max(trial.intermediate_values, default=0) for trial in done]
    best = max(max(trial.intermediate_values.values(), default=0) for trial in done)
    print(json.dumps({"trials": sum(count > 0 for count in epochs), "epochs": sum(epochs), "best": best}))


if __name__ == "__main__":
    main()
