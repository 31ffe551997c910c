internal import Foundation

/// A directory for the files of one test, removed with it. Its path is short: a socket's has at most 107 bytes.
public final class SocketDirectory: Sendable {
    public let path: String
    public var socket: String { "\(path)/admin.sock" }

    public init() throws {
        path = "/tmp/ag-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }
}
