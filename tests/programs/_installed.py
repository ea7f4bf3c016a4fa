"""Headers, libraries and pkg-config's files as the packages install them, and C programs compiled with them."""

from pathlib import Path
import subprocess

from _bed import LIBRARY, ROOT, expect

BUILT = Path(LIBRARY).parent
LIBRARIES = ["libnetmap.so", "libnetmap.a", "libmtcp.so", "libmtcp.a", "libringway.so"]
FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror"]
LANGUAGES = [("gcc", "c", "-std=c11"), ("gcc", "c", "-std=gnu99"), ("g++", "c++", "-std=c++17")]


def run(words, **options):
    words = list(map(str, words))
    done = subprocess.run(words, capture_output=True, text=True, **options)
    expect(done.returncode == 0, f"{' '.join(words)}: {done.stderr[-600:]}")
    return done.stdout


class Installed:
    """A tree in `folder`, and the flags that pkg-config makes of `package` there."""

    def __init__(self, folder, package):
        self.folder = folder
        (folder / "include").mkdir()
        (folder / "include/ringway").symlink_to(ROOT / "include")
        libraries = folder / "lib/ringway"
        libraries.mkdir(parents=True)
        for name in LIBRARIES:
            expect((BUILT / name).is_file(), f"no {name} beside {LIBRARY}")
            (libraries / name).symlink_to(BUILT / name)
        self.cflags = self.flags("--cflags", package)
        shared = self.flags("--libs", package)
        own = package.removeprefix("ringway-")
        static = [libraries / f"lib{own}.a" if flag == f"-l{own}" else flag for flag in shared]
        expect(static != shared, f"no -l{own} in {shared}")
        self.libraries = {"shared": shared, "static": static}

    def flags(self, what, package):
        file = ROOT / f"dist/pkgconfig/{package}.pc"
        return run(["pkg-config", f"--define-variable=prefix={self.folder}", what, file]).split()

    def compile(self, name, sources, libraries=()):
        program = self.folder / name
        run(["gcc", "-std=gnu11", *FLAGS, *self.cflags, "-o", program, *sources, *libraries])
        return program

    def headers_alone(self, report, headers, before=""):
        """Each header compiles by itself, also twice, in C and C++."""
        for header in headers:
            for compiler, language, standard in LANGUAGES:
                with report.test(f"{header} by {compiler} {standard}"):
                    text = f"{before}#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n"
                    run([compiler, standard, *FLAGS, *self.cflags, "-fsyntax-only", "-x", language, "-"], input=text)
