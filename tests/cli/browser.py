"""A headless Chromium, for tests of pages; and a reader of its screenshots."""

import json
import pathlib
import shutil
import struct
import subprocess
import tempfile
import zlib
from html.parser import HTMLParser

import numpy

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ALONE = [  # what a browser would ask of the network for itself
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]


class Visit:
    """What became of a page: its DOM after its scripts ran, what they said, what they asked of the network."""

    def __init__(self, dom, messages, requests, screenshot):
        self.dom, self.messages, self.requests, self.screenshot = dom, messages, requests, screenshot


def run(page, folder, *options):
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *ALONE]
    words += [f"--user-data-dir={folder}/profile", f"--log-net-log={folder}/net.json", "--enable-logging=stderr"]
    words += [*options, pathlib.Path(page).absolute().as_uri()]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)


def requests_in(path):
    """The URLs that pages asked for. What Chromium asks for itself has no page as its initiator."""
    events = json.loads(path.read_text())["events"]
    parameters = [event.get("params", {}) for event in events]
    return [p["url"] for p in parameters if "url" in p and p.get("initiator") not in (None, "not an origin")]


def visit(page, dark=False, size=(900, 700)):
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    with tempfile.TemporaryDirectory(prefix="unisono-browser-") as name:
        folder = pathlib.Path(name)
        window = f"--window-size={size[0]},{size[1]}"
        dumped = run(page, folder, scheme, window, "--dump-dom")
        requests = requests_in(folder / "net.json")
        shot = folder / "shot.png"
        run(page, folder, scheme, window, f"--screenshot={shot}")
        messages = [line for line in dumped.stderr.splitlines() if ":CONSOLE" in line]
        return Visit(dumped.stdout, messages, requests, pixels_of(shot.read_bytes()))


def pixels_of(png):
    """[height, width, channels] of a PNG file of 8 bits that is not interlaced."""
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        content = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", content[:10])
            assert depth == 8
        data += content if kind == b"IDAT" else b""
        at += length + 12
    channels = {0: 1, 2: 3, 6: 4}[colour]
    lines = numpy.frombuffer(zlib.decompress(data), numpy.uint8).reshape(height, 1 + width * channels)
    pixels = numpy.zeros((height, width, channels), numpy.uint8)
    above = numpy.zeros((width, channels), numpy.int32)
    for y, line in enumerate(lines):
        above = unfiltered(line[0], line[1:].reshape(width, channels).astype(numpy.int32), above)
        pixels[y] = above
    return pixels


def unfiltered(filter, line, above):
    """A line of a PNG file: each byte was stored as its difference from a guess by its neighbours."""
    if filter == 0:
        return line
    if filter == 2:
        return (line + above) & 255
    if filter == 1:
        return numpy.cumsum(line, axis=0) & 255
    left, corner = [0] * line.shape[1], [0] * line.shape[1]
    result = []
    for stored, up in zip(line.tolist(), above.tolist()):
        guesses = (a + b >> 1 for a, b in zip(left, up)) if filter == 3 else map(paeth, left, up, corner)
        left = [(value + guess) & 255 for value, guess in zip(stored, guesses)]
        corner = up
        result.append(left)
    return numpy.array(result, numpy.int32)


def paeth(left, up, corner):
    guess = left + up - corner
    distances = (abs(guess - left), abs(guess - up), abs(guess - corner))
    return (left, up, corner)[distances.index(min(distances))]


class Figures(HTMLParser):
    """The plots and tables of a page.

    plots: by title {"x": (minimum, maximum), "y": …, "spacing": {"x": "linear", …}, "series": {name: points}}
    tables: by caption, lists of rows of cells
    """

    def __init__(self, dom):
        super().__init__()
        self.plots, self.tables, self.texts, self.headings = {}, {}, [], []
        self._plot = self._series = self._table = self._caption = self._heading = None
        self._cells = []
        self.feed(dom)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        kind = given.get("class") or ""
        if tag == "figcaption":
            self._caption = ""
        elif tag == "svg":
            self._plot = {"spacing": {}, "series": {}}
            self.plots[(self._caption or "").strip()] = self._plot
        elif tag == "g" and kind.startswith("axis "):
            axis = kind.split()[1]
            self._plot[axis] = (float(given["data-minimum"]), float(given["data-maximum"]))
            self._plot["spacing"][axis] = given.get("data-spacing")
        elif tag == "g" and kind == "series":
            self._series = self._plot["series"].setdefault(given["data-name"], [])
        elif tag == "polyline" and self._series is not None:
            self._series += [tuple(map(float, point.split(","))) for point in given["points"].split()]
        elif tag == "caption":
            self._caption = ""
        elif tag == "tr":
            self._cells = []
        elif tag in ("td", "th"):
            self._cells.append("")
        elif tag in ("h1", "h2"):
            self._heading = ""

    def handle_endtag(self, tag):
        if tag == "caption":
            self._table = self.tables.setdefault(self._caption.strip(), [])
            self._caption = None
        elif tag == "svg":
            self._plot = self._series = None
        elif tag == "tr":
            self._table.append([cell.strip() for cell in self._cells])
            self._cells = []
        elif tag in ("h1", "h2"):
            self.headings.append(self._heading.strip())
            self._heading = None

    def handle_data(self, data):
        if self._heading is not None:
            self._heading += data
        elif self._caption is not None and self._plot is None:
            self._caption += data
        elif self._cells:
            self._cells[-1] += data
        else:
            self.texts.append(data)
