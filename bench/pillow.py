"""Encodes and decodes images with Pillow for package bench.

Reads one request a line from standard input, as JSON, and answers each with one
line of JSON on standard output. An answer with "error" is a request that failed.
"""

import io
import json
import sys
import time

FORMATS = {
    "png": {"format": "PNG", "compress_level": 6},
    "webp": {"format": "WEBP", "lossless": True, "exact": True},
}
files = {}  # path: content


def about(_):
    import PIL
    from PIL import features

    return {"version": PIL.__version__, "webp": bool(features.check("webp"))}


def pixels(data, mode):
    """The samples of an image file, in the mode that they had."""
    image = Image.open(io.BytesIO(data))
    image.load()
    return (image if image.mode == mode else image.convert(mode)).tobytes()


def encode(request):
    with open(request["raw"], "rb") as f:
        raw = f.read()
    mode = request["mode"]
    image = Image.frombytes(mode, (request["width"], request["height"]), raw)
    out = io.BytesIO()
    start = time.perf_counter()
    image.save(out, **FORMATS[request["codec"]])
    seconds = time.perf_counter() - start
    data = out.getvalue()
    with open(request["path"], "wb") as f:
        f.write(data)
    files[request["path"]] = data
    return {"bytes": len(data), "seconds": seconds, "exact": pixels(data, mode) == raw}


def load(path):
    Image.open(io.BytesIO(files[path])).load()


def decode(request):
    start = time.perf_counter()
    load(request["path"])
    return {"seconds": time.perf_counter() - start}


def decode_all(request):
    # Children have the files already. They are there before the clock starts.
    context = multiprocessing.get_context("fork")
    with context.Pool(request["jobs"]) as pool:
        pool.map(len, [""] * (4 * request["jobs"]), chunksize=1)
        start = time.perf_counter()
        pool.map(load, request["paths"], chunksize=1)
        return {"seconds": time.perf_counter() - start}


def main():
    operations = {f.__name__: f for f in (about, encode, decode, decode_all)}
    for line in sys.stdin:
        try:
            request = json.loads(line)
            answer = operations[request["op"]](request)
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


try:
    import multiprocessing

    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
except ImportError as e:
    print(json.dumps({"error": str(e)}), flush=True)
else:
    main()
