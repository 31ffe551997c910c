internal import CLinux

/// The C library's allocator, which all memory of the process comes from.
public enum Allocator {
    /// Gives memory that nobody uses back to the system. Takes some milliseconds for each 100 MiB; other threads wait
    /// meanwhile if they allocate from the part that is gone through.
    public static func giveBack() { _ = ag_malloc_trim(0) }
}
