internal import COpenSSL

/// A memory BIO of OpenSSL, for reading and writing PEM.
struct MemoryBIO: ~Copyable {
    let pointer: OpaquePointer

    /// Creates an empty one for writing.
    init() {
        // Fails only if memory is exhausted, which also ends the process in Swift's own allocations.
        guard let pointer = BIO_new(BIO_s_mem()) else { fatalError("out of memory: BIO_new") }
        self.pointer = pointer
    }

    /// Creates one for reading a copy of `bytes`.
    init(reading bytes: [UInt8]) {
        self.init()
        // Fails only if memory is exhausted, or above Int32.max bytes, far more than any PEM file.
        let written = BIO_write(pointer, bytes, Int32(bytes.count))
        precondition(written == Int32(bytes.count) || bytes.isEmpty, "out of memory: BIO_write")
    }

    deinit {
        BIO_free_all(pointer)
    }

    /// The bytes written.
    var bytes: [UInt8] {
        var data: UnsafeMutablePointer<CChar>?
        let count = ag_bio_get_mem_data(pointer, &data)
        guard let data, count > 0 else { return [] }
        return data.withMemoryRebound(to: UInt8.self, capacity: Int(count)) {
            Array(UnsafeBufferPointer(start: $0, count: Int(count)))
        }
    }
}

/// The kind of content in a file that could not be read as expected. Files with certificates, keys and lists are easily
/// confused.
enum FileDiagnosis {
    /// Returns a suffix for an error message, such as "; it holds a private key". Empty if the content is unknown.
    static func hint(_ file: [UInt8], _ context: LibraryContext) -> String {
        guard !isOnOneLine(file) else { return lostLines }
        let labels = self.labels(in: file)
        guard labels.isEmpty else {
            var kinds: [String] = []
            for label in labels {
                let kind = name(of: label)
                if !kinds.contains(kind) { kinds.append(kind) }
            }
            return "; it holds \(kinds.prefix(3).joined(separator: " and "))"
        }
        return binary(file, context).map { "; it is \($0)" } ?? ""
    }

    /// Returns a suffix for an error message about a PEM text that is incomplete.
    static func cut(_ file: [UInt8]) -> String {
        guard !isOnOneLine(file) else { return lostLines }
        let text = String(decoding: file, as: UTF8.self)
        let isCut = text.ranges(of: "-----END ").count < text.ranges(of: begin).count
        return isCut ? "; an END line is missing: the file is truncated" : ""
    }

    /// Returns a suffix for an error message about a PEM text whose label contradicts its content.
    static func mislabelled(_ file: [UInt8], _ context: LibraryContext) -> String {
        guard let kind = firstBlock(of: file).flatMap({ kind(of: $0, context) }) else { return "" }
        switch (holdsPrivateKey(file), kind) {
        case (true, .certificate): return "; the block labelled private key is a certificate"
        case (false, .privateKey): return "; the block labelled certificate is a private key"
        default: return ""
        }
    }

    /// Returns whether a PEM label announces a private key. The content is not examined.
    static func holdsPrivateKey(_ file: [UInt8]) -> Bool {
        labels(in: file).contains { $0.hasSuffix("PRIVATE KEY") && $0 != "OPENSSH PRIVATE KEY" }
    }

    private static let begin = "-----BEGIN "
    private static let lostLines =
        "; its line ends are lost: copy the file itself, or put the BEGIN line, every 64 characters and the END line on "
        + "lines of their own"

    /// Returns whether anything follows a BEGIN line on the same line, as when a PEM text was kept in a variable.
    private static func isOnOneLine(_ file: [UInt8]) -> Bool {
        String(decoding: file, as: UTF8.self).split(whereSeparator: \.isNewline).contains { line in
            guard let start = line.firstRange(of: begin), let end = line[start.upperBound...].firstRange(of: "-----")
            else { return false }
            return line[end.upperBound...].contains { !$0.isWhitespace }
        }
    }

    /// Returns the labels of a PEM text (RFC 7468 section 3), in order.
    private static func labels(in file: [UInt8]) -> [Substring] {
        String(decoding: file, as: UTF8.self).split(separator: "\n").compactMap { line in
            guard line.hasPrefix(begin), let end = line.dropFirst(begin.count).firstRange(of: "-----") else {
                return nil
            }
            return line[line.index(line.startIndex, offsetBy: begin.count)..<end.lowerBound]
        }
    }

    private static func name(of label: Substring) -> String {
        switch label {
        case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE": "a certificate"
        case "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST": "a request for a certificate, not the certificate"
        case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY": "a private key"
        case "ENCRYPTED PRIVATE KEY": "an encrypted private key"
        case "OPENSSH PRIVATE KEY":
            "a private key in OpenSSH format: convert it with `ssh-keygen -p -m PKCS8 -f FILE`"
        case "PUBLIC KEY", "RSA PUBLIC KEY": "a public key"
        case "X509 CRL": "a revocation list"
        case "PKCS7", "CMS": "a PKCS #7 bundle: extract its certificates with `openssl pkcs7 -print_certs`"
        default: "\(label.prefix(40)), which is not supported"
        }
    }

    private enum Kind {
        case certificate, privateKey, bundle, other
    }

    /// Returns the kind of a DER encoding. All known kinds are sequences (X.690 section 8.1).
    private static func kind(of file: [UInt8], _ context: LibraryContext) -> Kind? {
        guard file.count > 8, file[0] == 0x30 else { return nil }
        let start = file[1] < 0x80 ? 2 : 2 + Int(file[1] & 0x7F)
        guard start + 3 <= file.count else { return nil }
        switch (file[start], file[start + 1], file[start + 2]) {
        case (0x02, 0x01, 0x03): return .bundle
        case (0x02, 0x01, 0x00), (0x02, 0x01, 0x01): return .privateKey
        default: return (try? Certificate(der: file.span, context)) != nil ? .certificate : .other
        }
    }

    private static func binary(_ file: [UInt8], _ context: LibraryContext) -> String? {
        switch kind(of: file, context) {
        case nil: nil
        case .bundle: "PKCS #12: convert it to PEM with `openssl pkcs12 -nodes`"
        case .privateKey: "a private key in DER: convert it to PEM with `openssl pkey -inform DER`"
        case .certificate: "a certificate in DER: convert it to PEM with `openssl x509 -inform DER`"
        case .other: "DER, not PEM"
        }
    }

    /// Returns the decoded content of the first PEM block, whatever its label.
    private static func firstBlock(of file: [UInt8]) -> [UInt8]? {
        let source = MemoryBIO(reading: file)
        var name: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var data: UnsafeMutablePointer<UInt8>?
        var count = 0
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard PEM_read_bio(source.pointer, &name, &header, &data, &count) == 1 else { return nil }
        defer {
            CRYPTO_free(name, nil, 0)
            CRYPTO_free(header, nil, 0)
            // The content may be a private key.
            CRYPTO_clear_free(data, count, nil, 0)
        }
        // The call succeeded, so the pointer is not null and has that many bytes.
        return data.map { Array(UnsafeBufferPointer(start: $0, count: count)) }
    }
}
