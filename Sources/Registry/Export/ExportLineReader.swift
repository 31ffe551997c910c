internal import Encoding
internal import Vocabulary

/// A strict reader for the output of `ExportLineWriter`: it accepts one order of members and one spelling of each
/// value.
///
/// A general JSON decoder would accept several spellings, take one of several equal names, and round numbers.
struct ExportLineReader {
    private let text: ArraySlice<UInt8>
    private var position: Int
    /// Whether the current object already has a member.
    private var hasMember = false

    /// The end of the year 9999, the maximum of all times.
    private static let lastTime: Int64 = 253_402_300_799

    init(_ text: ArraySlice<UInt8>) {
        self.text = text
        position = text.startIndex
    }

    // MARK: - Structure

    mutating func begin() throws(ExportFault) {
        guard skip("{") else { throw ExportFault("not a JSON object of an export") }
        hasMember = false
    }

    mutating func end() throws(ExportFault) {
        guard skip("}") else { throw ExportFault("a member is unknown or in the wrong place") }
        hasMember = true
    }

    mutating func finish() throws(ExportFault) {
        guard position == text.endIndex else { throw ExportFault("there is data after the object") }
    }

    /// Consumes the name of the next member if it matches.
    ///
    /// - Returns: Whether the name matches. The member's value follows.
    mutating func has(_ name: StaticString) -> Bool {
        let start = position
        guard !hasMember || skip(","), skip("\""), skip(name), skip("\":") else {
            position = start
            return false
        }
        hasMember = true
        return true
    }

    mutating func object<Value>(
        _ name: StaticString, _ body: (inout ExportLineReader) throws(ExportFault) -> Value
    ) throws(ExportFault) -> Value? {
        guard has(name) else { return nil }
        return try braced(body)
    }

    mutating func list<Value>(
        _ name: StaticString, _ body: (inout ExportLineReader) throws(ExportFault) -> Value
    ) throws(ExportFault) -> [Value] {
        guard has(name), skip("[") else { throw missing(name) }
        var values: [Value] = []
        guard !skip("]") else { return values }
        repeat { values.append(try braced(body)) } while skip(",")
        guard skip("]") else { throw ExportFault("'\(name)' is not a list of objects") }
        return values
    }

    private mutating func braced<Value>(
        _ body: (inout ExportLineReader) throws(ExportFault) -> Value
    ) throws(ExportFault) -> Value {
        try begin()
        let value = try body(&self)
        try end()
        return value
    }

    // MARK: - Values

    /// Reads an optional integer.
    ///
    /// - Returns: nil if there is no such member.
    private mutating func integerIfThere(
        _ name: StaticString, _ range: ClosedRange<Int64> = 0...Self.lastTime
    ) throws(ExportFault) -> Int64? {
        guard has(name) else { return nil }
        let start = position
        while position < text.endIndex, Self.isDigit(text[position]) { position += 1 }
        let digits = String(decoding: text[start..<position], as: UTF8.self)
        guard let number = Int64(digits), String(number) == digits, range.contains(number) else {
            throw ExportFault("'\(name)' is not a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    mutating func integer(
        _ name: StaticString, _ range: ClosedRange<Int64> = 0...Self.lastTime
    ) throws(ExportFault) -> Int64 {
        guard let number = try integerIfThere(name, range) else { throw missing(name) }
        return number
    }

    /// Reads an optional text.
    ///
    /// - Parameter read: Converts the text. Returns nil for an invalid one.
    private mutating func textIfThere<Value>(
        _ name: StaticString, _ read: (String) -> Value?
    ) throws(ExportFault) -> Value? {
        guard has(name) else { return nil }
        guard skip("\""), let end = text[position...].firstIndex(of: UInt8(ascii: "\"")) else {
            throw ExportFault("'\(name)' is not text")
        }
        let found = text[position..<end]
        position = end + 1
        // Escapes would allow several spellings, and no value has a character that needs one.
        guard found.allSatisfy({ (0x20...0x7e).contains($0) && $0 != UInt8(ascii: "\\") }),
            let value = read(String(decoding: found, as: UTF8.self))
        else { throw ExportFault("'\(name)' has an unknown value") }
        return value
    }

    mutating func text<Value>(_ name: StaticString, _ read: (String) -> Value?) throws(ExportFault) -> Value {
        guard let value = try textIfThere(name, read) else { throw missing(name) }
        return value
    }

    /// Reads optional bytes.
    ///
    /// - Parameter read: Converts the bytes. Returns nil for invalid ones.
    private mutating func bytesIfThere<Value>(
        _ name: StaticString, _ read: ([UInt8]) -> Value?
    ) throws(ExportFault) -> Value? {
        guard has(name) else { return nil }
        guard skip("\"") else { throw ExportFault("'\(name)' is not text") }
        var bytes: [UInt8] = []
        while text.endIndex - position >= 2, let high = Hexadecimal.value(lowercase: text[position]),
            let low = Hexadecimal.value(lowercase: text[position + 1])
        {
            bytes.append(high << 4 | low)
            position += 2
        }
        guard skip("\""), let value = read(bytes) else {
            throw ExportFault("'\(name)' is not the right number of bytes in lower-case hexadecimal")
        }
        return value
    }

    mutating func bytes<Value>(_ name: StaticString, _ read: ([UInt8]) -> Value?) throws(ExportFault) -> Value {
        guard let value = try bytesIfThere(name, read) else { throw missing(name) }
        return value
    }

    private func missing(_ name: StaticString) -> ExportFault {
        ExportFault("'\(name)' is missing or in the wrong place")
    }

    private mutating func skip(_ word: StaticString) -> Bool {
        word.withUTF8Buffer { word in
            guard text.endIndex - position >= word.count else { return false }
            for index in 0..<word.count where text[position + index] != word[index] { return false }
            position += word.count
            return true
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}

// Records are read in the order in which their members are written.
extension ExportLineReader {
    mutating func record() throws(ExportFault) -> ExportRecord {
        if let word = try textIfThere("format", { $0 }) {
            guard word == ExportLine.format else { throw ExportFault("not an export of an attestgate registry") }
            return .head(try head())
        }
        if let device = try object("device", { line throws(ExportFault) in try line.device() }) {
            return .device(device)
        }
        if let certificate = try object("certificate", { line throws(ExportFault) in try line.certificate() }) {
            return .certificate(certificate)
        }
        let token = try object("used_token") { line throws(ExportFault) in
            SingleUse(id: try line.bytes("id", Fingerprint.init), expiresAt: try line.integer("expires_at"))
        }
        if let token { return .usedToken(token) }
        let subject = try object("revoked_subject") { line throws(ExportFault) in
            ExportRecord.revokedSubject(
                try line.bytes("subject", Fingerprint.init), at: try line.integer("revoked_at"))
        }
        if let subject { return subject }
        let barred = try object("barred_key") { line throws(ExportFault) in
            BarredKey(
                key: try line.key("key"), kind: try line.text("kind", BarredKeyKind.init(rawValue:)),
                barredAt: try line.integer("barred_at"))
        }
        if let barred { return .barredKey(barred) }
        if let service = try object("service", { line throws(ExportFault) in try line.service() }) {
            return .service(service)
        }
        let federationToken = try object("federation_token") { line throws(ExportFault) in try line.federationToken() }
        if let federationToken { return .federationToken(federationToken) }
        if let end = try object("end", { line throws(ExportFault) in try line.exportEnd() }) { return .end(end) }
        throw ExportFault("not a line of an export")
    }

    private mutating func head() throws(ExportFault) -> ExportHead {
        let version = try integer("version")
        guard (1...ExportHead.version).contains(version) else {
            throw ExportFault(
                "written in version \(version) of the format; this program reads 1 to \(ExportHead.version)")
        }
        return ExportHead(
            time: try integer("exported_at"), store: try bytes("store", RandomID.init),
            revocationList: try integer("revocation_list"), tokensRemoved: try integer("tokens_refused_until"),
            secretCheck: version == 2
                ? try bytes("secret_check", Fingerprint.init)
                : version == 1 ? nil : try bytesIfThere("secret_check", Fingerprint.init), hasFederation: version == 3)
    }

    private mutating func service() throws(ExportFault) -> FederationService {
        FederationService(
            id: try text("id") { $0.utf8.count == 36 ? $0 : nil },
            name: try bytes("name") { String(validating: $0, as: UTF8.self) }, url: try text("url", Self.plain),
            tokenEndpoint: try text("token_endpoint", Self.plain),
            descriptionURL: try text("description_url", Self.plain),
            info: try bytesIfThere("info") { String(validating: $0, as: UTF8.self) },
            operatorName: try text("operator", Self.plain), secret: try bytes("secret", Fingerprint.init),
            joinedAt: try integer("joined_at"),
            approvedAt: try integerIfThere("approved_at"), revokedAt: try integerIfThere("revoked_at"))
    }

    private mutating func federationToken() throws(ExportFault) -> FederationToken {
        FederationToken(
            id: try bytes("id", Fingerprint.init), kind: try text("kind", FederationToken.Kind.init(rawValue:)),
            parent: try bytesIfThere("parent", Fingerprint.init), device: try key("device"),
            audience: try text("audience", Self.plain), party: try textIfThere("party", Self.plain),
            // A token may have no scope.
            scope: try text("scope") { $0.utf8.count <= FederationToken.textLimit ? $0 : nil },
            thumbprint: try textIfThere("thumbprint", Self.plain), issuedAt: try integer("issued_at"),
            expiresAt: try integer("expires_at"), revokedAt: try integerIfThere("revoked_at"))
    }

    private static func plain(_ text: String) -> String? { FederationToken.admits(text) ? text : nil }

    private mutating func device() throws(ExportFault) -> ExportedDevice {
        let hardwareKey = try key("hardware_key")
        let identity = DeviceIdentity(
            app: try text("app", AppID.init), platform: try text("platform", Platform.init(rawValue:)),
            environment: try text("environment", AttestationEnvironment.init(rawValue:)), hardwareKey: hardwareKey,
            point: try bytes("point", PublicPoint.init))
        guard identity.platform.runs(identity.app) else { throw ExportFault("'platform' is not that of the app") }
        let device = ExportedDevice(
            identity: identity, registeredAt: try integer("registered_at"),
            activatedAt: try integerIfThere("activated_at"), approvedAt: try integerIfThere("approved_at"),
            revokedAt: try integerIfThere("revoked_at"), subject: try bytesIfThere("subject", Fingerprint.init),
            shown: ShownExtensions(rawValue: UInt8(try integer("shown_extensions", 0...255))),
            window: try window(), bindings: try list("bindings") { line throws(ExportFault) in try line.binding() },
            attestation: try object("attestation") { line throws(ExportFault) in
                ExportedAttestation(
                    digest: try line.bytes("digest", Fingerprint.init),
                    certificateKey: try line.keyIfThere("certificate_key"),
                    systemVersion: try line.textIfThere("os_version") { text in
                        SystemVersion(text).flatMap { $0.description == text ? $0 : nil }
                    },
                    app: try line.shownApp(),
                    tag: try line.bytesIfThere("tag") { AttestationRecord.tagLengths.contains($0.count) ? $0 : nil },
                    phone: try line.object("phone") { line throws(ExportFault) in try line.phone() },
                    attestedAt: try line.integerIfThere("attested_at"),
                    isCertificateKeyAttested: try line.integerIfThere("certificate_key_attested", 0...1)
                        .map { $0 == 1 },
                    isKeyListed: try line.integerIfThere("key_listed", 1...1) != nil)
            },
            receipt: try object("receipt") { line throws(ExportFault) in try line.receipt() },
            signals: try object("signals") { line throws(ExportFault) in
                let time = try line.integer("claimed_at")
                return try line.bytes("content") { Signals(content: $0, claimedAt: time) }
            })
        if device.receipt != nil, device.attestation == nil { throw ExportFault("a receipt without an attestation") }
        return device
    }

    private mutating func shownApp() throws(ExportFault) -> ShownApp {
        ShownApp(
            version: try textIfThere("bundle_version") { text in
                AppVersion(bundleVersion: text).flatMap { $0.description == text ? $0 : nil }
            },
            distribution: try integerIfThere("validation_category", 0...255).map { UInt8($0) })
    }

    private mutating func phone() throws(ExportFault) -> AttestedPhone {
        let number = { (line: inout ExportLineReader, name: StaticString) throws(ExportFault) -> UInt32? in
            try line.integerIfThere(name, 0...Int64(UInt32.max)).map { UInt32($0) }
        }
        let phone = AttestedPhone(
            securityLevel: try text("security_level", AttestedPhone.SecurityLevel.init(rawValue:)),
            bootState: try text("boot_state", AttestedPhone.BootState.init(rawValue:)),
            isLocked: try integer("bootloader_locked", 0...1) == 1,
            bootKey: try bytes("boot_key") { $0.count <= AttestedPhone.bootKeyLimit ? $0 : nil },
            patchLevel: try number(&self, "patch_level"), vendorPatchLevel: try number(&self, "vendor_patch_level"),
            bootPatchLevel: try number(&self, "boot_patch_level"),
            appVersion: try integer("app_version", 0...Int64.max), integrity: try integrity(), serials: [])
        let serials = try list("serials") { line throws(ExportFault) in
            try line.text("serial") { AttestedPhone.isSerial($0) ? $0 : nil }
        }
        guard var phone else { throw missing("phone") }
        phone.add(serials)
        guard phone.serials == serials else { throw ExportFault("'serials' is not sorted") }
        return phone
    }

    private mutating func integrity() throws(ExportFault) -> IntegrityVerdict? {
        guard let text = try textIfThere("integrity", { $0 }) else { return nil }
        let verdict = IntegrityVerdict(text: text, requestedAt: try integer("integrity_at"))
        guard let verdict, verdict.text == text else {
            throw ExportFault("'integrity' has an unknown value")
        }
        return verdict
    }

    private mutating func window() throws(ExportFault) -> CounterWindow {
        let window = try object("counter") { line throws(ExportFault) in
            let highest = UInt32(try line.integer("highest", 0...Int64(UInt32.max)))
            return try line.bytes("window") { CounterWindow(highest: highest, bits: $0) }
        }
        guard let window else { throw missing("counter") }
        return window
    }

    private mutating func binding() throws(ExportFault) -> ExportedBinding {
        ExportedBinding(
            key: try key("key"), createdAt: try integer("created_at"), endsAt: try integerIfThere("ends_at"),
            endedAt: try integerIfThere("ended_at"))
    }

    private mutating func receipt() throws(ExportFault) -> ExportedReceipt {
        ExportedReceipt(
            content: try bytes("content") { $0.count <= AttestationRecord.receiptLimit ? $0 : nil },
            riskMetric: try integerIfThere("risk_metric", 0...Int64(UInt32.max)).map { UInt32($0) },
            refresh: ReceiptRefresh(
                createdAt: try integerIfThere("created_at"), nextAt: try integerIfThere("next_at"),
                askedAt: try integerIfThere("asked_at"),
                outcome: try textIfThere("outcome", ReceiptOutcome.init(rawValue:)),
                failures: Int(try integer("failures"))))
    }

    private mutating func certificate() throws(ExportFault) -> ExportedCertificate {
        ExportedCertificate(
            serial: try bytes("serial") { CertificateSerial($0) }, key: try key("key"),
            notAfter: try integer("not_after"))
    }

    private mutating func exportEnd() throws(ExportFault) -> ExportEnd {
        var counts = ExportCounts()
        counts.devices = try integer("devices")
        counts.certificates = try integer("certificates")
        counts.usedTokens = try integer("used_tokens")
        counts.revokedSubjects = try integer("revoked_subjects")
        counts.barredKeys = try integer("barred_keys")
        counts.services = try integerIfThere("services") ?? 0
        counts.federationTokens = try integerIfThere("federation_tokens") ?? 0
        return ExportEnd(counts: counts, digest: try bytes("sha256", Fingerprint.init))
    }

    private mutating func key(_ name: StaticString) throws(ExportFault) -> KeyID {
        try bytes(name) { KeyID(digest: $0.span) }
    }

    private mutating func keyIfThere(_ name: StaticString) throws(ExportFault) -> KeyID? {
        try bytesIfThere(name) { KeyID(digest: $0.span) }
    }
}
