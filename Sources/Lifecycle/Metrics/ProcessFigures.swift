internal import Glibc
internal import Metrics

/// What the kernel says of this process, under the names that Prometheus' client libraries use.
enum ProcessFigures {
    /// - Parameter startedAt: in seconds since 1970.
    static func families(startedAt: Int64) -> [MetricFamily] {
        var families = [
            MetricFamily(
                .gauge, "process_start_time_seconds", "Start of the process, in seconds since 1970.", startedAt)
        ]
        var cpu = MetricFamily(
            .counter, "process_cpu_seconds_total", "CPU time used, user and system, in seconds.")
        cpu.add(seconds: cpuSeconds)
        families.append(cpu)
        if let (virtual, resident) = ProcessMemory.now {
            families.append(MetricFamily(.gauge, "process_virtual_memory_bytes", "Virtual memory.", virtual))
            families.append(
                MetricFamily(.gauge, "process_resident_memory_bytes", "Resident memory, in bytes.", resident))
        }
        if let open = openDescriptors {
            families.append(MetricFamily(.gauge, "process_open_fds", "Open file descriptors.", open))
        }
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            families.append(
                MetricFamily(
                    .gauge, "process_max_fds", "Maximum number of open file descriptors.", UInt64(limit.rlim_cur)))
        }
        return families
    }

    private static var cpuSeconds: Double {
        var usage = rusage()
        guard getrusage(RUSAGE_SELF.rawValue, &usage) == 0 else { return 0 }
        return [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1_000_000 }
    }

    private static var openDescriptors: Int? {
        guard let directory = opendir("/proc/self/fd") else { return nil }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Without `.`, `..` and the one that reads them.
        return count - 3
    }
}
