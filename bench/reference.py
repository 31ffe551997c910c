"""What a count of instructions is only comparable with."""

import platform
import re
import subprocess
from pathlib import Path


def made_with():
    """What the counts depend on besides the program."""
    def first_line(*command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return done.stdout.partition("\n")[0].strip()
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    # Of what valgrind shows of the processor, those by which libraries choose between versions of their code.
    shown = sorted({"avx2", "bmi2", "aes", "pclmulqdq"} & set(flags[1].split() if flags else []))
    return {
        "swift": first_line("swift", "--version"), "openssl": first_line("openssl", "version"), "glibc": platform.libc_ver()[1],
        "valgrind": first_line("valgrind", "--version"), "processor": " ".join(shown)}
