"""Times training steps of one of the benchmark models in PyTorch, and prints one JSON object.

Runs inside the virtual environment that bench/compare-pytorch makes. A step is what a training loop does: take the
next slice of data that lies in memory, forward, softmax cross-entropy, backward, SGD with momentum. With
--processes 2 the processes train together through DistributedDataParallel over gloo. With --device cuda the data lie on
the GPU, images in channels_last, updates are fused, and bf16 is autocast's, with float32 parameters.
"""

import argparse
import contextlib

import torch
from torch import nn

import torch_processes


def mlp(width):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    )


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions; where the shape changes, a 1×1 convolution with batch norm replaces the identity.
    The parameters are in the order of unisono's."""

    def __init__(self, inputs, channels, stride):
        super().__init__()
        same = inputs == channels and stride == 1
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
        )
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return torch.relu(self.branch(x) + self.shortcut(x))


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for channels in (16, 32, 64):
        for block in range(3):
            layers.append(ResidualBlock(inputs, channels, 2 if block == 0 and channels > 16 else 1))
            inputs = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def of_torchvision(name):
    """A network of configs/ for images, with 10 classes."""
    import torchvision
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    if name != "convnext":
        return getattr(torchvision.models, name)(num_classes=10)
    shape = [(40, 80, 2), (80, 160, 2), (160, 320, 6), (320, None, 2)]
    return ConvNeXt([CNBlockConfig(*stage) for stage in shape], num_classes=10)


MODELS = {
    "mlp-512": (lambda: mlp(512), (1, 28, 28)),
    "mlp-4096": (lambda: mlp(4096), (1, 28, 28)),
    "mlp-8192": (lambda: mlp(8192), (1, 28, 28)),
    "lenet": (lenet, (1, 28, 28)),
    "resnet20": (resnet20, (3, 32, 32)),
    "resnet18": (lambda: of_torchvision("resnet18"), (3, 64, 64)),
    "resnet50": (lambda: of_torchvision("resnet50"), (3, 64, 64)),
    "convnext": (lambda: of_torchvision("convnext"), (3, 64, 64)),
}


def compiled(model, mode):
    """As --mode says; "graphs" is PyTorch's own mode of compiled kernels in CUDA graphs."""
    if mode == "graphs":
        return torch.compile(model, mode="reduce-overhead")
    return torch.compile(model) if mode == "compile" else model


def set_precision(precision):
    """What products are computed in; what a step's forward pass runs in."""
    tf32 = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    if precision == "bf16":
        return lambda: torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext


def train(rank, arguments):
    """Examples per second of all processes together, as seen by rank 0."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    build, shape = MODELS[arguments.model]
    on_gpu = arguments.device == "cuda"
    precision = set_precision(arguments.precision) if on_gpu else contextlib.nullcontext
    model = build().to(arguments.device)
    batches = 8
    data = torch.randn(batches * arguments.batch, *shape, device=arguments.device)
    labels = torch.randint(0, 10, (batches * arguments.batch,), device=arguments.device)
    if arguments.mode == "channels_last" or (on_gpu and shape[0] > 1):
        model = model.to(memory_format=torch.channels_last)
        data = data.contiguous(memory_format=torch.channels_last)
    model = torch_processes.join(model, rank, arguments)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=on_gpu or None)
    model = compiled(model, arguments.mode)
    loss_function = nn.CrossEntropyLoss()

    def step(i):
        first = (i % batches) * arguments.batch
        optimizer.zero_grad(set_to_none=True)
        with precision():
            loss = loss_function(model(data[first : first + arguments.batch]), labels[first : first + arguments.batch])
        loss.backward()
        optimizer.step()

    torch_processes.time_steps(step, arguments.batch, rank, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--mode", choices=("eager", "channels_last", "compile", "graphs"), default="eager")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="on a GPU")
    parser.add_argument("--batch", type=int, default=64, help="examples per step and process")
    torch_processes.add_arguments(parser, steps=20, warmup=5)
    torch_processes.run(train, parser.parse_args())


if __name__ == "__main__":
    main()
