"""What the gateway allocates it frees, or still refers to at its end. `bench/leaks` asks the release, for longer."""

import pytest

from support import leaks

if not leaks.installed():
    pytest.skip("valgrind or strip is not installed", allow_module_level=True)


def test_no_memory_is_leaked_and_no_freed_memory_is_used(pki, own_upstream, tmp_path):
    with leaks.Watched(tmp_path) as watched:
        leaks.serve(tmp_path, pki, own_upstream)
    report, = watched.reports
    assert (leaks.lost(report), leaks.faults(report)) == (0, 0), report


REPORT = """
==7== HEAP SUMMARY:
==7==     in use at exit: 10 bytes in 1 blocks
==7== LEAK SUMMARY:
==7==    definitely lost: 1,234 bytes in 1 blocks
==7==    indirectly lost: 0 bytes in 0 blocks
==7== ERROR SUMMARY: 1 errors from 1 contexts (suppressed: 0 from 0)
"""


def test_valgrinds_leak_report_is_parsed():
    assert (leaks.lost(REPORT), leaks.faults(REPORT)) == (1234, 1)
    empty = "==7== posix_memalign() invalid size value: 0\n==7==    at 0x484C9C8: posix_memalign (vg_replace_malloc.c:2226)\n"
    more = REPORT.replace("1 errors from 1 contexts", "21 errors from 2 contexts")
    assert (leaks.faults(empty + more), leaks.faults(more)) == (1, 2)
