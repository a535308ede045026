"""A build with CUDA holds machine code for every generation of GPUs that we name, and one intermediate code for
later ones. Called with the paths of programs."""

import struct
import sys

EXPECTED = {("PTX", 80), ("SASS", 80), ("SASS", 90), ("SASS", 100), ("SASS", 120)}
KINDS = {1: "PTX", 2: "SASS"}
FAT_BINARY = 0xBA55ED50


def sections(elf):
    """The names and bytes of the sections of a 64-bit ELF file."""
    assert elf[:5] == b"\x7fELF\x02", "no 64-bit program"
    table, size, count, names = struct.unpack_from("<Q", elf, 40) + struct.unpack_from("<3H", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + number * size) for number in range(count)]
    for at, _, _, _, offset, length in headers:
        name = headers[names][4] + at
        yield elf[name : elf.index(b"\0", name)].decode(), elf[offset : offset + length]


def section(program, name):
    """The bytes of a section of a program; none: empty."""
    with open(program, "rb") as file:
        return dict(sections(file.read())).get(name, b"")


def fat_binaries(data):
    """What each of them holds: kinds, architectures and codes; there is one for every compiled file."""
    at = 0
    while at + 16 <= len(data):
        magic, _, header, length = struct.unpack_from("<IHHQ", data, at)
        if magic != FAT_BINARY:
            assert data[at : at + 8] == bytes(8), f"byte {at} of the fat binaries is of an unknown form"
            at += 8  # between two of them
            continue
        found, entry, at = [], at + header, at + header + length
        while entry < at:
            kind, _, header, length = struct.unpack_from("<HHIQ", data, entry)
            entry, code = entry + header + length, entry + header
            found.append((kind, struct.unpack_from("<I", data, code - header + 28)[0], data[code:entry]))
        yield found


def main(programs):
    for program in programs:
        all_found = [[(KINDS.get(kind, f"kind {kind}"), architecture) for kind, architecture, _ in each]
                     for each in fat_binaries(section(program, ".nv_fatbin"))]
        assert all_found, f"{program} holds no code for GPUs"
        for found in all_found:
            assert sorted(found) == sorted(EXPECTED), f"{program} holds {sorted(found)}, expected {sorted(EXPECTED)}"
        print(f"{program}: {len(all_found)} times {sorted(EXPECTED)}")


if __name__ == "__main__":
    main(sys.argv[1:])
