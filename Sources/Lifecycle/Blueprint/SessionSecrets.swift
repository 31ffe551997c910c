internal import Encoding
internal import GatewayConfiguration

/// The file of `session_secrets`: one or two lines of 64 hexadecimal digits. The first encrypts session tickets, both
/// decrypt.
enum SessionSecrets {
    /// Reads the file, which only its owner may read.
    static func read(_ path: String) throws(StartupError) -> [[UInt8]] {
        let bytes: [UInt8]
        do throws(FileContents.Failure) { bytes = try FileContents.readPrivate(path) } catch {
            throw failure(path, error.reason)
        }
        let lines = bytes.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") })
        let secrets = lines.compactMap { Hexadecimal.decode(String(decoding: $0, as: UTF8.self)) }
        guard (1...2).contains(lines.count), secrets.count == lines.count, secrets.allSatisfy({ $0.count == 32 }) else {
            throw failure(path, "it must have one or two lines of 64 hexadecimal digits")
        }
        return secrets
    }

    private static func failure(_ path: String, _ reason: String) -> StartupError {
        StartupError("session_secrets: \(path): \(reason)", of: .file(path))
    }
}
