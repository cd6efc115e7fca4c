"""Zstandard files as streams that notice when they were cut short."""

import io
from pathlib import Path
from typing import IO, Any, cast

from bertworks.core.optional import import_optional

# A bomb unfolds a thousandfold and more, so little is unfolded at once.
CHUNK_BYTES = 2048


def open_zstd(file: Path, mode: str = "rb") -> IO[bytes]:
    """Open a .zst file for reading; damage is an OSError, an early end an EOFError."""
    zstandard = import_optional("zstandard", extra="corpus", purpose=f"reading {file}")
    stream = _ZstdStream(file.open(mode), zstandard)
    return cast("IO[bytes]", io.BufferedReader(stream, buffer_size=1 << 17))


class _ZstdStream(io.RawIOBase):
    """The frames of a file, end to end."""

    def __init__(self, source: IO[bytes], zstandard: Any) -> None:
        self.source = source
        self.zstandard = zstandard
        self.frame: Any = None
        self.packed = b""
        self.waiting = memoryview(b"")

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the next unpacked bytes reach; 0 at the end."""
        while not self.waiting:
            self.packed = self.packed or self.source.read(CHUNK_BYTES)
            if not self.packed:
                if self.frame is not None:
                    raise EOFError("the compressed file ended in the middle of a frame")
                return 0
            self._unpack()
        count = min(len(buffer), len(self.waiting))
        buffer[:count] = self.waiting[:count]
        self.waiting = self.waiting[count:]
        return count

    def _unpack(self) -> None:
        self.frame = self.frame or self.zstandard.ZstdDecompressor().decompressobj()
        try:
            self.waiting = memoryview(self.frame.decompress(self.packed))
        except self.zstandard.ZstdError as error:
            raise OSError(f"damaged Zstandard data ({error})") from error
        self.packed = b""
        if self.frame.eof:
            self.packed, self.frame = self.frame.unused_data, None

    def close(self) -> None:
        """Close the file below as well."""
        self.source.close()
        super().close()
