"""Mutated model and student files, and what reading them comes to in a forked child with bounded memory and time."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from treespec.errors import TreespecError

SECONDS = 5.0
MEGABYTES = 1000
_NUMBERS = (b"-1", b"0", b"1", b"99999999999", b"2147483648", b"nan", b"1e400", b"-0", b"", b"[]", b"{}", b"null", b'"x"', b"1" * 400)
_BYTES = (b"\0", b"\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x7f" * 8, b"\0" * 8, b"\n", b" ", b"=", b",")


@dataclass
class Outcome:
    """What came of many mutated files.

    Attributes
    ----------
    counts : Counter
        "error" (a treespec error), "valid", and what must not be: "crash", "hang", "exception".
    slowest : float
        Seconds of the slowest file.
    findings : list of (str, bytes)
        What happened, and the file.
    """

    counts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    findings: list[tuple[str, bytes]] = field(default_factory=list)


def mutate(
    content: bytes, rng: np.random.Generator, *, body: tuple[int, int] | None = None, checksum: Callable[[bytes], bytes] | None = None
) -> bytes:
    """Return a file with one to four damages.

    In half of the files bytes are changed, cut, doubled or moved anywhere; in the other half values are replaced inside the form, so
    that the damage gets past the parser: numbers in a text, bytes in the body of a binary file.

    Parameters
    ----------
    content : bytes
    rng : Generator
    body : (start, stop), optional
        Where a binary file holds plain values; none for text.
    checksum : callable, optional
        Puts the checksum right, so that the damage gets past it.
    """
    data = bytearray(content)
    if rng.random() < 0.5:
        _replace_values(data, rng, body)
        return checksum(bytes(data)) if checksum is not None else bytes(data)
    for _ in range(int(rng.integers(1, 5))):
        n = len(data)
        if not n:
            break
        at, kind = int(rng.integers(n)), int(rng.integers(9))
        length = int(rng.integers(1, 1 + min(40, n)))
        if kind == 0:
            data[at] = int(rng.integers(256))
        elif kind == 1:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = data[at : at + length]
        elif kind == 4:
            data[at : at + length] = data[(from_ := int(rng.integers(n))) : from_ + length]
        elif kind == 5:
            token = _BYTES[int(rng.integers(len(_BYTES)))]
            data[at : at + len(token)] = token
        elif kind == 6:
            _replace_number(data, at, _NUMBERS[int(rng.integers(len(_NUMBERS)))])
        elif kind == 7 and rng.random() < 0.3:
            del data[at:]
        else:
            data[at : at + 4] = int(rng.integers(-(2**31), 2**31)).to_bytes(4, "little", signed=True)
    out = bytes(data)
    return checksum(out) if checksum is not None and rng.random() < 0.9 else out


def _replace_values(data: bytearray, rng: np.random.Generator, body: tuple[int, int] | None) -> None:
    """Replace one to four values in place."""
    for _ in range(int(rng.integers(1, 5))):
        if body is None:
            number = _NUMBERS[int(rng.integers(len(_NUMBERS)))] if rng.random() < 0.5 else str(int(rng.integers(-3, 40))).encode()
            _replace_number(data, int(rng.integers(len(data))), number)
            continue
        at, kind = int(rng.integers(*body)), int(rng.integers(4))
        token = (bytes([int(rng.integers(256))]), bytes([data[at] ^ 1 << int(rng.integers(8))]), b"\xff" * 4, bytes(4))[kind]
        token = token[: body[1] - at]
        data[at : at + len(token)] = token


def _replace_number(data: bytearray, at: int, token: bytes) -> None:
    """Replace the digits at or after a place."""
    start = next((i for i in range(at, min(len(data), at + 200)) if chr(data[i]) in "0123456789"), at)
    end = start
    while end < len(data) and chr(data[end]) in "0123456789.eE+-":
        end += 1
    data[start:end] = token


def run(read: Callable[[bytes], object], files: list[bytes], *, batch: int = 250) -> Outcome:
    """Return what comes of reading each file in forked children.

    Parameters
    ----------
    read : callable
        Reads one file and uses the result; raises `TreespecError` for a damaged one.
    files : list of bytes
    batch : int
        Files a child; the child that dies gives its place to another, which goes on behind the file.
    """
    outcome, at = Outcome(), 0
    while at < len(files):
        at = _child(read, files, at, min(len(files), at + batch), outcome)
    return outcome


def _child(read: Callable[[bytes], object], files: list[bytes], start: int, end: int, outcome: Outcome) -> int:
    """Read files ``start:end`` in one child, and return where to go on."""
    source, sink = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        _read_all(read, files[start:end], sink)
        os._exit(0)
    os.close(sink)
    done, reported = start, b""
    with os.fdopen(source, "rb") as pipe:
        for line in pipe:
            word, _, seconds = line.rstrip(b"\n").partition(b" ")
            outcome.slowest = max(outcome.slowest, float(seconds.split(b" ")[0]))
            name = word.decode()
            outcome.counts[name] += 1
            if name not in ("error", "valid"):
                outcome.findings.append((line.decode().strip(), files[done]))
            done, reported = done + 1, line
    _, status = os.waitpid(pid, 0)
    if done < end:  # it died on file ``done``
        hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        outcome.counts["hang" if hung else "crash"] += 1
        outcome.findings.append((f"{'hang' if hung else 'crash'}, status {status}, after {reported!r}", files[done]))
        done += 1
    return done


def _read_all(read: Callable[[bytes], object], files: list[bytes], sink: int) -> None:
    """Read files and report on each in a line."""
    used = _kilobytes_used()
    limit = 1024 * used + MEGABYTES * 1_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for content in files:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        start = time.perf_counter()
        try:
            read(content)
            what = "valid"
        except TreespecError as error:
            what = "error" if "Hint:" in str(error) else "exception"
            detail = repr(error)
        except BaseException as error:  # MemoryError included
            what, detail = "exception", repr(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
        line = f"{what} {time.perf_counter() - start:.4f}" + (f" {detail[:300]}".replace("\n", " ") if what == "exception" else "")
        os.write(sink, line.encode("utf-8", "replace") + b"\n")


def _kilobytes_used() -> int:
    """Return the size of this process's address space."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize() // 1024
