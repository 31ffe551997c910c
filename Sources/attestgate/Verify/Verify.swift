internal import ArgumentParser
internal import Attestation
internal import Cryptography
internal import Encoding
internal import Foundation

struct Verify: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Explain whether an attestation, assertion, receipt, Android key or token is accepted, and why not.",
        discussion: """
            Shows the result of each check and the likely cause of a refusal. FILE holds what the app sends, base64 \
            or binary; - is standard input. Exit status: 0 accepted, 1 refused, 2 usage error.
            """,
        subcommands: [
            VerifyAttestation.self, VerifyAssertion.self, VerifyReceipt.self, VerifyAndroidKey.self,
            VerifyPlayIntegrity.self, VerifyDeviceToken.self,
        ])
}

/// The common option of all commands.
struct VerifyOutput: ParsableArguments {
    @Flag(help: "Print one JSON object.")
    var json = false

    @Argument(
        help: ArgumentHelp("What the app sent: base64 or binary; - for standard input.", valueName: "FILE"),
        completion: .file())
    var file: String

    /// Prints the verdict and ends the command with its status.
    func finish(_ verdict: Verdict) throws {
        print(json ? verdict.json.text : verdict.text)
        guard verdict.isAccepted else { throw ExitCode.failure }
    }

    /// Reads the file.
    ///
    /// - Throws: wrong usage if the file cannot be read.
    func read(expecting first: [UInt8]) throws -> PastedInput {
        PastedInput(try read(), binaryBeginsWith: first)
    }

    /// Reads the file's bytes, at most 1 MiB.
    ///
    /// - Throws: wrong usage if the file cannot be read.
    func read() throws -> [UInt8] {
        guard let handle = file == "-" ? .standardInput : FileHandle(forReadingAtPath: file),
            // Far above all limits. A longer input is reported as too long.
            let data = try? handle.read(upToCount: 1 << 20) ?? Data()
        else { throw ValidationError("cannot read \(file)") }
        return Array(data)
    }
}

/// An argument with bytes in base64 of either alphabet. Its options take their value unconditionally, because base64url
/// may begin with a hyphen.
struct Base64Option: ExpressibleByArgument {
    let bytes: [UInt8]

    init?(argument: String) {
        guard let decoded = Base64Text(argument) else { return nil }
        bytes = decoded.bytes
    }
}

/// An argument with a time (RFC 3339).
struct TimeOption: ExpressibleByArgument {
    let time: InternetTime

    init?(argument: String) {
        guard let time = InternetTime(argument) else { return nil }
        self.time = time
    }

    static var now: Int64 { Int64(Date().timeIntervalSince1970) }
}

/// An argument with a P-256 key: its uncompressed point or SubjectPublicKeyInfo, in base64 or PEM.
struct PublicKeyOption: ExpressibleByArgument {
    private let argument: String

    init?(argument: String) { self.argument = argument }

    /// Returns the uncompressed point, 65 bytes.
    func point(_ library: LibraryContext) throws -> [UInt8] {
        if argument.contains("-----BEGIN"), let key = try? PublicKey(pem: Array(argument.utf8), library) {
            return try Self.point(of: key)
        }
        guard let bytes = Base64Text(argument)?.bytes else { throw ValidationError("--public-key is not base64") }
        switch bytes.count {
        case 65 where bytes[0] == 0x04:
            guard (try? P256VerificationKey(point: bytes.span, library)) != nil else {
                throw ValidationError("--public-key is not a P-256 point: a byte is wrong")
            }
            return bytes
        case 32: throw ValidationError("--public-key has 32 bytes: it is a key id, not a key")
        case 33: throw ValidationError("--public-key is a compressed point; use the 65 bytes that begin with 04")
        case 64: throw ValidationError("--public-key has 64 bytes: put 04 before the two coordinates")
        default:
            guard let key = try? PublicKey(der: bytes.span, library) else {
                throw ValidationError(
                    "--public-key is neither a 65-byte point nor a DER SubjectPublicKeyInfo; it has \(bytes.count) bytes"
                )
            }
            return try Self.point(of: key)
        }
    }

    private static func point(of key: PublicKey) throws -> [UInt8] {
        guard key.isP256, let point = key.uncompressedPoint, point.count == 65 else {
            throw ValidationError("--public-key is not on P-256")
        }
        return point
    }
}

/// The data that the app hashed, or the hash.
struct ClientData {
    let given: [UInt8]
    let isHash: Bool
    /// The hash for verification.
    let hash: [UInt8]

    init(_ data: Base64Option?, hash: Base64Option?, _ library: LibraryContext) throws {
        if let hash {
            (given, isHash, self.hash) = (hash.bytes, true, hash.bytes)
        } else {
            let bytes = data?.bytes ?? []
            (given, isHash) = (bytes, false)
            self.hash = try library.sha256(of: bytes.span).bytes
        }
    }
}

/// The bytes of an input, with remarks about its spelling.
struct PastedInput {
    let bytes: [UInt8]
    /// Remarks about faults, or about spellings that other readers may refuse. Empty if there are none.
    private(set) var notes: [String] = []

    /// Decodes an input.
    ///
    /// - Parameter binary: The possible first bytes of a binary file.
    init(_ content: [UInt8], binaryBeginsWith binary: [UInt8]) {
        guard let first = content.first else {
            bytes = []
            notes = ["The input is empty."]
            return
        }
        // No ASCII text begins with a byte of CBOR's maps. DER's SEQUENCE is the digit 0, which also occurs in base64.
        guard let text = String(validating: content, as: UTF8.self), first < 0x80, !Self.isDER(content, binary) else {
            bytes = content
            if !binary.contains(first) { notes = ["The input is neither base64 nor the expected binary form."] }
            return
        }
        (bytes, notes) = Self.decode(text)
    }

    private static func isDER(_ content: [UInt8], _ binary: [UInt8]) -> Bool {
        content.count > 1 && binary.contains(content[0]) && content[1] >= 0x80
    }

    private static func decode(_ pasted: String) -> (bytes: [UInt8], notes: [String]) {
        var notes: [String] = []
        var text = pasted.trimmed
        if text.hasPrefix("{") || text.hasPrefix("[") {
            notes.append("The input is JSON: paste only the member's value, without quotes.")
        }
        if text.count > 1, let quote = text.first, quote == "\"" || quote == "'", text.last == quote {
            text = String(text.dropFirst().dropLast())
        }
        if text.contains("\\/") || text.contains("\\n") {
            text = text.replacing("\\/", with: "/").replacing("\\n", with: "")
            notes.append("The input has JSON escapes (\\/ or \\n), which were decoded.")
        }
        if text.contains("%2B") || text.contains("%2F") || text.contains("%3D") {
            text = text.replacing("%2B", with: "+").replacing("%2F", with: "/").replacing("%3D", with: "=")
            notes.append("The input is percent-encoded, which was decoded.")
        }
        if let bytes = hexadecimal(text) {
            notes.append("The input is hexadecimal; apps send base64.")
            return (bytes, notes)
        }
        if let spaced = withPluses(text) {
            notes.append("The input has spaces in place of +: a form decoder changed them.")
            return (spaced, notes)
        }
        if let decoded = Base64Text(text) {
            if decoded.isURLAlphabet {
                notes.append("The input is base64url (- and _); a decoder for base64 (+ and /) cannot read it.")
            }
            return (decoded.bytes, notes)
        }
        // A text without its end is still decoded as far as possible.
        let whole = String(text.filter { !$0.isWhitespace && $0 != "=" })
        if whole.utf8.count % 4 == 1, let decoded = Base64Text(String(whole.dropLast())) {
            notes.append("The base64 has an impossible length: it was truncated, or a character is missing.")
            return (decoded.bytes, notes)
        }
        if notes.isEmpty { notes.append("The input is neither base64 nor CBOR.") }
        return (Array(pasted.utf8), notes)
    }

    /// Converts spaces back to the + that they were, unless they only divide the text into lines of one length.
    private static func withPluses(_ text: String) -> [UInt8]? {
        let pieces = text.split(separator: " ", omittingEmptySubsequences: false)
        guard pieces.count > 1, !text.contains(where: \.isNewline) else { return nil }
        guard !pieces.dropLast().allSatisfy({ $0.count == pieces[0].count }) else { return nil }
        let restored = pieces.joined(separator: "+")
        return Base64Text(restored)?.bytes
    }

    private static func hexadecimal(_ text: String) -> [UInt8]? {
        text.utf8.count > 64 ? Hexadecimal.decode(text.lowercased()) : nil
    }
}

extension String {
    /// The text without white space at its ends.
    var trimmed: String {
        let start = drop { $0.isWhitespace }
        return String(start.reversed().drop { $0.isWhitespace }.reversed())
    }
}

/// Lenient base64: with line breaks, with or without padding, in either alphabet (RFC 4648 sections 4 and 5).
struct Base64Text {
    let bytes: [UInt8]
    /// Whether the text contains `-` or `_`.
    let isURLAlphabet: Bool

    /// Decodes a text.
    ///
    /// - Returns: nil if characters or length are invalid.
    init?(_ text: String) {
        var characters = text.filter { !$0.isWhitespace }
        while characters.last == "=" { characters.removeLast() }
        isURLAlphabet = characters.contains("-") || characters.contains("_")
        let standard = characters.replacing("-", with: "+").replacing("_", with: "/")
        guard standard.utf8.count % 4 != 1 else { return nil }
        let padded = standard + String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
        guard let bytes = Base64.decode(padded, isCanonical: false) else { return nil }
        self.bytes = bytes
    }
}
