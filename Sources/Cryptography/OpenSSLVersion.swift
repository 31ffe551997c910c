internal import COpenSSL

/// Which OpenSSL this process runs with.
public enum OpenSSLVersion {
    /// As OpenSSL says it, `3.0.17`: of the library that was loaded, not of the headers that were compiled with.
    public static var text: String {
        OpenSSL_version(OPENSSL_VERSION_STRING).map { String(cString: $0) } ?? "unknown"
    }
}
