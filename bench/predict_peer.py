"""Predicts images one at a time with PyTorch or onnxruntime on one thread, and prints one JSON object.

    python3 bench/predict_peer.py weights MODEL --folder FOLDER
    python3 bench/predict_peer.py images MODEL --folder FOLDER --program pytorch|onnxruntime [--mode MODE]
    python3 bench/predict_peer.py one MODEL --folder FOLDER --program pytorch|onnxruntime

Runs inside the virtual environment that bench/compare-predict makes. In FOLDER, MODEL.npz has the parameters as
`unisono export` writes them; `weights` makes MODEL.pt and, if onnxruntime is there, MODEL.onnx of them. `images` times
each image of images.npy, from an array in memory to the outputs in one, and writes the outputs to outputs.npy; `one` is
what a user's script does for the image in one.npy.
"""

import argparse
import importlib.util
import json
import pathlib
import statistics
import time

import numpy as np

WARM_UP = 20


def weights(arguments):
    import pytorch_peer
    import torch

    build, shape = pytorch_peer.MODELS[arguments.model]
    model = build().eval()
    arrays = np.load(arguments.folder / f"{arguments.model}.npz")
    running = [name for name in arrays.files if name.endswith((".mean", ".variance"))]
    ours = [name for name in arrays.files if name not in running]
    buffers = [tensor for name, tensor in model.named_buffers() if not name.endswith("num_batches_tracked")]
    pairs = [*zip(ours, model.parameters(), strict=True), *zip(running, buffers, strict=True)]
    with torch.no_grad():
        for name, tensor in pairs:
            tensor.copy_(torch.from_numpy(arrays[name]).reshape(tensor.shape))
    torch.save(model.state_dict(), arguments.folder / f"{arguments.model}.pt")
    if importlib.util.find_spec("onnxruntime"):
        path = arguments.folder / f"{arguments.model}.onnx"
        torch.onnx.export(model, (torch.zeros(1, *shape),), path, input_names=["x"], dynamo=True, verbose=False)
    return {}


def pytorch(arguments):
    """The model as a function of an array of one image."""
    import pytorch_peer
    import torch

    torch.set_num_threads(1)
    model = pytorch_peer.MODELS[arguments.model][0]()
    model.load_state_dict(torch.load(arguments.folder / f"{arguments.model}.pt"))
    model.eval()
    form = torch.channels_last if arguments.mode == "channels_last" else torch.contiguous_format
    model = pytorch_peer.compiled(model.to(memory_format=form), arguments.mode)

    @torch.inference_mode()
    def predict(x):
        return torch.softmax(model(torch.from_numpy(x).contiguous(memory_format=form)), 1).numpy()

    return predict


def onnxruntime(arguments):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = arguments.folder / f"{arguments.model}.onnx"
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def predict(x):
        logits = session.run(None, {"x": x})[0]
        exponentials = np.exp(logits - logits.max())
        return exponentials / exponentials.sum()

    return predict


PROGRAMS = {"pytorch": pytorch, "onnxruntime": onnxruntime}


def images(arguments):
    predict = PROGRAMS[arguments.program](arguments)
    x = np.load(arguments.folder / "images.npy")
    outputs, seconds = [], []
    for i in [*range(WARM_UP), *range(len(x))]:
        start = time.perf_counter()
        outputs.append(predict(x[i : i + 1]))
        seconds.append(time.perf_counter() - start)
    np.save(arguments.folder / "outputs.npy", np.concatenate(outputs[WARM_UP:]))
    return {"seconds": statistics.median(seconds[WARM_UP:])}


def one(arguments):
    predict = PROGRAMS[arguments.program](arguments)
    return {"class": int(predict(np.load(arguments.folder / "one.npy")).argmax())}


ACTIONS = {"weights": weights, "images": images, "one": one}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("model")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--program", choices=PROGRAMS)
    parser.add_argument("--mode", choices=("eager", "channels_last", "compile"), default="eager")
    arguments = parser.parse_args()
    print(json.dumps(ACTIONS[arguments.action](arguments)))


if __name__ == "__main__":
    main()
