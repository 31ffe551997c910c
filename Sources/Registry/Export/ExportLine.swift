internal import Encoding
internal import Vocabulary

/// The text form of a record: a JSON object on one line. Equal records have equal bytes.
///
/// The members of an object have a fixed order, and absent values are left out. Bytes are in lower-case hexadecimal. No
/// text needs an escape.
public enum ExportLine {
    /// The maximum length of a line in bytes. It fits a device with the largest receipt and a thousand bindings.
    public static let limit = 256 * 1024
    static let format = "attestgate-registry"

    /// Encodes a record.
    ///
    /// - Returns: The line without its end.
    public static func encode(_ record: ExportRecord) -> [UInt8] {
        var line = ExportLineWriter()
        switch record {
        case .head(let head): line.write(head)
        case .device(let device): line.object("device") { $0.write(device) }
        case .certificate(let certificate):
            line.object("certificate") {
                $0.bytes("serial", certificate.serial.bytes)
                $0.bytes("key", certificate.key.bytes)
                $0.integer("not_after", certificate.notAfter)
            }
        case .usedToken(let token):
            line.object("used_token") {
                $0.bytes("id", token.id.bytes)
                $0.integer("expires_at", token.expiresAt)
            }
        case .revokedSubject(let subject, let time):
            line.object("revoked_subject") {
                $0.bytes("subject", subject.bytes)
                $0.integer("revoked_at", time)
            }
        case .barredKey(let barred):
            line.object("barred_key") {
                $0.bytes("key", barred.key.bytes)
                $0.text("kind", barred.kind.rawValue)
                $0.integer("barred_at", barred.barredAt)
            }
        case .service(let service): line.object("service") { $0.write(service) }
        case .federationToken(let token): line.object("federation_token") { $0.write(token) }
        case .end(let end): line.object("end") { $0.write(end) }
        }
        return line.finish()
    }

    /// Decodes a record.
    ///
    /// - Parameter text: The line without its end.
    public static func decode(_ text: ArraySlice<UInt8>) throws(ExportFault) -> ExportRecord {
        guard text.count <= limit else { throw ExportFault("the line is longer than \(limit) bytes") }
        var reader = ExportLineReader(text)
        try reader.begin()
        let record = try reader.record()
        try reader.end()
        try reader.finish()
        return record
    }
}

/// The description of a faulty or misplaced line. It does not quote the line.
public struct ExportFault: Error, Equatable, Sendable, CustomStringConvertible {
    public let description: String

    public init(_ description: String) {
        self.description = description
    }
}

extension ExportLineWriter {
    fileprivate mutating func write(_ head: ExportHead) {
        text("format", ExportLine.format)
        integer("version", head.version)
        integer("exported_at", head.time)
        bytes("store", head.store.bytes)
        integer("revocation_list", head.revocationList)
        integer("tokens_refused_until", head.tokensRemoved)
        bytes("secret_check", head.secretCheck?.bytes)
    }

    fileprivate mutating func write(_ device: ExportedDevice) {
        bytes("hardware_key", device.identity.hardwareKey.bytes)
        text("app", device.identity.app.description)
        text("platform", device.identity.platform.rawValue)
        text("environment", device.identity.environment.rawValue)
        bytes("point", device.identity.point.bytes)
        integer("registered_at", device.registeredAt)
        integer("activated_at", device.activatedAt)
        integer("approved_at", device.approvedAt)
        integer("revoked_at", device.revokedAt)
        bytes("subject", device.subject?.bytes)
        integer("shown_extensions", Int64(device.shown.rawValue))
        object("counter") {
            $0.integer("highest", Int64(device.window.highest))
            $0.bytes("window", device.window.bits)
        }
        list("bindings", device.bindings) { line, binding in
            line.bytes("key", binding.key.bytes)
            line.integer("created_at", binding.createdAt)
            line.integer("ends_at", binding.endsAt)
            line.integer("ended_at", binding.endedAt)
        }
        if let attestation = device.attestation {
            object("attestation") {
                $0.bytes("digest", attestation.digest.bytes)
                $0.bytes("certificate_key", attestation.certificateKey?.bytes)
                $0.text("os_version", attestation.systemVersion?.description)
                $0.text("bundle_version", attestation.app.version?.description)
                $0.integer("validation_category", attestation.app.distribution.map(Int64.init))
                $0.bytes("tag", attestation.tag)
                if let phone = attestation.phone { $0.object("phone") { $0.write(phone) } }
                $0.integer("attested_at", attestation.attestedAt)
                $0.integer("certificate_key_attested", attestation.isCertificateKeyAttested.map { $0 ? 1 : 0 })
                $0.integer("key_listed", attestation.isKeyListed ? 1 : nil)
            }
        }
        if let receipt = device.receipt { object("receipt") { $0.write(receipt) } }
        if let signals = device.signals {
            object("signals") {
                $0.integer("claimed_at", signals.claimedAt)
                $0.bytes("content", signals.content)
            }
        }
    }

    private mutating func write(_ phone: AttestedPhone) {
        text("security_level", phone.securityLevel.rawValue)
        text("boot_state", phone.bootState.rawValue)
        integer("bootloader_locked", phone.isLocked ? 1 : 0)
        bytes("boot_key", phone.bootKey)
        integer("patch_level", phone.patchLevel.map(Int64.init))
        integer("vendor_patch_level", phone.vendorPatchLevel.map(Int64.init))
        integer("boot_patch_level", phone.bootPatchLevel.map(Int64.init))
        integer("app_version", phone.appVersion)
        text("integrity", phone.integrity?.text)
        integer("integrity_at", phone.integrity?.requestedAt)
        list("serials", phone.serials) { $0.text("serial", $1) }
    }

    private mutating func write(_ receipt: ExportedReceipt) {
        bytes("content", receipt.content)
        integer("risk_metric", receipt.riskMetric.map(Int64.init))
        integer("created_at", receipt.refresh.createdAt)
        integer("next_at", receipt.refresh.nextAt)
        integer("asked_at", receipt.refresh.askedAt)
        text("outcome", receipt.refresh.outcome?.rawValue)
        integer("failures", Int64(receipt.refresh.failures))
    }

    fileprivate mutating func write(_ service: FederationService) {
        text("id", service.id)
        // Names may have any characters.
        bytes("name", Array(service.name.utf8))
        text("url", service.url)
        text("token_endpoint", service.tokenEndpoint)
        text("description_url", service.descriptionURL)
        bytes("info", service.info.map { Array($0.utf8) })
        text("operator", service.operatorName)
        bytes("secret", service.secret.bytes)
        integer("joined_at", service.joinedAt)
        integer("approved_at", service.approvedAt)
        integer("revoked_at", service.revokedAt)
    }

    fileprivate mutating func write(_ token: FederationToken) {
        bytes("id", token.id.bytes)
        text("kind", token.kind.rawValue)
        bytes("parent", token.parent?.bytes)
        bytes("device", token.device.bytes)
        text("audience", token.audience)
        text("party", token.party)
        text("scope", token.scope)
        text("thumbprint", token.thumbprint)
        integer("issued_at", token.issuedAt)
        integer("expires_at", token.expiresAt)
        integer("revoked_at", token.revokedAt)
    }

    fileprivate mutating func write(_ end: ExportEnd) {
        integer("devices", end.counts.devices)
        integer("certificates", end.counts.certificates)
        integer("used_tokens", end.counts.usedTokens)
        integer("revoked_subjects", end.counts.revokedSubjects)
        integer("barred_keys", end.counts.barredKeys)
        integer("services", end.counts.services > 0 ? end.counts.services : nil)
        integer("federation_tokens", end.counts.federationTokens > 0 ? end.counts.federationTokens : nil)
        bytes("sha256", end.digest.bytes)
    }
}

/// A writer of one JSON object.
struct ExportLineWriter {
    private var output: [UInt8] = [UInt8(ascii: "{")]
    /// Whether the current object already has a member.
    private var hasMember = false

    consuming func finish() -> [UInt8] {
        var output = output
        output.append(UInt8(ascii: "}"))
        return output
    }

    mutating func integer(_ name: StaticString, _ value: Int64?) {
        guard let value else { return }
        member(name)
        output += String(value).utf8
    }

    /// Writes a member with a text.
    ///
    /// - Parameter value: A text without characters that JSON escapes.
    mutating func text(_ name: StaticString, _ value: String?) {
        guard let value else { return }
        member(name)
        quote()
        output += value.utf8
        quote()
    }

    mutating func bytes(_ name: StaticString, _ value: [UInt8]?) {
        guard let value else { return }
        member(name)
        quote()
        output.reserveCapacity(output.count + 2 * value.count + 1)
        Hexadecimal.append(value, to: &output)
        quote()
    }

    mutating func object(_ name: StaticString, _ body: (inout ExportLineWriter) -> Void) {
        member(name)
        braced(body)
    }

    mutating func list<Element>(
        _ name: StaticString, _ elements: [Element], _ body: (inout ExportLineWriter, Element) -> Void
    ) {
        member(name)
        output.append(UInt8(ascii: "["))
        for (index, element) in elements.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            braced { body(&$0, element) }
        }
        output.append(UInt8(ascii: "]"))
    }

    private mutating func braced(_ body: (inout ExportLineWriter) -> Void) {
        output.append(UInt8(ascii: "{"))
        hasMember = false
        body(&self)
        output.append(UInt8(ascii: "}"))
        hasMember = true
    }

    private mutating func member(_ name: StaticString) {
        if hasMember { output.append(UInt8(ascii: ",")) }
        hasMember = true
        quote()
        output += String(describing: name).utf8
        quote()
        output.append(UInt8(ascii: ":"))
    }

    private mutating func quote() { output.append(UInt8(ascii: "\"")) }
}
