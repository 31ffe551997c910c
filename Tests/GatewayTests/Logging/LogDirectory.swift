import Foundation

/// A directory for the logs of one test, removed with it.
final class LogDirectory: Sendable {
    let path: String
    var file: String { "\(path)/access.log" }

    init() throws {
        path = FileManager.default.temporaryDirectory.appending(path: "ag-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    /// - Parameter name: of a file; that of the log unless given.
    func lines(_ name: String = "access.log") throws -> [String] {
        let text = try String(contentsOfFile: "\(path)/\(name)", encoding: .utf8)
        return text.split(separator: "\n").map(String.init)
    }
}
