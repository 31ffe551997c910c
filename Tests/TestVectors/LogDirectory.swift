internal import Foundation

/// A directory for the logs of one test, removed with it.
public final class LogDirectory: Sendable {
    public let path: String
    public var file: String { "\(path)/access.log" }

    public init() throws {
        path = FileManager.default.temporaryDirectory.appending(path: "ag-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    /// - Parameter name: of a file; that of the log unless given.
    public func lines(_ name: String = "access.log") throws -> [String] {
        let text = try String(contentsOfFile: "\(path)/\(name)", encoding: .utf8)
        return text.split(separator: "\n").map(String.init)
    }
}
