"""PyTorch's loader of photographs, and the photographs.

usage: pictures_peer.py make FOLDER COUNT              JPEG files of 500 × 375 pixels, like photographs
       pictures_peer.py load FOLDER SIZE WORKERS       images a second of an epoch, as a line of JSON
       pictures_peer.py read FOLDER images|files SIZE  seconds that reading each file takes, with decoding and scaling
"""

import json
import pathlib
import sys
import time

CLASSES, BATCH = 10, 64
WIDTH, HEIGHT, QUALITY = 500, 375, 90


def photograph(seed):
    """Noise with the spectrum of photographs, 1 / frequency^1.3, alike in its colours: 60 to 100 KB."""
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(seed)
    down, right = numpy.fft.fftfreq(HEIGHT)[:, None], numpy.fft.rfftfreq(WIDTH)[None, :]
    frequency = numpy.hypot(down, right)
    frequency[0, 0] = 1 / WIDTH

    def field():
        spectrum = random.normal(size=frequency.shape) + 1j * random.normal(size=frequency.shape)
        values = numpy.fft.irfft2(spectrum * frequency**-1.3, (HEIGHT, WIDTH))
        return (values - values.mean()) / values.std()

    common = field()
    colours = numpy.stack([0.8 * common + 0.4 * field() for _ in range(3)], -1)
    return Image.fromarray(numpy.clip(128 + 55 * colours, 0, 255).astype("uint8"))


def make(folder, count):
    for i in range(int(count)):
        path = pathlib.Path(folder) / f"class {i % CLASSES}" / f"{i:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            photograph(i).save(path, quality=QUALITY)


def decoded(path):
    from torchvision.io import ImageReadMode, decode_image, read_file

    return decode_image(read_file(path), ImageReadMode.RGB)


def load(folder, size, workers):
    import torch
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    change = v2.Compose(
        [
            v2.RandomResizedCrop(int(size), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    images = ImageFolder(folder, transform=change, loader=decoded)
    loader = torch.utils.data.DataLoader(
        images, batch_size=BATCH, shuffle=True, num_workers=int(workers), persistent_workers=True
    )
    for _ in loader:  # starts the workers
        break
    start, count = time.perf_counter(), 0
    for batch, _ in loader:
        count += len(batch)
    print(json.dumps({"images": count / (time.perf_counter() - start)}))


def read(folder, what, size):
    from torchvision.transforms.v2 import functional

    start = time.perf_counter()
    for path in sorted(pathlib.Path(folder).rglob("*.jpg")):
        if what == "files":
            path.read_bytes()
        else:
            functional.resize(decoded(str(path)), [int(size), int(size)], antialias=True)
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    {"make": make, "load": load, "read": read}[sys.argv[1]](*sys.argv[2:])
