package import Challenges
package import Cryptography
internal import Encoding
internal import Vocabulary

/// The secrets that all gateways of a store share, from the file that `registry.secret` names.
///
/// Each line has a word and hexadecimal digits; `#` begins a comment:
///
///     challenge 2 <64 digits>      signs challenges and verifies, encrypts session tickets and decrypts
///     challenge 1 <64 digits>      optional: the previous generation, verifies and decrypts only
///     pseudonyms <64 digits>       derives pseudonyms of devices; never changes
package struct GatewaySecrets: Sendable {
    package let current: ChallengeSecret
    package let previous: ChallengeSecret?
    /// The key material from which one key per purpose is derived.
    private let pseudonyms: [UInt8]

    private static let length = 32

    package init(parsing text: String) throws(Malformed) {
        var challenges: [ChallengeSecret] = []
        var pseudonyms: [UInt8]?
        for (number, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let words = line.split(whereSeparator: { $0 == " " || $0 == "\t" || $0 == "\r" })
            guard let name = words.first, !name.hasPrefix("#") else { continue }
            switch (name, words.count) {
            case ("challenge", 3):
                guard let generation = UInt8(words[1]), let bytes = Self.secret(words[2]),
                    let secret = ChallengeSecret(generation: generation, bytes: bytes)
                else { throw Malformed(line: number + 1) }
                challenges.append(secret)
            case ("pseudonyms", 2):
                guard pseudonyms == nil, let bytes = Self.secret(words[1]) else { throw Malformed(line: number + 1) }
                pseudonyms = bytes
            default: throw Malformed(line: number + 1)
            }
        }
        guard let pseudonyms, let current = challenges.first, challenges.count <= 2,
            challenges.count == 1 || challenges[1].generation != current.generation
        else { throw Malformed(line: nil) }
        self.current = current
        previous = challenges.count == 2 ? challenges[1] : nil
        self.pseudonyms = pseudonyms
    }

    private static func secret(_ text: Substring) -> [UInt8]? {
        guard let bytes = Hexadecimal.decode(text), bytes.count == length else { return nil }
        return bytes
    }

    /// The position of an error, without contents: the file has secrets.
    package struct Malformed: Error, Equatable {
        /// The line, from 1; nil if there are too few or too many lines.
        package let line: Int?
    }

    /// The secrets of session tickets: the current one, then the previous one. Their keys are derived from them.
    package var sessionSecrets: [[UInt8]] { [current, previous].compactMap { $0?.bytes } }

    /// Returns the text of a new file.
    package static func fresh(_ library: LibraryContext) throws(CryptographyError) -> String {
        """
        # Secrets of AttestGate: with them anyone can make challenges, resume TLS sessions as any client, and link devices
        # across services. All gateways that share a registry have the same file. To change the challenge secret, put a new
        # line with the next number above the old one; remove the old one when its challenges have expired, and its tickets,
        # which expire after an hour.
        challenge 1 \(Hexadecimal.encode(try library.randomBytes(length)))
        pseudonyms \(Hexadecimal.encode(try library.randomBytes(length)))

        """
    }

    /// Returns the key of the pseudonyms for one upstream: services that compare notes cannot link phones.
    func pseudonymKey(
        ofUpstream name: String, _ library: LibraryContext
    ) throws(CryptographyError) -> AuthenticationKey {
        try derivedKey("attestgate attest-device \(name)", library)
    }

    /// Returns the key by which a route chooses the devices on which it is enforced.
    func shareKey(ofRoute name: String, _ library: LibraryContext) throws(CryptographyError) -> AuthenticationKey {
        try derivedKey("attestgate enforced-share \(name)", library)
    }

    /// Returns the names of devices in logs.
    package func logNames(_ library: LibraryContext) throws(CryptographyError) -> DeviceLogNames {
        let key = try logSecret(library)
        return DeviceLogNames(try AuthenticationKey(key.span, library))
    }

    /// Returns the key of these names, 32 bytes, for use on another thread.
    package func logSecret(_ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        try derivedBytes("attestgate log-device", library)
    }

    /// Returns the key of the pseudonyms of subjects in the registry: 32 bytes.
    package func subjectKey(_ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        try derivedBytes("attestgate subject", library)
    }

    /// Returns the key of the pseudonyms of people in device tokens: 32 bytes.
    package func deviceTokenKey(_ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        try derivedBytes("attestgate device-token", library)
    }

    /// Returns the key of the pseudonyms of people at services of the federation: 32 bytes.
    package func federationKey(_ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        try derivedBytes("attestgate federation", library)
    }

    /// Returns what a registry keeps of the secret, 32 bytes, from which nothing else can be derived. It does not
    /// depend on the challenge secrets, which change.
    package func check(_ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        try derivedBytes("attestgate registry check", library)
    }

    /// Returns the pseudonyms of subjects in the registry.
    package func subjects(_ library: LibraryContext) throws(CryptographyError) -> SubjectPseudonyms {
        let key = try subjectKey(library)
        return SubjectPseudonyms(try AuthenticationKey(key.span, library))
    }

    private func derivedKey(
        _ purpose: String, _ library: LibraryContext
    ) throws(CryptographyError) -> AuthenticationKey {
        let key = try derivedBytes(purpose, library)
        return try AuthenticationKey(key.span, library)
    }

    private func derivedBytes(_ purpose: String, _ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        let info = Array(purpose.utf8)
        return try KeyDerivation.hkdfSHA256(secret: pseudonyms.span, info: info.span, count: 32, library)
    }
}
