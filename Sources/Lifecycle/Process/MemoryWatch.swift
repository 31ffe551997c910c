internal import Bytes
internal import EventLoop
internal import Glibc
internal import Logging
internal import Telemetry

/// Holds the process to its memory budget: measures the resident memory, returns free memory to the system, and logs
/// shortages.
final class MemoryWatch {
    let budget: MemoryBudget
    private let loop: Loop
    private let logger: Logger
    private var timer: LoopTimer?
    /// Resident bytes not accounted for when free memory was last returned: the program, caches, the registry's
    /// records, and what connections take beyond their estimate.
    private var settled = Int.max
    private var lastReturn = Instant.now
    private var lastLine: Instant?
    private var reported = [Int](repeating: 0, count: MemoryBudget.Action.allCases.count)

    private static let interval = TimeSpan.milliseconds(250)
    /// Returning memory takes milliseconds, so it waits for this much.
    private static let worthReturning = 4 << 20

    init(limit: Int, loop: Loop, _ logger: Logger) {
        budget = MemoryBudget(limit: limit)
        self.loop = loop
        self.logger = logger
        timer = LoopTimer(loop: loop, interval: Self.interval, repeats: true) { [unowned self] in look() }
    }

    private func look() {
        guard var resident = ProcessMemory.now?.resident else { return }
        let other = resident - budget.accounted
        settled = min(settled, other)
        let spacing = budget.pressure > .none ? TimeSpan.seconds(1) : .seconds(5)
        if other > settled + Self.worthReturning, loop.now - lastReturn >= spacing {
            Allocator.giveBack()
            resident = ProcessMemory.now?.resident ?? resident
            settled = resident - budget.accounted
            lastReturn = .now
        }
        budget.measured(resident: resident)
        report()
    }

    /// At most once a second.
    private func report() {
        let pressure = budget.pressure
        let counts = MemoryBudget.Action.allCases.map(budget.count(of:))
        guard pressure > .none || counts != reported || lastLine != nil else { return }
        if let lastLine, loop.now - lastLine < .seconds(1) { return }
        let state = "\(budget.used >> 20) MiB of limits.memory (\(budget.limit >> 20) MiB) are in use"
        if pressure == .none, counts == reported {
            logger.notice("memory: \(state): enough again")
            lastLine = nil
            return
        }
        let since = zip(counts, reported).map { $0 - $1 }
        logger.warning(
            """
            memory: \(state): reading paused on \(since[0]) connections, \(since[1]) streams refused, \
            \(since[2]) connections closed, \(since[3]) connections refused
            """)
        lastLine = loop.now
        reported = counts
    }

    var families: [MetricFamily] {
        var used = MetricFamily(
            .gauge, "attestgate_memory_used_bytes",
            "Memory in use: buffers and connections as accounted for, and the rest of the resident memory.")
        used.add(budget.accounted, ["kind": "accounted"])
        used.add(budget.other, ["kind": "other"])
        var actions = MetricFamily(
            .counter, "attestgate_memory_actions_total", "Actions taken because memory was short.")
        for action in MemoryBudget.Action.allCases { actions.add(budget.count(of: action), ["action": action.name]) }
        return [
            MetricFamily(.gauge, "attestgate_memory_limit_bytes", "The memory budget of the process.", budget.limit),
            used,
            MetricFamily(
                .gauge, "attestgate_memory_pressure",
                "Pressure on the memory budget: 0 none, 1 pauses reading, 2 refuses streams, 3 closes connections, "
                    + "4 refuses connections.", budget.pressure.rawValue),
            actions,
        ]
    }
}

/// The memory of the process as the kernel reports it, and the available memory.
enum ProcessMemory {
    /// The virtual and resident memory in bytes. `/proc/self/statm` (proc(5)) has it in pages.
    static var now: (virtual: Int, resident: Int)? {
        guard let bytes = try? FileContents.read("/proc/self/statm") else { return nil }
        let pages = String(decoding: bytes, as: UTF8.self).split(separator: " ").prefix(2).compactMap { Int($0) }
        guard pages.count == 2 else { return nil }
        let size = Int(sysconf(Int32(_SC_PAGESIZE)))
        return (pages[0] * size, pages[1] * size)
    }

    /// The budget if the conf file sets none: the limit of the process's control group less a reserve; without such a
    /// limit half of the machine's memory. Computed once, before the sandbox makes those files inaccessible.
    static let share: Int = {
        let machine = Int(sysconf(Int32(_SC_PHYS_PAGES))) * Int(sysconf(Int32(_SC_PAGESIZE)))
        guard let allowed = controlGroupLimit, allowed < machine else { return machine / 2 }
        return max(smallest, allowed - max(reserve, allowed / 8))
    }()

    /// What the process may briefly use beyond the budget: bytes that arrive before the next measurement, and the
    /// kernel's buffers.
    private static let reserve = 64 << 20
    private static let smallest = 64 << 20

    /// The lowest limit of the control group and its parents (cgroups(7), version 2); nil without one.
    private static var controlGroupLimit: Int? {
        guard let bytes = try? FileContents.read("/proc/self/cgroup") else { return nil }
        let line = String(decoding: bytes, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("0::") }
        guard let path = line?.dropFirst(3) else { return nil }
        var group = path.split(separator: "/")
        var limits: [Int] = []
        while true {
            let file = "/sys/fs/cgroup/" + group.map { "\($0)/" }.joined() + "memory.max"
            if let text = try? FileContents.read(file),
                let limit = Int(String(decoding: text, as: UTF8.self).prefix { $0.isNumber })
            {
                limits.append(limit)
            }
            guard group.popLast() != nil else { return limits.min() }
        }
    }

    /// Address space that a thread may map: its stack, and a heap of the allocator.
    private static let perThread = 72 << 20
    /// Threads beside the workers.
    private static let otherThreads = 6

    /// Returns the budget of a process.
    ///
    /// - Parameters:
    ///   - configured: `limits.memory`; nil for the share.
    ///   - workers: The number of workers to start.
    /// - Throws: If the limit of the address space (`RLIMIT_AS`, `ulimit -v`) is too low: the process would fail
    ///   while it serves.
    static func budget(_ configured: Int?, workers: Int) throws(StartupError) -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0, limit.rlim_cur < rlim_t(Int.max) else {
            return configured ?? share
        }
        let fixed = (now?.virtual ?? 0) + (workers + otherThreads) * perThread
        let room = Int(limit.rlim_cur) - fixed
        let wanted = configured ?? smallest
        guard room >= wanted else {
            throw StartupError(
                """
                the address space is limited to \(Int(limit.rlim_cur) >> 20) MiB, but threads and the program take \
                \(fixed >> 20) MiB and limits.memory \(wanted >> 20) MiB: raise the limit (LimitAS= of the unit, \
                ulimit -v), or set MemoryMax= instead
                """)
        }
        return configured ?? min(share, room)
    }
}
