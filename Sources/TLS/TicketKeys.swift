internal import COpenSSL
internal import Cryptography
internal import Glibc

/// The keys of encrypted session tickets, as one context of one worker uses them.
///
/// All processes that share a secret derive the same keys from it, new ones for each hour. A ticket is encrypted with the
/// key of its hour, and read within that hour, the next one, and the one before: a clock of another machine may be ahead.
final class TicketKeys {
    private struct Key {
        /// Identifies the key in a ticket.
        let name: [UInt8]
        /// For AES-256-CBC.
        let cipher: [UInt8]
        /// For HMAC-SHA-256.
        let code: [UInt8]

        init(_ secret: [UInt8], _ purpose: String, hour: Int64, _ library: LibraryContext) throws(CryptographyError) {
            let info = Array("attestgate session ticket \(purpose) \(hour)".utf8)
            let bytes = try KeyDerivation.hkdfSHA256(secret: secret.span, info: info.span, count: 80, library)
            name = Array(bytes[..<16])
            cipher = Array(bytes[16..<48])
            code = Array(bytes[48...])
        }
    }

    private static let secondsPerHour: Int64 = 3600

    private let sessions: SessionTable
    private let library: LibraryContext
    private let algorithm: OpaquePointer
    /// The time in seconds since 1970.
    private let clock: () -> Int64
    /// The hour and the version of the secrets of the keys.
    private var made: (hour: Int64, version: Int)?
    /// The one that encrypts comes first.
    private var keys: [Key] = []

    init(
        _ sessions: SessionTable, _ library: LibraryContext, clock: @escaping () -> Int64 = { Int64(time(nil)) }
    ) throws(CryptographyError) {
        ERR_clear_error()
        guard let algorithm = EVP_CIPHER_fetch(library.pointer, "AES-256-CBC", nil) else {
            throw .fromQueue(doing: "fetch the cipher of session tickets")
        }
        self.algorithm = algorithm
        self.sessions = sessions
        self.library = library
        self.clock = clock
    }

    deinit {
        EVP_CIPHER_free(algorithm)
    }

    /// Derives the keys of the present hour, unless they are there.
    ///
    /// - Returns: whether there is a key to encrypt with.
    func prepare() -> Bool {
        let (hour, version) = (clock() / Self.secondsPerHour, sessions.secretsVersion)
        if let made, made == (hour, version) { return !keys.isEmpty }
        (keys, made) = ([], nil)
        do {
            let keys = try sessions.secrets.flatMap { secret in
                try [hour, hour - 1, hour + 1].map { try Key(secret, sessions.purpose, hour: $0, library) }
            }
            (self.keys, made) = (keys, (hour, version))
        } catch {
            // Without keys, clients make full handshakes. The next one tries again.
        }
        return !keys.isEmpty
    }

    /// Prepares OpenSSL's contexts to encrypt a ticket.
    ///
    /// - Parameters:
    ///   - name: receives the 16 bytes of the key's name.
    ///   - start: receives 16 unpredictable bytes, with which the cipher starts.
    /// - Returns: false on a failure, which ends the connection.
    func encrypt(
        _ name: UnsafeMutablePointer<UInt8>, _ start: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer,
        _ code: OpaquePointer
    ) -> Bool {
        guard prepare(), let key = keys.first, RAND_bytes_ex(library.pointer, start, 16, 256) == 1 else { return false }
        for (place, byte) in key.name.enumerated() { name[place] = byte }
        return EVP_EncryptInit_ex2(cipher, algorithm, key.cipher, start, nil) == 1 && Self.set(key, code)
    }

    /// Prepares OpenSSL's contexts to check and decrypt a ticket.
    ///
    /// - Returns: nil if no key has the name; false on a failure.
    func decrypt(
        _ name: UnsafePointer<UInt8>, _ start: UnsafePointer<UInt8>, _ cipher: OpaquePointer, _ code: OpaquePointer
    ) -> Bool? {
        guard prepare() else { return nil }
        let asked = UnsafeBufferPointer(start: name, count: 16)
        guard let key = keys.first(where: { $0.name.elementsEqual(asked) }) else { return nil }
        return EVP_DecryptInit_ex2(cipher, algorithm, key.cipher, start, nil) == 1 && Self.set(key, code)
    }

    private static func set(_ key: Key, _ code: OpaquePointer) -> Bool {
        let parameters = [ag_param_digest_sha256(), OSSL_PARAM_construct_end()]
        return EVP_MAC_init(code, key.code, key.code.count, parameters) == 1
    }
}
