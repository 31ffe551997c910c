internal import ArgumentParser
internal import Foundation

/// Content named on the command line.
enum RequestBody {
    /// - Parameter argument: DATA, or @FILE; a file goes as it is, line ends included (curl's `--data-binary`).
    static func read(_ argument: String) throws -> [UInt8] {
        argument.hasPrefix("@") ? try file(String(argument.dropFirst())) : Array(argument.utf8)
    }

    static func file(_ path: String) throws -> [UInt8] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ValidationError("cannot read \(path)")
        }
        return Array(data)
    }
}
