internal import CLibevent

/// Which libevent this process runs with.
public enum LibeventVersion {
    /// As libevent says it, `2.1.12-stable`: of the library that was loaded.
    public static var text: String { event_get_version().map { String(cString: $0) } ?? "unknown" }
}
