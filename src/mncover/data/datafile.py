"""The `.mncover` data file: a zip of packed maps, table columns and a JSON header.

docs/format.md describes every member. Files are replaced in one step, and whatever is read may
come from a stranger: nothing in it is executed, sizes are checked before anything is unpacked,
and damage is reported in one line.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.calibration import Calibration
from mncover.data.header import (
    NAMES,
    check_header,
    check_outlines,
    criteria_of,
    settings_of,
)
from mncover.data.identity import Identity, MaskSummary, Measured, Run
from mncover.data.jsonpieces import each_item
from mncover.data.layout import Layout
from mncover.data.limits import check_bytes
from mncover.data.mapped import Pieces
from mncover.data.maps import check_size
from mncover.data.meetings import MEETINGS, meetings_from_json
from mncover.data.members import (
    ANSWERS,
    CALIBRATION,
    HEADER,
    OWNERS,
    SPACE,
    SUITES,
    TEXTS,
    Member,
    alone,
    map_name,
    members_of,
)
from mncover.data.npy import from_npy
from mncover.data.owners import OWNERS_TYPE, Owners, check_owners
from mncover.data.prompting import Prompting
from mncover.data.signatures import SignatureSpace
from mncover.data.store import CoverageData
from mncover.data.table import (
    COLUMNS,
    NEW,
    NEW_TYPE,
    NOT_KNOWN,
    PROBABILITIES,
    SIGNATURES,
    UNKNOWN,
    NewCells,
    Signatures,
    Table,
)
from mncover.data.texts import on_disk
from mncover.data.writing import replacing
from mncover.errors import DataFileError, LimitError
from mncover.types import Text, __version__, are_texts, brief

# 1: the first. 2: masks, a map of mnCover for each context, and what each text adds to it;
# suites of tests, and the case of each text. 3: any criteria, each with its maps and new cells;
# signatures, owners and what calibration texts reach, if they were kept. 4: positions and sites
# among the settings; each criterion has a layout of its own.
FORMAT_VERSION = 4

DEFAULT_NAME = "run.mncover"
# Of members of JSON: each byte may make an object. Texts are about a tenth when compressed.
FREE, RATIO = 2**24, 30
AT_ONCE = 2**18  # bytes that are read


def write(data: CoverageData, path: Path) -> None:
    """Write a data file; what was at `path` stays until the new file is complete."""
    try:
        with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            sums: dict[str, str] = {}
            for member in members_of(data):
                member.add(archive)
                sums[member.name] = member.digest
            header = json.dumps(_header(data, sums), indent=1)
            Member.made(alone(HEADER, header.encode)).add(archive)
    except OSError as error:
        raise DataFileError(f"{path}: cannot be written ({error.strerror or error}).") from error


def _map_name(number: int, criterion: str, version: int) -> str:
    if version > 2:
        return map_name(number, criterion)
    return f"maps/{number:05d}.bits" if criterion == "cover" else f"maps/{number:05d}.masked.bits"


def _header(data: CoverageData, sums: dict[str, str]) -> dict[str, Any]:
    identity = data.identity
    return {
        "format": "mncover",
        "version": FORMAT_VERSION,
        "written_by": f"mncover {__version__}",
        **{name: getattr(identity, name) for name in NAMES},
        "settings": identity.settings.to_json(),
        "layout": identity.layout.to_json(),
        "labels": list(identity.labels),
        "calibration_texts": identity.calibration_texts,
        "masks": None if identity.masks is None else identity.masks.to_json(),
        "criteria": [criterion.to_json() for criterion in identity.criteria],
        "prompting": None if identity.prompting.plain else identity.prompting.to_json(),
        "runs": [run.to_json() for run in data.runs],
        "contexts": data.contexts,
        "texts": data.n_rows,
        "checksums": sums,
    }


def read(path: Path) -> CoverageData:
    """Read a data file; refuse one that is missing, damaged, foreign or too new."""
    with _reading(path) as archive:
        return _read(archive)


def read_header(path: Path) -> dict[str, Any]:
    """Read only the header of a data file, for `mncover debug`."""
    with _reading(path) as archive:
        return _read_header(archive)


@contextmanager
def _reading(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a data file, and turn whatever its bytes bring about into one clear line."""
    with _opened(path) as archive:
        try:
            _check_sizes(archive, path.stat().st_size)
            yield archive
        except (DataFileError, LimitError) as error:
            raise type(error)(f"{path}: {str(error).rstrip('.')}.") from error
        except Exception as error:  # zipfile, zlib, json and numpy raise almost anything
            raise DataFileError(f"{path}: the file is damaged ({error}).") from error


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive that unpacks to too much, or in ways that no data file needs."""
    members = archive.infolist()
    check_bytes(sum(one.file_size for one in members), size, "all members")
    for one in members:
        if one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataFileError(f"its member {one.filename[:40]!r} is compressed in a foreign way")
        if one.filename.endswith(".json"):
            check_bytes(one.file_size, one.compress_size, one.filename, FREE, RATIO)


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise DataFileError(
            f"{path}: no such data file. `mncover run` writes one; "
            f"without a name, reports read {DEFAULT_NAME}."
        ) from error
    except OSError as error:
        raise DataFileError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except Exception as error:  # zipfile raises almost anything for damaged bytes
        why = "not an mncover data file, or one that was cut short"
        raise DataFileError(f"{path}: {why}.") from error


def _read(archive: zipfile.ZipFile) -> CoverageData:
    header = _read_header(archive)
    sums, version = header["checksums"], header["version"]
    data = CoverageData(_identity(header))
    data.runs = [Run(*values) for values in header["runs"]]
    for number, context in enumerate(header["contexts"]):
        for criterion in data.identity.names:
            packed = _member(archive, _map_name(number, criterion, version), sums)
            data.put_packed(context, packed, criterion)
    if SUITES in sums:
        data.outlines = check_outlines(json.loads(_member(archive, SUITES, sums)))
    if MEETINGS in sums:
        data.meetings = meetings_from_json(json.loads(_member(archive, MEETINGS, sums)))
    if f"{SIGNATURES}.npy" in sums:
        data.space = SignatureSpace.from_arrays(_arrays(archive, sums, SPACE))
    data.table = _table(archive, header, data)
    data.table.check(len(data.runs), len(data.contexts))
    data.owners = _owners(archive, sums, data)
    data.calibration = Calibration.from_arrays(_arrays(archive, sums, CALIBRATION), data.identity)
    _check_cases(data)
    return data


def _table(archive: zipfile.ZipFile, header: dict[str, Any], data: CoverageData) -> Table:
    """Return the rows; of many, all that is long goes from the file to another on disk."""
    sums, names = header["checksums"], data.identity.names
    texts = on_disk(_texts(_chunks(archive, TEXTS, sums)))
    answers = _answers(_chunks(archive, ANSWERS, sums)) if ANSWERS in sums else ()

    def arrays() -> Iterator[tuple[str, NDArray[Any]]]:
        for name in COLUMNS:
            yield name, _column(archive, name, header, len(texts))
        for name in names:
            yield NEW + name, _new_cells(archive, name, header, len(texts))
        yield PROBABILITIES, _probabilities(archive, sums, len(data.identity.labels))
        yield SIGNATURES, _signatures(archive, sums, data.space, len(texts))

    each = ((name, Pieces(one.shape, one.dtype.str, [one])) for name, one in arrays())
    return Table.kept(len(texts), each, texts, answers)


def _probabilities(archive: zipfile.ZipFile, sums: dict[str, str], n: int) -> NDArray[Any]:
    found = _array(_member(archive, f"{PROBABILITIES}.npy", sums), "<f4")
    if found.ndim != 2 or found.shape[1] != n:
        raise DataFileError("its probabilities do not fit its labels")
    return found


def _signatures(
    archive: zipfile.ZipFile, sums: dict[str, str], space: SignatureSpace | None, n: int
) -> Signatures:
    """Return the signatures; no numbers if none were kept."""
    if space is None:
        return np.empty((n, 0), dtype=np.float16)
    signatures = _array(_member(archive, f"{SIGNATURES}.npy", sums), "<f2")
    if signatures.shape[1:] != (space.size,):
        raise DataFileError("its signatures do not fit their projection")
    return signatures


def _arrays(archive: zipfile.ZipFile, sums: dict[str, str], folder: str) -> dict[str, Any]:
    """Return the arrays of a folder by name."""
    names = [name for name in sums if name.startswith(folder)]
    return {n.removeprefix(folder)[:-4]: from_npy(_member(archive, n, sums)) for n in names}


def _owners(archive: zipfile.ZipFile, sums: dict[str, str], data: CoverageData) -> Owners | None:
    """Return which text hit the cells of a sample first; nothing if that was not kept."""
    if OWNERS not in sums:
        return None
    owners: Owners = _array(_member(archive, OWNERS, sums), OWNERS_TYPE)
    identity = data.identity
    check_owners(owners, identity.main.layout, identity.main.cells, len(data.table))
    return owners


def _check_cases(data: CoverageData) -> None:
    """Refuse rows of a suite of tests whose case the suite does not have."""
    for number, run in enumerate(data.runs):
        cases = data.table["case"][data.table["run"] == number]
        outline = data.outlines.get(run.id)
        if outline is None or not len(cases):
            continue
        n = sum(len(test["sizes"]) for test in outline["tests"])
        if cases.min() < 0 or cases.max() >= n:
            raise DataFileError("the cases in its table do not fit its suite")


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    if HEADER not in archive.namelist():
        raise DataFileError("not an mncover data file")
    header = json.loads(archive.read(HEADER))
    if not isinstance(header, dict) or header.get("format") != "mncover":
        raise DataFileError("not an mncover data file")
    version = header.get("version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise DataFileError(
            f"written by a newer mncover (format {brief(version, 20)}, this one reads up to "
            f"{FORMAT_VERSION}); upgrade with: pip install -U mncover"
        )
    check_header(header)
    return header


def _member(archive: zipfile.ZipFile, name: str, sums: dict[str, str]) -> bytes:
    return b"".join(_chunks(archive, name, sums))


def _chunks(archive: zipfile.ZipFile, name: str, sums: dict[str, str]) -> Iterator[bytes]:
    """Yield the bytes of a member, some at a time; at its end, refuse one that is damaged."""
    digest = hashlib.sha256()
    with archive.open(name) as file:
        while chunk := file.read(AT_ONCE):
            digest.update(chunk)
            yield chunk
    if digest.hexdigest() != sums.get(name):
        raise DataFileError(f"the file is damaged (checksum of {name})")


def _column(archive: zipfile.ZipFile, name: str, header: dict[str, Any], n: int) -> NDArray[Any]:
    """Return a column of the table; one that came later than the file is unknown."""
    member, sums = f"table/{name}.npy", header["checksums"]
    later = header["version"] == 1 and name == "case"
    if later or (name in NOT_KNOWN and member not in sums):
        return np.full(n, NOT_KNOWN.get(name, UNKNOWN), dtype=COLUMNS[name])
    return _array(_member(archive, member, sums), COLUMNS[name])


def _new_cells(archive: zipfile.ZipFile, criterion: str, header: Any, n: int) -> NewCells:
    """Return what each text added by a criterion; formats 1 and 2 have a column for each kind."""
    sums = header["checksums"]
    if header["version"] > 2:
        return _array(_member(archive, f"new/{criterion}.npy", sums), NEW_TYPE)
    if header["version"] == 1 and criterion != "cover":
        return np.full((2, n), UNKNOWN, dtype=NEW_TYPE)
    start = "new" if criterion == "cover" else "new_masked"
    names = [f"table/{start}_{kind}.npy" for kind in ("hidden", "attention")]
    return np.stack([_array(_member(archive, name, sums), NEW_TYPE) for name in names])


def _array(content: bytes, kind: str) -> NDArray[Any]:
    array = from_npy(content)
    if array.dtype != np.dtype(kind):
        raise DataFileError(f"a column of its table has the type {array.dtype}, not {kind}")
    return array


def _texts(chunks: Iterator[bytes]) -> Iterator[Text]:
    for row in each_item(chunks):
        text = tuple(row) if isinstance(row, list) else row
        if not are_texts((text,)):
            raise DataFileError("its list of texts holds something else")
        yield text


def _answers(chunks: Iterator[bytes]) -> Iterator[str]:
    """Yield what a language model said to each text."""
    for answer in each_item(chunks):
        if not isinstance(answer, str):
            raise DataFileError("its list of answers holds something else")
        yield answer


def _identity(header: dict[str, Any]) -> Identity:
    settings, layout = settings_of(header), Layout.from_json(header["layout"])
    criteria = tuple(Measured.from_json(one) for one in criteria_of(header, settings))
    for one in criteria:
        check_size(one.layout, one.cells)
    if not criteria or len({one.name for one in criteria}) != len(criteria):
        raise DataFileError("its list of criteria cannot be read")
    return Identity(
        **{name: str(header[name]) for name in NAMES},
        settings=settings,
        layout=layout,
        labels=tuple(str(label) for label in header["labels"]),
        calibration_texts=int(header["calibration_texts"]),
        masks=MaskSummary.from_json(header["masks"]) if header.get("masks") else None,
        criteria=criteria,
        prompting=Prompting.from_json(header.get("prompting") or {}),
    )
