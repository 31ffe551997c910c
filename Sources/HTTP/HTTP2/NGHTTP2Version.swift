internal import CNghttp2

/// Which nghttp2 this process runs with.
public enum NGHTTP2Version {
    /// As nghttp2 says it, `1.52.0`: of the library that was loaded.
    public static var text: String {
        // Asked for no least version, it answers with a record of its own that lives as long as the process.
        guard let record = unsafe nghttp2_version(0) else { return "unknown" }
        return unsafe String(cString: record.pointee.version_str)
    }
}
