"""What a Linux program needs of the system that it runs on: read from its own headers, nothing executed."""

import dataclasses
import pathlib
import re
import struct

from . import DeployError

MACHINES = {62: "x86_64", 183: "arm64"}
_INTERPRETER, _DYNAMIC, _NEEDED, _VERNEED = 3, 6, 1, 0x6FFFFFFE
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclasses.dataclass(frozen=True)
class Program:
    """One program: its architecture as Lambda names it, whether it brings all that it needs, its libraries, the newest glibc symbol."""

    architecture: str
    static: bool
    libraries: tuple
    glibc: tuple | None


def read(path):
    """Reads a program's headers; a DeployError if it is no 64-bit little-endian ELF file or a broken one."""
    content = pathlib.Path(path).read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":
        raise DeployError(f"{path} is no program for 64-bit Linux")
    try:
        return _program(content)
    except (struct.error, IndexError, ValueError, KeyError) as error:
        raise DeployError(f"{path} is no whole program: {error}") from None


def _program(content):
    machine, = struct.unpack_from("<H", content, 18)
    headers, sections = struct.unpack_from("<QQ", content, 32)
    header_size, header_count, section_size, section_count = struct.unpack_from("<4H", content, 54)
    kinds = [struct.unpack_from("<I", content, headers + each * header_size)[0] for each in range(header_count)]
    table = [_SECTION.unpack_from(content, sections + each * section_size) for each in range(section_count)]
    libraries, versions = [], []
    for _, kind, _, _, offset, size, link, count, _, _ in table:
        if kind == _DYNAMIC:
            for place in range(offset, offset + size, 16):
                tag, value = struct.unpack_from("<qQ", content, place)
                if tag == _NEEDED:
                    libraries.append(_text(content, table[link][4] + value))
        elif kind == _VERNEED:
            versions += _versions(content, offset, count, table[link][4])
    glibc = [tuple(map(int, found[1].split("."))) for name in versions if (found := re.fullmatch(r"GLIBC_(\d+(?:\.\d+)+)", name))]
    return Program(MACHINES[machine], _INTERPRETER not in kinds and not libraries, tuple(libraries), max(glibc, default=None))


def _versions(content, place, count, strings):
    """The names in a section of needed versions: for each library a list of its own."""
    for _ in range(count):
        _, names, _, first, following = struct.unpack_from("<HHIII", content, place)
        entry = place + first
        for _ in range(names):
            _, _, _, name, step = struct.unpack_from("<IHHII", content, entry)
            yield _text(content, strings + name)
            entry += step
        place += following


def _text(content, place):
    return content[place:content.index(b"\0", place)].decode()
