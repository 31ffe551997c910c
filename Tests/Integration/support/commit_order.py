"""What strace tells of the order in which a gateway makes counters durable and forwards requests."""

import re

LINE = re.compile(r"(?P<thread>\d+)\s+(?P<text>.*)")
# Room that the log is given ahead: zeros alone, between commits. It is no frame, and says nothing of the last commit.
ROOM = re.compile(r'"(\\0)+"')
CALLS = "trace=pwrite64,write,writev,send,sendto,sendmsg,fdatasync,fsync"


def completed_calls(trace):
    """(name, what strace wrote of it) of each call, in the order in which they began, and of each end of a sync."""
    begun = {}
    for line in trace.splitlines():
        match = LINE.match(line)
        thread, text = match["thread"], match["text"]
        if resumed := re.match(r"<\.\.\. (\w+) resumed>(.*)", text):
            name, rest = resumed[1], begun.pop(thread, "") + resumed[2]
            if name in ("fdatasync", "fsync"):
                yield name, rest
        elif unfinished := re.match(r"(\w+)(\(.*) <unfinished \.\.\.>", text):
            begun[thread] = unfinished[2]
            # What leaves counts from the moment it is handed over; a sync only once it has returned.
            if unfinished[1] not in ("fdatasync", "fsync"):
                yield unfinished[1], unfinished[2]
        elif whole := re.match(r"(\w+)(\(.*)", text):
            yield whole[1], whole[2]


def assert_synced_before_forwarded(trace, count, requests=('"GET /counted', '"POST /stream/counted')):
    """Between a request to the service and the one before it: a write to the log of the store, and its sync.

    - Parameter requests: how those that have counters begin, as strace writes it."""
    forwarded, is_written, is_synced = 0, False, False
    for name, text in completed_calls(trace):
        if name == "pwrite64" and "registry.sqlite-wal" in text:
            if ROOM.search(text):
                continue
            is_written, is_synced = True, False
        elif name in ("fdatasync", "fsync") and "registry.sqlite-wal" in text:
            assert text.endswith("= 0"), text
            is_synced = is_written
        elif any(request in text for request in requests):
            assert is_synced, f"request {forwarded} left before its counter was durable"
            forwarded, is_written, is_synced = forwarded + 1, False, False
    assert forwarded == count, f"{forwarded} of {count} requests are in the trace"
