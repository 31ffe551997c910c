internal import CLinux
internal import EventLoop
internal import Glibc

/// Wakes the loop at an exact instant.
///
/// The loop's own timers are as coarse as `epoll_wait`, one millisecond: late by more than most requests take. A timerfd
/// is late by the kernel's few microseconds.
final class ScheduleClock: SocketHandler {
    private let action: () -> Void

    init(loop: Loop, action: @escaping () -> Void) throws(EventLoopError) {
        self.action = action
        let descriptor = ag_timerfd_create(CLOCK_MONOTONIC, O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system(call: "timerfd_create", errno: errno) }
        super.init(loop: loop, socket: Socket(adopting: descriptor))
        wantRead(true)
    }

    /// Calls the action once at `instant`, or at once if that has passed.
    func set(_ instant: Instant) {
        // Zero would disarm the timer.
        let nanoseconds = max(1, instant.nanoseconds)
        var setting = itimerspec()
        setting.it_value = timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
        _ = ag_timerfd_settime(descriptor, Int32(ag_timerfd_absolute), &setting, nil)
    }

    override func readable() {
        var expirations: UInt64 = 0
        guard read(descriptor, &expirations, MemoryLayout<UInt64>.size) > 0 else { return }
        action()
    }
}
