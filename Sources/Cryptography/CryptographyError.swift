internal import COpenSSL

/// An OpenSSL call failed, or what it was given is not what it should be.
public struct CryptographyError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What was attempted, in words: "read the certificate in server.pem".
    public let doing: String
    /// OpenSSL's reasons, the innermost last; empty if the fault was found here.
    public let reasons: [String]

    public init(doing: String, reasons: [String] = []) {
        self.doing = doing
        self.reasons = reasons
    }

    /// Empties OpenSSL's error queue of this thread into a value. The queue must have been cleared before the call that
    /// failed, or it tells of older failures.
    package static func fromQueue(doing: String) -> CryptographyError {
        var reasons: [String] = []
        while true {
            let code = ERR_get_error()
            guard code != 0 else { break }
            reasons.append(ERR_reason_error_string(code).map { String(cString: $0) } ?? "code \(code)")
        }
        return CryptographyError(doing: doing, reasons: reasons)
    }

    public var description: String {
        reasons.isEmpty ? "cannot \(doing)" : "cannot \(doing): \(reasons.joined(separator: "; "))"
    }
}
