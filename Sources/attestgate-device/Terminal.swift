internal import Foundation

/// What people and scripts read.
enum Terminal {
    /// To standard error, in one line with the program's name.
    static func say(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("attestgate-device: \(text)\n".utf8))
    }

    /// To standard output, byte for byte.
    ///
    /// - Returns: false if nobody reads it any more.
    @discardableResult
    static func put(_ bytes: some DataProtocol) -> Bool {
        do {
            try FileHandle.standardOutput.write(contentsOf: bytes)
            return true
        } catch {
            return false
        }
    }

    static func put(line: String) {
        put(Data((line + "\n").utf8))
    }
}
