"""Reads Blosc chunks with the real library, and compares them with those that it makes at the same settings.

The argument is a directory of `N.chunk` and `N.plain` and of `cases.json`, which tells the settings.
"""
import json
import pathlib
import sys

import blosc

# Both have the same version of this library, so their streams are the same.
SAME_LIBRARY = ("lz4", "lz4hc")
# Ours may be larger by this much, where the encoders differ.
LARGER, MORE = 1.1, 200


def faults(case, chunk, plain):
    if len(chunk) > len(plain) + 16 and case["compare"]:
        yield f"{len(chunk)} bytes for {len(plain)}"
    try:
        if blosc.decompress(chunk) != plain:
            yield "decodes to other bytes"
    except blosc.blosc_extension.error as error:
        yield f"is refused: {error}"
    if case["compare"]:
        yield from differences(case, chunk, plain)


def differences(case, chunk, plain):
    real = blosc.compress(
        plain,
        typesize=case["typesize"],
        clevel=case["level"],
        shuffle=case["filter"],
        cname=case["compressor"],
    )
    memcpyed = (real[2] | chunk[2]) & 2
    if real[:12] != chunk[:12] and not (memcpyed and case["compressor"] not in SAME_LIBRARY):
        yield f"header {chunk[:12].hex()}, the library's is {real[:12].hex()}"
    if case["compressor"] in SAME_LIBRARY and len(real) != len(chunk):
        yield f"{len(chunk)} bytes, the library's has {len(real)}"
    if len(chunk) > LARGER * len(real) + MORE:
        yield f"{len(chunk)} bytes, the library's has only {len(real)}"


def main():
    blosc.set_nthreads(1)
    directory = pathlib.Path(sys.argv[1])
    cases = json.loads((directory / "cases.json").read_text())
    failed = 0
    for case in cases:
        chunk, plain = ((directory / f"{case['number']}.{kind}").read_bytes() for kind in ("chunk", "plain"))
        for fault in faults(case, chunk, plain):
            failed += 1
            print(case, len(plain), fault)
    print(f"{len(cases)} chunks")
    sys.exit(failed > 0)


main()
