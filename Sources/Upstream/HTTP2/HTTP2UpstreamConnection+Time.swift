internal import Bytes
internal import EventLoop
internal import HTTP

/// Until when the server is waited for, and how long a connection that nobody uses is kept.
extension HTTP2UpstreamConnection {
    func judgeTime() {
        let now = loop.now
        if let outputEnd, outputEnd <= now { return lose(.responseTimeout) }
        // Backwards: one that is overdue leaves the array.
        for slot in active.indices.reversed() where slot < active.count { active[slot].judge(now: now) }
        if let shutEnd, shutEnd <= now { retire() }
        if isIdle, let idleEnd, idleEnd <= now { return retire() }
        wait(until: outputEnd)
        if !isRetired { wait(until: shutEnd) }
        if isIdle { wait(until: idleEnd) }
        for stream in active { wait(until: stream.end) }
    }

    /// To be called when nothing more can be framed.
    func measureWindow() {
        guard isWindowShut, !isRetired else { return shutEnd = nil }
        guard shutEnd == nil else { return }
        shutEnd = loop.now + TimeSpan(nanoseconds: responseTimeout.nanoseconds / 2)
        wait(until: shutEnd)
    }

    func beginIdleness() {
        guard !isIdle else { return }
        isIdle = true
        idleEnd = loop.now + idleTimeout
        wait(until: idleEnd)
        input.releaseIfEmpty()
        output.releaseIfEmpty()
        pool.becameIdle(self)
    }

    func endIdleness() {
        isIdle = false
        idleEnd = nil
        pool.leftIdleness()
    }

    /// Whether an idle connection is still there: its server may have ended it, which the loop may not have seen yet.
    func isThere() -> Bool {
        guard isIdle else { return true }
        work { receiveAll() }
        return isOpen && hasRoom
    }
}
