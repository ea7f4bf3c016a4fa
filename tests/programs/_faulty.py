"""A pair of `clients/checked.c` programs, and what both ends have achieved so far."""

import mmap
import struct
import subprocess
from pathlib import Path

from _bed import CLIENTS, expect, wait_until

CONNECTIONS, WORKERS, LONGEST = 16, 4, 16384
# As `struct progress` in checked.c.
FIELDS = {"port": (0, 1), "sent": (1, 2), "received": (3, 2), "rounds": (5, 1), "workers": (6, WORKERS)}
FIELDS_BYTES = 8 * (6 + WORKERS)
# A survivor that has not ended so long after its peer hangs.
LIMIT_S = 30


def compile_checked(folder):
    """The program; both ends of every pair run it."""
    binary = folder / "checked"
    source = CLIENTS / "checked.c"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-o", binary, source], check=True)
    return binary


class Pair:
    """Two programs with a connection (or several) between them: 0 connects, 1 listens."""

    def __init__(self, bed, binary, kind, under, seed, amount=0, roles=("connect", "listen")):
        self.path = bed.folder / "progress"
        self.path.write_bytes(bytes(FIELDS_BYTES))
        with open(self.path, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), FIELDS_BYTES)
        self.bed, self.ends = bed, []
        for number, role in enumerate(roles):
            words = [binary, self.path, role, kind, seed + number, amount]
            self.ends.append(bed.start(words, under, name=f"checked-{role}"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in self.ends:
            end.end()
        for worker in self.workers():
            wait_until("the family's end", lambda pid=worker: not Path(f"/proc/{pid}").exists())
        for end in self.ends:
            end.log.unlink()
        self.shared.close()

    def get(self, field):
        first, count = FIELDS[field]
        numbers = struct.unpack_from(f"={count}Q", self.shared, 8 * first)
        return numbers if count > 1 else numbers[0]

    def workers(self):
        return [pid for pid in self.get("workers") if pid]

    def wait_for_rounds(self, number):
        """Answers so far, at least `number`; fails if an end is gone before."""
        def reached():
            self.expect_running()
            return self.get("rounds") >= number
        wait_until(f"{number} rounds", reached, LIMIT_S)

    def wait_for_traffic(self):
        def flows():
            self.expect_running()
            return self.get("received")[1] or self.get("rounds")
        wait_until("traffic", flows)

    def expect_running(self):
        for end in self.ends:
            expect(end.running(), f"an end is gone with code {end.process.returncode}: {end.output()[-400:]}")

    def upgraded(self):
        return [self.bed.upgraded(end) for end in self.ends]

    def last_words(self, who):
        """What the survivor says of its connections, one line each."""
        survivor = self.ends[who]
        code = survivor.wait(LIMIT_S)
        output = survivor.output()
        expect(code == 0 and "BROKEN" not in output, f"the survivor ended with {code}: {output[-800:]}")
        return output.splitlines()
