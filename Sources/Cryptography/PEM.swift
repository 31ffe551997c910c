internal import COpenSSL

/// Bytes as OpenSSL's I/O abstraction, for reading and writing PEM in memory.
struct MemoryBIO: ~Copyable {
    let pointer: OpaquePointer

    /// An empty one to write to.
    init() {
        // Fails only without memory, where every other allocation in Swift ends the process, too.
        guard let pointer = BIO_new(BIO_s_mem()) else { fatalError("out of memory: BIO_new") }
        self.pointer = pointer
    }

    /// Holds a copy of `bytes`, to read from.
    init(reading bytes: [UInt8]) {
        self.init()
        // Writing to a memory BIO fails only without memory; at most Int32.max bytes at once, far above any PEM file.
        let written = BIO_write(pointer, bytes, Int32(bytes.count))
        precondition(written == Int32(bytes.count) || bytes.isEmpty, "out of memory: BIO_write")
    }

    deinit {
        BIO_free_all(pointer)
    }

    /// What was written.
    var bytes: [UInt8] {
        var data: UnsafeMutablePointer<CChar>?
        let count = ag_bio_get_mem_data(pointer, &data)
        guard let data, count > 0 else { return [] }
        return data.withMemoryRebound(to: UInt8.self, capacity: Int(count)) {
            Array(UnsafeBufferPointer(start: $0, count: Int(count)))
        }
    }
}

/// What a file holds that was taken for something else: certificates, keys and lists are all named by files, and exchanged easily.
enum FileForm {
    /// - Returns: words to follow a complaint, such as "; it holds a private key"; empty if nobody knows.
    static func hint(_ file: [UInt8], _ context: LibraryContext) -> String {
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

    /// What is missing of a text that begins as it should.
    static func cut(_ file: [UInt8]) -> String {
        let text = String(decoding: file, as: UTF8.self)
        let isCut = text.ranges(of: "-----END ").count < text.ranges(of: begin).count
        return isCut ? "; an END line is missing: the file is truncated" : ""
    }

    /// That a text is something else than it says: of what is called a private key, a certificate; and the other way round.
    static func mislabelled(_ file: [UInt8], _ context: LibraryContext) -> String {
        guard let kind = firstBlock(of: file).flatMap({ kind(of: $0, context) }) else { return "" }
        switch (holdsPrivateKey(file), kind) {
        case (true, .certificate): return "; the block labelled private key is a certificate"
        case (false, .privateKey): return "; the block labelled certificate is a private key"
        default: return ""
        }
    }

    /// Whether it says so, whatever it holds.
    static func holdsPrivateKey(_ file: [UInt8]) -> Bool {
        labels(in: file).contains { $0.hasSuffix("PRIVATE KEY") && $0 != "OPENSSH PRIVATE KEY" }
    }

    private static let begin = "-----BEGIN "

    /// Of PEM (RFC 7468 section 3), in order.
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

    /// By what begins it (X.690 section 8.1): all of these are sequences.
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

    /// What the first block of PEM encodes, whatever it is called.
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
            // It may have been a key.
            CRYPTO_clear_free(data, count, nil, 0)
        }
        // Not null, and of that many bytes: the call has succeeded.
        return data.map { Array(UnsafeBufferPointer(start: $0, count: count)) }
    }
}
