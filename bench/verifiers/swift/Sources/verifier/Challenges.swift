import Crypto
import Foundation

/// 58 bytes: version, generation, time of issue, 16 random ones, HMAC-SHA-256 of all before; in base64url.
struct Challenges: Sendable {
    static let life: Int64 = 300
    /// How far clocks may be apart, in seconds.
    static let tolerance: Int64 = 60

    private let key: SymmetricKey

    init(secret: Data) {
        key = SymmetricKey(data: secret)
    }

    /// The value of Accept-Signature.
    func offer(now: Int64) -> String {
        #"attest=("@method" "@authority" "@path" "@query");created;nonce="\#(issue(now: now))";tag="attestgate-request""#
    }

    private func issue(now: Int64) -> String {
        var content = Data([1, 1])
        withUnsafeBytes(of: now.bigEndian) { content.append(contentsOf: $0) }
        SymmetricKey(size: .bits128).withUnsafeBytes { content.append(contentsOf: $0) }
        content.append(contentsOf: HMAC<SHA256>.authenticationCode(for: content, using: key))
        return content.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
            "=", with: "")
    }

    /// When a good one was issued.
    func issued(_ text: String, now: Int64) throws(Refusal) -> Int64 {
        guard text.utf8.count == 78, let content = Data(base64Encoded: Self.base64(text)), content.count == 58,
            content[0] == 1, content[1] == 1,
            HMAC<SHA256>.isValidAuthenticationCode(content[26...], authenticating: content[..<26], using: key)
        else { throw Refusal("challenge_required") }
        let issued = content[2..<10].reduce(Int64(0)) { $0 << 8 | Int64($1) }
        guard (-Self.tolerance..<Self.life).contains(now - issued) else { throw Refusal("challenge_required") }
        return issued
    }

    private static func base64(_ text: String) -> Data {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(80)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "-"): bytes.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): bytes.append(UInt8(ascii: "/"))
            // Not of this alphabet: made into what no base64 has.
            case UInt8(ascii: "+"), UInt8(ascii: "/"): bytes.append(0)
            default: bytes.append(byte)
            }
        }
        bytes.append(contentsOf: "==".utf8)
        return Data(bytes)
    }
}
