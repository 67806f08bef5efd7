#!/usr/bin/env python3
"""Makes pickles.tsv beside this script: what Python and NumPy write, and what
nobody should. Each line has a name, the integers or "refused", and the pickle
in hexadecimal digits.

    /usr/bin/python3 make_pickles.py       (Python 3.8 or later, NumPy)
"""
import collections
import os
import pickle
import pickletools

import numpy as np

rows = []


def put(name, value, data):
    want = value if isinstance(value, str) else " ".join(str(v) for v in value)
    rows.append((name, want, data.hex()))


lists = {
    "empty": [],
    "one": [7],
    "lengths": [12, 0, 255, 256, 65535, 65536, 2**31 - 1],
    "long": [2**31, 2**40, 2**63 - 1, -1, -2**31, -2**63],
    "batches": list(range(2500)),
}
arrays = {
    "sizes": np.array([1, 2**33, 0, 77], np.int64),
    "none": np.array([], np.int64),
    "narrow": np.array([1, 200, 255], np.uint8),
    "short": np.array([-5, 1], np.int16),
    "unsigned": np.array([2**32 - 1, 3], np.uint32),
    "big-endian": np.array([1, 2, 300], ">i8"),
}
for protocol in (3, 4, 5):
    for name, v in lists.items():
        put(f"list {name}, protocol {protocol}", v, pickle.dumps(v, protocol))
    for name, v in arrays.items():
        data = pickle.dumps(v, protocol)
        put(f"array {name}, protocol {protocol}", v.tolist(), data)
        if protocol == 3:  # names stand in lines, so that they can be replaced
            moved = data.replace(b"numpy.core.", b"numpy._core.")
            put(f"array {name}, protocol {protocol}, NumPy 2", v.tolist(), moved)
    v = [np.int64(5), np.int64(2**40), 3]
    put(f"list of NumPy integers, protocol {protocol}", [int(x) for x in v], pickle.dumps(v, protocol))
    frozen = np.array([9, 8], np.int64)
    frozen.flags.writeable = False
    put(f"array that is frozen, protocol {protocol}", [9, 8], pickle.dumps(frozen, protocol))
put("list, optimized", [3, 2, 1], pickletools.optimize(pickle.dumps([3, 2, 1], 4)))


class Runs:
    def __init__(self, call, *args):
        self.call, self.args = call, args

    def __reduce__(self):
        return self.call, self.args


for protocol in (3, 4, 5):
    put(f"a command, protocol {protocol}", "refused", pickle.dumps(Runs(os.system, "true"), protocol))
    put(f"a command in a list, protocol {protocol}", "refused", pickle.dumps([1, Runs(os.system, "true")], protocol))
    put(f"eval, protocol {protocol}", "refused", pickle.dumps(Runs(eval, "[1]"), protocol))
    put(f"a dictionary, protocol {protocol}", "refused", pickle.dumps({1: 2}, protocol))
    put(f"another class, protocol {protocol}", "refused", pickle.dumps(collections.OrderedDict(), protocol))
    put(f"floats, protocol {protocol}", "refused", pickle.dumps([1.5], protocol))
    put(f"strings, protocol {protocol}", "refused", pickle.dumps(["1"], protocol))
    put(f"lists in a list, protocol {protocol}", "refused", pickle.dumps([[1]], protocol))
    put(f"a tuple, protocol {protocol}", "refused", pickle.dumps((1, 2), protocol))
    put(f"a large integer, protocol {protocol}", "refused", pickle.dumps([2**64], protocol))
    put(f"an array of two dimensions, protocol {protocol}", "refused", pickle.dumps(np.zeros((2, 2), np.int64), protocol))
    put(f"an array of floats, protocol {protocol}", "refused", pickle.dumps(np.zeros(2), protocol))
    put(f"an array of objects, protocol {protocol}", "refused", pickle.dumps(np.array([None]), protocol))
    put(f"an array of numbers over 2**63, protocol {protocol}", "refused", pickle.dumps(np.array([2**63], np.uint64), protocol))
    put(f"None, protocol {protocol}", "refused", pickle.dumps(None, protocol))
array = pickle.dumps(arrays["sizes"], 5)
put("an array that says it has more", "refused", array.replace(b"K\x04\x85", b"K\x05\x85"))
put("an array that says it has fewer", "refused", array.replace(b"K\x04\x85", b"K\x03\x85"))
put("a list with itself in it", "refused", b"\x80\x04]\x94h\x00a.")
put("nothing", "refused", b"")
put("no value", "refused", b"\x80\x04.")
put("two values", "refused", b"\x80\x04]K\x01.")
put("no end", "refused", b"\x80\x04]")
put("the text form", "refused", pickle.dumps([1], 0))

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pickles.tsv"), "w") as f:
    for row in rows:
        f.write("\t".join(row) + "\n")
print(len(rows), "pickles")
