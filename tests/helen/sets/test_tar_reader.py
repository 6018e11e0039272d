"""Tests what is taken out of an archive that anybody may have written, and what is refused, by its name."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
import zlib

import pytest
from check_sets import archive, entry, packed, signed
from hypothesis import given
from hypothesis import strategies as st

from helen.sets.refused import SetRefused
from helen.sets.tar_reader import MOST_BYTES, read_tar
from helen.sets.tar_writer import tar_of

FILES = {"set.toml": b"x", "a.lua": b"return {}\n", "lib/b.lua": b""}


@pytest.mark.parametrize("top", ["", "./", "acme-shop/", "./acme-shop/"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_as_people_make_them(top: str, form: int) -> None:
    """An archive is read with one folder around all or none, packed or not, with folders as entries of their own."""
    plain = packed(FILES, top, form)
    assert read_tar(plain) == read_tar(gzip.compress(plain)) == FILES
    folder = entry(top or "./", tarfile.DIRTYPE)
    assert read_tar(archive((folder, b""), *((entry(top + n, content=c), c) for n, c in FILES.items()))) == FILES


def test_what_we_write_we_read() -> None:
    """An archive of ours is read again, and is the same each time."""
    files = signed()
    assert read_tar(tar_of(files, "acme-shop-1.0")) == files
    assert tar_of(files, "x") == tar_of(dict(reversed(files.items())), "x")
    with pytest.raises(SetRefused, match="more than 100 characters"):
        tar_of({"a" * 90 + ".lua": b""}, "acme-shop-1.0")


def _claimed(size: bytes, kind: bytes = b"0") -> bytes:
    """Return an archive whose header claims a size, with the right sum."""
    header = bytearray(archive((entry("a.lua"), b""))[:512])
    header[156:157] = kind
    header[124:136] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


def _pax(**headers: str) -> bytes:
    """Return an archive with a pax header before its one file."""
    info = entry("a.lua", content=b"1")
    info.pax_headers = headers
    return archive((info, b"1"), form=tarfile.PAX_FORMAT)


def _raw_pax(*contents: bytes) -> bytes:
    """Return an archive with pax headers of these bytes before its one file."""
    headers = [(entry("PaxHeader", tarfile.XHDTYPE, each), each) for each in contents]
    return archive(*headers, (entry("a.lua", content=b"1"), b"1"))


HOSTILE = {
    "a name with ..": (archive((entry("lib/../../a.lua"), b"")), "lib/../../a.lua leads out of the set's folder"),
    "nothing but ..": (archive((entry(".."), b"")), r"\.\. leads out"),
    "an absolute name": (archive((entry("/etc/cron.d/a.lua"), b"")), "/etc/cron.d/a.lua leads out"),
    "a symbolic link": (archive((entry("a.lua", tarfile.SYMTYPE, link="/etc/x"), b"")), "a.lua is a symbolic link"),
    "a hard link": (archive((entry("a.lua", tarfile.LNKTYPE, link="b.lua"), b"")), "a.lua is a hard link"),
    "a character device": (archive((entry("a.lua", tarfile.CHRTYPE), b"")), "a.lua is a device"),
    "a block device": (archive((entry("a.lua", tarfile.BLKTYPE), b"")), "a.lua is a device"),
    "a FIFO": (archive((entry("a.lua", tarfile.FIFOTYPE), b"")), "a.lua is a FIFO"),
    "a sparse file": (archive((entry("a.lua", tarfile.GNUTYPE_SPARSE), b"")), "a.lua is a sparse file"),
    "a sparse file of pax": (_pax(**{"GNU.sparse.realsize": "10737418240"}), "gives it 'GNU.sparse.realsize' apart"),
    "another name of pax": (_pax(path="../b.lua"), "leads out|gives it 'path' apart"),
    "digits alone in pax": (_raw_pax(b"1" * 4096), "PaxHeader: a header of the archive can't be read"),
    "no digits in pax": (_raw_pax(b"comment=x\n"), "a header of the archive can't be read"),
    "no field in pax": (_raw_pax(b"5 aa\n"), "a header of the archive can't be read"),
    "a record of pax without length": (_raw_pax(b"0 mtime=1\n"), "a header of the archive can't be read"),
    "a record of pax that is too long": (_raw_pax(b"99 mtime=1\n"), "a header of the archive can't be read"),
    "a record of pax that is too short": (_raw_pax(b"10 mtime=1\n"), "a header of the archive can't be read"),
    "a second record of pax": (_raw_pax(b"11 mtime=1\n10 path=b\n"), "gives it 'path' apart"),
    "a header of pax that is too large": (_raw_pax(b"4097 comment=" + b"x" * 4083 + b"\n"), "more than 4096 bytes"),
    "too many headers": (_raw_pax(*[b"11 mtime=1\n"] * 1501), "the archive has more than 1500 entries"),
    "too many folders": (archive(*[(entry("lib/", tarfile.DIRTYPE), b"")] * 1501), "more than 1500 entries"),
    "another size of pax": (_pax(size="99999999999"), "gives it 'size' apart"),
    "a long name of GNU": (
        archive((entry("a" * 120 + ".lua"), b""), form=tarfile.GNU_FORMAT), "a name of more than 100 characters"),
    "an unknown kind": (archive((entry("a.lua", b"Z"), b"")), "a.lua is of an unknown kind"),
    "10 GiB by claim": (_claimed(b"\x80\0\0\0\0\0\0\2\x80\0\0\0"), "is it 8 GiB or more"),
    "8 GiB less a byte": (_claimed(b"77777777777\0"), "a.lua: the archive ends in the middle of it"),
    "a negative size": (_claimed(b"-0000000001\0"), "a number in the archive can't be read"),
    "a folder with content": (_claimed(b"00000000001\0", b"5"), "a.lua is a folder with content"),
    "twice": (archive((entry("a.lua"), b""), (entry("./a.lua"), b"")), "a.lua is twice in the archive"),
    "too many": (archive(*((entry(f"a{n}.lua"), b"") for n in range(501))), "more than 500 files"),
    "too large a file": (packed({"a.lua": bytes(1024 * 1024 + 1)}), "a.lua has more than 1048576 bytes"),
    "too large": (packed({f"a{n}.lua": bytes(1024 * 1024) for n in range(9)}), f"more than {MOST_BYTES} bytes"),
    "no archive": (b"MZ" + bytes(4000), "no tar archive, or it is damaged"),
    "nothing": (b"", "no tar archive, or an empty one"),
    "zeros": (bytes(10240), "no tar archive, or an empty one"),
    "a letter that is none": (archive((entry("\u00e4.lua"), b"")), "names in a set are ASCII"),
    "cut gzip": (gzip.compress(packed(FILES))[:-9], "it is cut, or more than one archive"),
    "two in one": (gzip.compress(packed(FILES)) * 2, "it is cut, or more than one archive"),
    "broken gzip": (b"\x1f\x8b\x08\x00" + b"\xff" * 600, "can't be unpacked"),
}  # fmt: skip


def test_headers_of_pax() -> None:
    """Times and comments are read by their length, as a comment may have lines that look like records."""
    assert read_tar(_raw_pax(b"11 mtime=1\n11 ctime=2\n", b"30 comment=x\n99 path=../b.lua\n")) == {"a.lua": b"1"}
    time = b"11 mtime=1\n"
    many = [each for n in range(500) for each in ((entry("x", tarfile.XHDTYPE, time), time), (entry(f"a{n}.lua"), b""))]
    assert len(read_tar(archive(*many))) == 500


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives(kind: str) -> None:
    content, sentence = HOSTILE[kind]
    with pytest.raises(SetRefused, match=sentence):
        read_tar(content)


def test_a_bomb_takes_no_memory() -> None:
    """10 GiB of zeros in an archive of 10 MiB are refused after the first 8 MiB of them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = io.BytesIO()
    block = packer.compress(bytes(4 * 1024 * 1024))
    head.write(block)
    for _ in range(6):  # 28 MiB; zlib stops at the bound, whatever comes behind
        head.write(packer.compress(bytes(4 * 1024 * 1024)))
    bomb = head.getvalue() + packer.flush()
    tracemalloc.start()
    try:
        with pytest.raises(SetRefused, match=f"more than {MOST_BYTES} bytes"):
            read_tar(bomb)
        assert tracemalloc.get_traced_memory()[1] < 3 * MOST_BYTES
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=2048))
def test_noise(noise: bytes) -> None:
    """Nothing but the declared error comes out."""
    for content in (noise, b"\x1f\x8b" + noise, packed(FILES)[:300] + noise, _claimed(b"00000000400\0")[:512] + noise):
        try:
            read_tar(content)
        except SetRefused as error:
            assert str(error)
