"""Augments pictures with NumPy and Pillow, and has a test compare what the library makes of them.

usage: augmentation_reference.py data_tests
"""
import io
import json
import math
import os
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HEIGHT, WIDTH, SEED = 16, 20, 7
PADDING, SHIFT = 2, 1
CROP_AREA, CROP_ASPECT, ROTATION = 0.3, 1.5, 25.0
BRIGHTNESS, CONTRAST, SATURATION, HUE, ERASING = 0.4, 0.3, 0.5, 0.1, 0.5
ROTATION_AT, BRIGHTNESS_AT, CONTRAST_AT, SATURATION_AT, HUE_AT, ERASING_AT, CROP_AT = 16, 17, 18, 19, 20, 32, 128
MIXUP, CUTMIX, MIXING_AT, BATCH = 0.4, 1.0, 64, 6
ATTEMPTS = 10
ORDER, AUGMENTATION, MIXING = 2, 4, 16  # purposes of streams
MASK32, MASK64 = 2**32 - 1, 2**64 - 1


def stream_key(seed, purpose):
    z = (seed + 0x9E3779B97F4A7C15 * (purpose + 1)) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


def philox(key, counter):
    """Philox 4x32-10 (Salmon et al., SC 2011)."""
    k0, k1 = key & MASK32, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ k0, p1 & MASK32, (p0 >> 32) ^ counter[3] ^ k1, p0 & MASK32]
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return counter


class Draws:
    def __init__(self, epoch, example, first=0, purpose=AUGMENTATION):
        self.epoch, self.example, self.at, self.purpose = epoch, example, first, purpose

    def bits(self):
        words = philox(stream_key(SEED, self.purpose), [self.at // 4, self.epoch, self.example & MASK32, 0])
        self.at += 1
        return words[(self.at - 1) % 4]

    def uniform(self):
        return (self.bits() >> 8) * 2.0**-24

    def below(self, n):
        high = self.bits()
        return ((high << 32) | self.bits()) % n


def half_away(x):
    """As C's llround: Python rounds halves to even numbers."""
    return math.floor(x + 0.5)


def cropped(picture, epoch, example):
    draws = Draws(epoch, example, CROP_AT)
    width, height = picture.size
    aspect = WIDTH / HEIGHT
    for _ in range(ATTEMPTS):
        area = width * height * (CROP_AREA + (1 - CROP_AREA) * draws.uniform())
        shape = aspect * CROP_ASPECT ** (2 * draws.uniform() - 1)
        columns, rows = half_away(math.sqrt(area * shape)), half_away(math.sqrt(area / shape))
        right, down = draws.uniform(), draws.uniform()
        if 1 <= columns <= width and 1 <= rows <= height:
            left, top = math.floor(right * (width - columns + 1)), math.floor(down * (height - rows + 1))
            break
    else:
        shape = min(max(width / height, aspect / CROP_ASPECT), aspect * CROP_ASPECT)
        columns, rows = min(width, height * shape), min(height, width / shape)
        left, top = (width - columns) / 2, (height - rows) / 2
    box = (left, top, left + columns, top + rows)
    scaled = picture.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR, box=box)
    return np.asarray(scaled, float).transpose(2, 0, 1) / 255


def padded(image, most):
    return np.pad(image, ((0, 0), (most, most), (most, most)), mode="reflect")


def moved(image, epoch, example):
    draws, down, right = Draws(epoch, example), 0, 0
    for most in (PADDING, SHIFT):
        down += draws.below(2 * most + 1) - most
        right += draws.below(2 * most + 1) - most
    most = PADDING + SHIFT
    image = padded(image, most)[:, most + down : most + down + HEIGHT, most + right : most + right + WIDTH]
    return image[:, :, ::-1] if draws.below(2) == 1 else image


def turned(image, degrees):
    margin = 12
    image = padded(image, margin)
    angle = math.radians(degrees)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    down, right = y - (HEIGHT - 1) / 2, x - (WIDTH - 1) / 2
    from_y = (HEIGHT - 1) / 2 + math.cos(angle) * down + math.sin(angle) * right + margin
    from_x = (WIDTH - 1) / 2 + math.cos(angle) * right - math.sin(angle) * down + margin
    top, left = np.floor(from_y).astype(int), np.floor(from_x).astype(int)
    below, beside = from_y - top, from_x - left
    upper = (1 - beside) * image[:, top, left] + beside * image[:, top, left + 1]
    lower = (1 - beside) * image[:, top + 1, left] + beside * image[:, top + 1, left + 1]
    return (1 - below) * upper + below * lower


def grey_of(image):
    return np.tensordot([0.299, 0.587, 0.114], image, 1)


def hue_turned(image, part):
    high, low = image.max(0), image.min(0)
    chroma = high - low
    safe = np.where(chroma > 0, chroma, 1)
    red, green, blue = image
    sector = np.where(
        high == red,
        (green - blue) / safe,
        np.where(high == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    places = (np.array([5, 3, 1]).reshape(3, 1, 1) + sector + 6 * part) % 6
    return high - chroma * np.clip(np.minimum(places, 4 - places), 0, 1)


def coloured(image, epoch, example):
    def factor(most, at):
        return max(0, 1 - most) + (1 + most - max(0, 1 - most)) * Draws(epoch, example, at).uniform()

    image = np.clip(factor(BRIGHTNESS, BRIGHTNESS_AT) * image, 0, 1)
    by = factor(CONTRAST, CONTRAST_AT)
    image = np.clip(by * image + (1 - by) * grey_of(image).mean(), 0, 1)
    by = factor(SATURATION, SATURATION_AT)
    image = np.clip(by * image + (1 - by) * grey_of(image), 0, 1)
    return hue_turned(image, HUE * (2 * Draws(epoch, example, HUE_AT).uniform() - 1))


def erased(image, epoch, example):
    draws = Draws(epoch, example, ERASING_AT)
    if draws.uniform() >= ERASING:
        return image
    for _ in range(ATTEMPTS):
        share = 0.02 + 0.31 * draws.uniform()
        aspect = 0.3 * (3.3 / 0.3) ** draws.uniform()
        rows = half_away(math.sqrt(HEIGHT * WIDTH * share * aspect))
        columns = half_away(math.sqrt(HEIGHT * WIDTH * share / aspect))
        down, right = draws.uniform(), draws.uniform()
        if 1 <= rows < HEIGHT and 1 <= columns < WIDTH:
            top, left = math.floor(down * (HEIGHT - rows + 1)), math.floor(right * (WIDTH - columns + 1))
            image = image.copy()
            image[:, top : top + rows, left : left + columns] = 0
            break
    return image


def augmented(picture, epoch, example):
    image = moved(cropped(picture, epoch, example), epoch, example)
    image = turned(image, ROTATION * (2 * Draws(epoch, example, ROTATION_AT).uniform() - 1))
    return erased(coloured(image, epoch, example), epoch, example)


def permutation(n, draws):
    """A Feistel network of eight rounds on pairs of numbers below √n (src/data/order/schedule.hpp)."""
    side = math.isqrt(n - 1) + 1
    keys = []
    for _ in range(8):
        high = draws.bits()
        keys.append((high << 32) | draws.bits())

    def rounded(value, key):
        z = ((value ^ key) * 0x9E3779B97F4A7C15) & MASK64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        return (((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64) >> 32

    def place(i):
        while True:
            left, right = divmod(i, side)
            for key in keys:
                left, right = right, (left + (rounded(right, key) * side >> 32)) % side
            i = left * side + right
            if i < n:
                return i

    return [place(i) for i in range(n)]


def beta(alpha, u, v):
    """½ (1 + T / √(2α + T²)), T of Student's distribution with 2α degrees of freedom."""
    t = math.sqrt(2 * alpha * ((1 - u) ** (-1 / alpha) - 1)) * math.cos(2 * math.pi * v)
    return 0.5 * (1 + t / math.sqrt(2 * alpha + t * t))


def mixed(own, other, epoch, example):
    """The mixture of two images, and the share of the first."""
    draws = Draws(epoch, example, MIXING_AT)
    cuts = draws.uniform() >= 0.5
    share = beta(CUTMIX if cuts else MIXUP, draws.uniform(), draws.uniform())
    if not cuts:
        return share * own + (1 - share) * other, share
    down, right = draws.uniform() * HEIGHT, draws.uniform() * WIDTH
    height, width = math.sqrt(1 - share) * HEIGHT, math.sqrt(1 - share) * WIDTH
    top, bottom = (min(max(half_away(down + side * height / 2), 0), HEIGHT) for side in (-1, 1))
    left, end = (min(max(half_away(right + side * width / 2), 0), WIDTH) for side in (-1, 1))
    image = own.copy()
    image[:, top:bottom, left:end] = other[:, top:bottom, left:end]
    return image, 1 - (bottom - top) * (end - left) / (HEIGHT * WIDTH)


def mixed_epoch(images, epoch):
    """Mixtures of all images, with both labels and the second one's share; each image has its number as label."""
    order = permutation(len(images), Draws(0, epoch, 0, ORDER))
    labels, others, shares = (np.zeros(len(images)) for _ in range(3))
    features = np.zeros_like(images)
    for step, first in enumerate(range(0, len(order), BATCH)):
        batch = order[first : first + BATCH]
        turn = 1 + Draws(epoch, step, 0, MIXING).below(len(batch) - 1)
        for place, example in enumerate(batch):
            other = batch[(place + turn) % len(batch)]
            features[example], share = mixed(images[example], images[other], epoch, example)
            own_first = share >= 0.5
            labels[example], others[example] = (example, other) if own_first else (other, example)
            shares[example] = 1 - share if own_first else share
    return {"features": features, "labels": labels, "others": others, "shares": shares}


def photo(width, height, seed):
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), "uint8")
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def png_of(picture):
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


tests = os.path.abspath(sys.argv[1])
pictures = [photo(width, height, i) for i, (width, height) in enumerate([(60, 40), (30, 50), (90, 20), (64, 64)] * 4)]
files = [png_of(picture) for picture in pictures]
form = {"height": HEIGHT, "width": WIDTH, "fit": "crop", "colours": "rgb"}
recipe = json.dumps({"format": "unisono recipe", "version": 1, "images": form})
with tempfile.TemporaryDirectory() as folder:
    with h5py.File(os.path.join(folder, "set.h5"), "w") as file:
        file["recipe"] = np.frombuffer(recipe.encode(), "uint8")
        file["train/pictures"] = np.frombuffer(b"".join(files), "uint8")
        file["train/ends"] = np.cumsum([len(one) for one in files], dtype="uint64")
        file["train/labels"] = np.arange(len(files), dtype="int32")
    with h5py.File(os.path.join(folder, "expected.h5"), "w") as file:
        for epoch in range(3):
            images = np.array([augmented(picture, epoch, i) for i, picture in enumerate(pictures)])
            file[str(epoch)] = images.astype("float32")
            for name, values in mixed_epoch(images, epoch).items():
                file[f"mixed/{epoch}/{name}"] = values.astype("float32")
    environment = dict(os.environ, UNISONO_AUGMENTED=folder)
    sys.exit(subprocess.run([tests, "[augmentation_reference]"], env=environment).returncode)
