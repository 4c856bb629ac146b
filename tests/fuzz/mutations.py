"""Damage to files, all of it following from a seed: bytes, lines, JSON values, packed members."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from mncover.data.tensors import CHECKSUM
from mncover.data.tensors import _digest as digest_of

Damage = Callable[[bytes, random.Random], bytes]

NUMBERS = (0, 1, -1, 2, 7, 2**31 - 1, 2**31, 2**33, 2**63, 2**64, -(2**63), 10**15, 10**400)
FLOATS = (0.0, -0.0, 0.5, 1e308, -1e308, 1e-320, float("inf"), float("-inf"), float("nan"))
STRINGS = ("", "\x00", "\ud800", "a" * 5000, "é\u202e", "../../x", "True", "1", "\x1b[2J", "\n")
TOKENS = (
    *(b"null", b"true", b"[]", b"{}", b'""', b"-1", b"1e999", b"NaN", b"Infinity", b"9" * 5000),
    *(b"[" * 2000, b'{"a":' * 2000, b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b'"'),
    *(b"\xed\xa0\x80", b"a." * 300, b"[[tests]]\n", b"(" * 500, b"\x85" * 500, b"." * 3),
)


def damaged_bytes(content: bytes, rng: random.Random) -> bytes:
    """Change a few bytes, or cut, double, swap or insert a part."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(changed) + 1)
        end = min(len(changed), at + rng.choice((1, 2, 8, 64, 1000)))
        rng.choice((_flip, _set, _cut_out, _insert, _replace, _double, _cut_off, _scramble))(
            changed, at, end, rng
        )
    return bytes(changed)


def _flip(changed: bytearray, at: int, end: int, rng: random.Random) -> None:
    for place in range(at, min(at + 1, len(changed))):
        changed[place] ^= 1 << rng.randrange(8)


def _set(changed: bytearray, at: int, end: int, rng: random.Random) -> None:
    for place in range(at, min(at + 1, len(changed))):
        changed[place] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))


def _cut_out(changed: bytearray, at: int, end: int, rng: random.Random) -> None:
    del changed[at:end]


def _insert(changed: bytearray, at: int, end: int, rng: random.Random) -> None:
    changed[at:at] = rng.choice(TOKENS)


def _replace(changed: bytearray, at: int, end: int, rng: random.Random) -> None:
    changed[at:end] = rng.choice(TOKENS)


def _double(changed: bytearray, at: int, end: int, rng: random.Random) -> None:
    other = rng.randrange(len(changed) + 1)
    changed[other:other] = changed[at:end]


def _cut_off(changed: bytearray, at: int, end: int, rng: random.Random) -> None:
    del changed[at:]


def _scramble(changed: bytearray, at: int, end: int, rng: random.Random) -> None:
    changed[at:end] = rng.randbytes(end - at)


def damaged_numbers(content: bytes, rng: random.Random) -> bytes:
    """Replace a number that is written in digits."""
    places = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not places:
        return damaged_bytes(content, rng)
    place = rng.choice(places)
    new = str(rng.choice((*NUMBERS, *FLOATS))).encode()
    return content[: place.start()] + new + content[place.end() :]


def damaged_value(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one of its parts replaced, removed, doubled or wrapped."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name, changed = rng.choice(list(value)), dict(value)
        match rng.randrange(8):
            case 0:
                del changed[name]
            case 1:
                changed[rng.choice(STRINGS)] = changed[name]
            case _:
                changed[name] = damaged_value(changed[name], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.85:
        place, several = rng.randrange(len(value)), list(value)
        match rng.randrange(8):
            case 0:
                del several[place]
            case 1:
                several.insert(place, several[place])
            case _:
                several[place] = damaged_value(several[place], rng)
        return several
    simple: tuple[Any, ...] = (None, True, False, [], {}, [value], {"a": value}, [[value]] * 3)
    pools: tuple[tuple[Any, ...], ...] = (NUMBERS, FLOATS, STRINGS, simple)
    return rng.choice(rng.choice(pools))


def _as_json(value: Any) -> bytes:
    return json.dumps(value).encode("ascii")


def damaged_json(content: bytes, rng: random.Random) -> bytes:
    """Damage a value of a JSON file."""
    return _as_json(damaged_value(json.loads(content), rng))


def damaged_json_line(content: bytes, rng: random.Random) -> bytes:
    """Damage a value in one line of a file of JSON Lines."""
    lines = content.splitlines()
    place = rng.randrange(len(lines))
    lines[place] = _as_json(damaged_value(json.loads(lines[place]), rng))
    return b"\n".join(lines)


def damaged_state(content: bytes, rng: random.Random) -> bytes:
    """Damage a value of a state, and correct the checksum before it so that it is looked at."""
    found = json.loads(content.partition(b"\n")[2])
    changed = _as_json(found | {"state": damaged_value(found["state"], rng)})
    return hashlib.sha256(changed).hexdigest().encode() + b"\n" + changed + b"\n"


def gzipped(inner: Damage) -> Damage:
    """Damage what a gzip file holds, and compress it again."""
    return lambda content, rng: gzip.compress(inner(gzip.decompress(content), rng), 1, mtime=0)


def damaged_member(content: bytes, rng: random.Random) -> bytes:
    """Damage a member of a data file, and correct its checksum so that it is looked at."""

    def damage(members: dict[str, bytes]) -> str:
        name = rng.choice(["header.json"] * len(members) + list(members))
        if name == "header.json":
            members[name] = _as_json(damaged_value(json.loads(members[name]), rng))
        elif name.endswith(".json") and rng.random() < 0.7:
            members[name] = damaged_json(members[name], rng)
        elif rng.random() < 0.1:
            del members[name]
        else:
            members[name] = damaged_bytes(members[name], rng)
        return name

    return with_members(content, damage, rng)


def with_members(
    content: bytes, damage: Callable[[dict[str, bytes]], str], rng: random.Random
) -> bytes:
    """Let a function damage a member of a data file and say which; correct its checksum."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = damage(members)
    header = json.loads(members["header.json"])
    if isinstance(header, dict) and isinstance(header.get("checksums"), dict) and name in members:
        header["checksums"][name] = hashlib.sha256(members[name]).hexdigest()
    members["header.json"] = _as_json(header)
    return _zipped(members, rng)


def _zipped(members: dict[str, bytes], rng: random.Random) -> bytes:
    methods = (zipfile.ZIP_DEFLATED,) * 9 + (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", rng.choice(methods)) as archive:
        for name, one in members.items():
            archive.writestr(name, one)
    return made.getvalue()


def damaged_tensors(content: bytes, rng: random.Random) -> bytes:
    """Damage the header of a safetensors file, or the JSON that its metadata holds."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    about = header.get("__metadata__", {})
    if about and rng.random() < 0.6:
        name = rng.choice(list(about))
        try:
            about[name] = json.dumps(damaged_value(json.loads(about[name]), rng))
        except ValueError:
            about[name] = rng.choice(STRINGS)
    elif rng.random() < 0.4:
        name = rng.choice([name for name in header if name != "__metadata__"])
        header[name]["dtype"] = rng.choice(("BF16", "F8_E4M3", "F64", "I8", "F16", "BOOL", "U64"))
    else:
        header = damaged_value(header, rng)
    packed = _as_json(header)
    packed += b" " * (-len(packed) % 8)
    return len(packed).to_bytes(8, "little") + packed + content[8 + size :]


def resealed_tensors(content: bytes, rng: random.Random) -> bytes:
    """Damage the header or an array of a safetensors file, and correct its checksum."""
    size = int.from_bytes(content[:8], "little")
    ((key, packed),) = json.loads(content[8 : 8 + size])["__metadata__"].items()
    about, arrays = json.loads(packed), load(content)
    del about[CHECKSUM]
    if rng.random() < 0.5:
        changed = damaged_value(about, rng)
        about = changed if isinstance(changed, dict) else {"key": changed}
    else:
        name = rng.choice(sorted(arrays))
        array = _damaged_array(arrays.pop(name), rng)
        if rng.random() < 0.9:
            arrays[name] = array
    sealed = json.dumps({**about, CHECKSUM: digest_of(about, arrays)})
    return save(arrays, {key: sealed})


def _damaged_array(array: Any, rng: random.Random) -> Any:
    """Return an array of other numbers, of another type or of another shape."""
    flat = array.reshape(-1).copy()
    match rng.randrange(6):
        case 0 if flat.dtype.kind == "f" and len(flat):
            flat[rng.randrange(len(flat))] = rng.choice((*FLOATS[3:], -1.0, 7.0))
            return flat.reshape(array.shape)
        case 1 if len(flat):
            flat[rng.randrange(len(flat))] = 0 if flat.dtype.kind == "f" else rng.choice((0, 1, 99))
            return flat[::-1].copy().reshape(array.shape)
        case 2:
            kinds = ("<f2", "<f4", "<f8", "<i8", "<i4", "|u1", "|i1", "|b1")
            with np.errstate(all="ignore"):
                return array.astype(rng.choice(kinds))
        case 3:
            return flat[: rng.randrange(len(flat) + 1)]
        case 4:
            return np.concatenate([flat, flat])
        case _:
            return array.T.copy() if array.ndim > 1 else array[None]
