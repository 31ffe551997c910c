internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Lifecycle
internal import Registry

/// What `--version` says: which program this is, from which source, and which libraries it runs with.
enum BuildInformation {
    static var text: String {
        let rows = [
            ["commit", SourceRevision.text ?? "unknown: built from a working tree"],
            ["Swift", SourceRevision.swift ?? "unknown: \(language) or later"],
            ["OpenSSL", OpenSSLVersion.text],
            ["libevent", LibeventVersion.text],
            ["nghttp2", NGHTTP2Version.text],
            ["SQLite", StoreVersions.sqlite],
            ["libpq", StoreVersions.libpq],
        ]
        return (["attestgate \(GatewayVersion.text)"] + Columns.aligned(rows)).joined(separator: "\n")
    }

    private static var language: String {
        #if compiler(>=6.4)
            "6.4"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }
}
