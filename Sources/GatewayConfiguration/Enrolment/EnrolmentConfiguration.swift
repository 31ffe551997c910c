internal import Vocabulary

/// Enrolment: how unknown phones become registered devices with a certificate.
public struct EnrolmentConfiguration: Equatable, ConfigurationSection {
    /// A literal address that no other listener has.
    @Setting(
        required: .text(
            "a literal address and a port, for example 127.0.0.1:8444", matching: ServerAddress.literalPattern,
            ServerAddress.parseLiteral),
        "The address and port to listen on; not one of another listener.")
    public var address: ServerAddress
    /// Nil if phones connect directly.
    @Setting(
        .section(ProxyProtocolConfiguration.section.at("enrolment.proxy_protocol")),
        "Load balancers in front of the listener that send the phone's address (PROXY protocol).")
    public var proxyProtocol: ProxyProtocolConfiguration?
    @Setting(ProtocolName.list, default: ProtocolName.standard, ProtocolName.summary)
    public var protocols: [ProtocolName]
    /// The listener requires no client certificate.
    @Setting(required: .section(ListenerConfiguration.TLS.section.at("enrolment.tls")), "The listener's certificate.")
    public var tls: ListenerConfiguration.TLS
    /// Nil if enrolled devices use `address` too.
    @Setting(.section, "The listener for enrolled devices, which demands their certificates.")
    public var devices: EnrolmentDevicesConfiguration?
    @Setting(
        key: "renewal", .choice,
        "Where devices renew their keys: at `devices`, with their certificates, or at `address` too.")
    var writtenRenewal: Renewal?
    /// Without effect if devices renew at `address`.
    @Setting(
        .wholeSeconds(.zero ... .seconds(7_776_000)), unit: "since the certificate's expiry", default: "30d",
        "How long a device with an expired certificate may renew at `address`, with `renewal: mtls`.")
    public var renewalGrace: Duration
    /// The provider's URL: `aud`, and the prefix of `iss`, of tokens that bind keys.
    @Setting(required: ServiceURL.kind, "The listener's public URL.")
    public var url: ServiceURL
    @Setting(required: .section, "The GMS CA, which issues the phones' certificates.")
    public var authority: EnrolmentAuthorityConfiguration
    @Setting(
        .wholeSeconds(.seconds(60) ... .seconds(31_536_000)), unit: "since it was issued", default: "30d",
        "The validity of a phone's certificate.")
    public var certificateLife: Duration
    @Setting(
        .wholeSeconds(.zero ... .seconds(604_800)), unit: "since the new key was bound", default: "10m",
        "How long a phone's old key is still accepted beside its new one.")
    public var rotationOverlap: Duration
    @Setting(
        .wholeSeconds(.seconds(10) ... .seconds(3600)), unit: "since the nonce was issued", default: "5m",
        "The lifetime of a nonce.")
    public var nonceLife: Duration
    @Setting(.choice, default: "attestgate", "Whose endpoints are served: this project's, or gematik's (DSR).")
    public var profile: Profile
    @Setting(
        key: "unknown_registration",
        .text("404 or 400", shape: .integer(400...404)) { text throws(InvalidValue) in
            guard let status = ["404": 404, "400": 400][text] else {
                throw InvalidValue("\(Printable.quoted(text)) is neither 404 nor 400")
            }
            return status
        }, default: "404", "The status when an unknown registration is deleted, with `profile: dsr`.")
    public var unknownRegistration: Int
    @Setting(
        key: "admission", required: .choice, "What is required, besides the app itself, to admit a device.")
    var admissionName: AdmissionConfiguration.Name
    @Setting(.section, "The issuer of admission tokens.")
    var token: AdmissionTokenConfiguration?
    @Setting(.section, "The health cards that admit devices.")
    var card: CardConfiguration?
    /// Nil if receipts are not refreshed.
    @Setting(.section, "How the risk metric of each device is requested from Apple.")
    public var receipts: ReceiptsConfiguration?
    /// Nil if none are issued.
    @Setting(.section, "The device tokens that are issued.")
    public var deviceTokens: DeviceTokenIssuerConfiguration?
    /// Nil without it.
    @Setting(.section, "The wallet profile: client attestations for OAuth servers.")
    public var wallet: WalletConfiguration?
    @Setting(.section, default: "{}", "What the enrolment of Android phones needs.")
    public var android: AndroidEnrolmentConfiguration
    @Setting(
        .size((32 << 10)...(64 << 10)), unit: "bytes", default: "64KiB", "The maximum size of request content.")
    public var contentLimit: Int
    /// A /64 counts as one IPv6 address.
    @Setting(
        .integer(1...100_000), unit: "requests per client address", default: "60", "The maximum rate of requests.")
    public var requestsPerMinute: Int
    @Setting(
        .integer(1...100_000), unit: "connections", default: "1000",
        "The maximum number of open client connections.")
    public var connections: Int
    /// A /64 counts as one IPv6 address. Never more than `connections`.
    @Setting(
        .integer(1...100_000), unit: "connections per client address", default: "32",
        "The maximum number of open connections of one client.")
    public var connectionsPerAddress: Int

    static let section = Section("enrolment", of: Self.self)

    /// Where devices renew their keys.
    public enum Renewal: String, CaseIterable, Sendable {
        /// Over mutual TLS only, at `devices`.
        case mtls
        case tls
    }

    /// Whose endpoints are served.
    public enum Profile: String, CaseIterable, Sendable {
        case attestgate
        /// gematik's Device Security Rating.
        case dsr
    }

    public var renewal: Renewal { writtenRenewal ?? (devices == nil ? .tls : .mtls) }

    /// The addresses to listen on.
    public var addresses: [ServerAddress] { [address] + [devices?.address].compactMap(\.self) }

    public var admission: AdmissionConfiguration {
        switch (admissionName, token, card) {
        case (.open, _, _): .open
        case (.approval, _, _): .approval
        case (.token, let token?, _): .token(token)
        case (.card, _, let card?): .card(card)
        case (.token, nil, _), (.card, _, nil): preconditionFailure("tokens and cards without an issuer are refused")
        }
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        _connectionsPerAddress.lowerDefault(to: _connections.value)
        if let connections = _connections.value, let share = _connectionsPerAddress.value, share > connections {
            reading.refuse(
                _connectionsPerAddress.place,
                "`connections_per_address` (\(share)) is larger than `connections` (\(connections))",
                expected: "`connections_per_address` of at most \(connections)")
            return false
        }
        guard checkToken(reading), checkCard(reading), checkProfile(item, reading), checkRenewal(reading), isComplete,
            proxyProtocol?.canReach(address, at: _proxyProtocol.place, reading) ?? true
        else { return false }
        reading.mention(.address(address.description), at: _address.place)
        if let devices, let objection = devices.address.objection(to: address, "the listener of enrolment") {
            reading.refuse(devices.addressPlace, objection, expected: "another address")
            return false
        }
        token?.setDefaultAudience(url)
        return true
    }

    /// Refuses settings of renewal that have no effect, or would end all renewals.
    private func checkRenewal(_ reading: Reading) -> Bool {
        if !_devices.isWritten, _writtenRenewal.value == .mtls {
            reading.refuse(
                _writtenRenewal.place, "`renewal: mtls` needs the listener `devices`",
                expected: "`devices`, with `address`, `tls` and `clients`, or no `renewal`")
            return false
        }
        if _renewalGrace.isWritten, !_devices.isWritten || _writtenRenewal.value == .tls {
            reading.refuse(
                _renewalGrace.place, "`renewal_grace` has no effect without `renewal: mtls`",
                expected: "no `renewal_grace`")
            return false
        }
        return true
    }

    /// Refuses tokens without an issuer, and an issuer without tokens.
    private func checkToken(_ reading: Reading) -> Bool {
        switch (_admissionName.value, _token.isWritten) {
        case (.token?, false):
            reading.refuse(
                _admissionName.place, "`admission: token` needs the issuer of the tokens",
                expected: "`token`, with `issuer` and where its keys are")
            return false
        case (.open?, true), (.approval?, true), (.card?, true):
            reading.refuse(
                _token.place, "`token` has no effect with `admission: \(_admissionName.value?.rawValue ?? "")`",
                expected: "`admission: token`, or no `token`")
            return false
        case (nil, _), (.token?, true), (.open?, false), (.approval?, false), (.card?, false): return true
        }
    }

    /// Refuses cards without authorities, and authorities without cards.
    private func checkCard(_ reading: Reading) -> Bool {
        guard let name = _admissionName.value, (name == .card) != _card.isWritten else { return true }
        if name == .card {
            reading.refuse(
                _admissionName.place, "`admission: card` needs the authorities of the cards",
                expected: "`card`, with `authorities`")
        } else {
            reading.refuse(
                _card.place, "`card` has no effect with `admission: \(name.rawValue)`",
                expected: "`admission: card`, or no `card`")
        }
        return false
    }

    /// Requires what gematik's endpoints need, and refuses what only they use.
    private func checkProfile(_ item: Item, _ reading: Reading) -> Bool {
        guard _profile.value == .dsr else {
            guard _profile.value != nil else { return true }
            if _admissionName.value == .card {
                reading.refuse(
                    _admissionName.place, "only the endpoints of `profile: dsr` accept cards",
                    expected: "`profile: dsr`, or another `admission`")
                return false
            }
            if _unknownRegistration.isWritten {
                reading.refuse(
                    _unknownRegistration.place, "`unknown_registration` has no effect without `profile: dsr`",
                    expected: "`profile: dsr`, or no `unknown_registration`")
                return false
            }
            return true
        }
        if let name = _admissionName.value, name != .card {
            reading.refuse(
                _admissionName.place, "`profile: dsr` admits devices by a health card",
                expected: "`admission: card`, with `card`")
            return false
        }
        guard _devices.isWritten, _deviceTokens.isWritten else {
            reading.refuse(
                _profile.place, "`profile: dsr` needs the sections `devices` and `device_tokens`",
                expected: _devices.isWritten ? "`device_tokens`" : "`devices`")
            return false
        }
        return true
    }
}

/// The listener for enrolled devices.
public struct EnrolmentDevicesConfiguration: Equatable, ConfigurationSection {
    /// A literal address that no other listener has.
    @Setting(
        required: .text(
            "a literal address and a port, for example 127.0.0.1:8446", matching: ServerAddress.literalPattern,
            ServerAddress.parseLiteral),
        "The address and port to listen on; not one of another listener.")
    public var address: ServerAddress
    @Setting(required: .section, "The listener's certificate.")
    public var tls: ListenerConfiguration.TLS
    @Setting(required: .section, "The client certificates that the listener accepts.")
    public var clients: ListenerConfiguration.Clients

    static let section = Section("enrolment.devices", of: Self.self)

    var addressPlace: Place { _address.place }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard isComplete else { return false }
        reading.mention(.address(address.description), at: _address.place)
        guard clients.areOptional else { return true }
        reading.refuse(
            item["clients"]?.place(of: "require") ?? item.place,
            "devices are known by their certificates, which they must present here", expected: "no `require`")
        return false
    }
}

/// The GMS CA, which issues the certificates of phones.
public struct EnrolmentAuthorityConfiguration: Equatable, ConfigurationSection {
    /// The path of a PEM file with exactly one certificate.
    @Setting(key: "certificate", required: .file("a readable PEM file"), "The CA's certificate.")
    public var certificatePath: String
    @Setting(
        key: "key", required: .secretFile("a readable PEM file"),
        "The private key of the certificate; encrypted if one of the next two settings is present.")
    public var keyPath: String
    @Setting(.secretFile("a readable file"), "The file with the passphrase of the key.")
    var passphraseFile: String?
    @Setting(
        .text(VariableName.expected, matching: VariableName.pattern, VariableName.parse),
        "The environment variable with the passphrase of the key.")
    var passphraseVariable: String?

    static let section = Section("enrolment.authority", of: Self.self)

    /// The place at which the section begins.
    public var place: Place { beginning }

    /// The source of the key's passphrase, never the passphrase itself.
    public enum Passphrase: Equatable, Sendable {
        /// A file with the passphrase as its one line. Only its owner can read it.
        case file(String)
        /// An environment variable.
        case variable(String)
    }

    /// The passphrase of the key. Nil if the key is not encrypted.
    public var passphrase: Passphrase? { passphraseFile.map { .file($0) } ?? passphraseVariable.map { .variable($0) } }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard _passphraseFile.isWritten, _passphraseVariable.isWritten else { return true }
        reading.refuse(
            _passphraseVariable.place, "`passphrase_file` already names the passphrase", expected: "one of the two")
        return false
    }
}

/// Rules between enrolment and the rest of the conf file.
enum EnrolmentReferences {
    /// Checks that the sections exist that enrolment needs. Reads the file as written, so that a section with another
    /// mistake counts as present.
    static func check(_ root: Item, _ reading: Reading) {
        guard root["enrolment"] != nil else {
            if reading.role == .enrolment {
                reading.refuse(
                    root.place, "the role `enrolment` needs the section `enrolment`", expected: "`enrolment`: a mapping"
                )
            }
            return
        }
        let lacking = AppReferences.lacking(in: root)
        if !lacking.isEmpty {
            reading.refuse(
                root.place(of: "enrolment"), "`enrolment` needs the sections `registry` and `apps`",
                expected: lacking.joined(separator: " and "))
        }
    }

    /// Refuses an app whose attestations cannot be judged: of simulated phones without a root, because none of Apple's
    /// or Google's signs their statements, and of Android without the app's signers.
    ///
    /// - Parameters:
    ///   - apps: the apps.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func checkRoots(_ apps: [AppConfiguration], in root: Item, _ reading: Reading) {
        guard root["enrolment"] != nil else { return }
        for (index, app) in apps.enumerated()
        where app.isSimulated && app.rootPath == nil {
            // Every app that was read stands in the file at its place.
            guard let item = root["apps"]?.elements[index] else { continue }
            reading.refuse(
                item.place(of: "environment"),
                "devices of the app `\(app.id)` cannot enrol: no known root attests software phones",
                expected: "`attestation_root`, the certificate of the simulated authority")
        }
        for (index, app) in apps.enumerated() where app.id.isAndroid && app.signingCertificates == nil {
            guard let item = root["apps"]?.elements[index] else { continue }
            reading.refuse(
                item.place(of: "id"),
                "devices of the app `\(app.id)` cannot enrol: anyone can sign an app of this name",
                expected: "`signing_certificates`, as `apksigner verify --print-certs` prints them")
        }
    }

    /// Refuses a maximum risk without refreshed receipts, since only those contain the risk metric.
    ///
    /// - Parameters:
    ///   - apps: the apps.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func checkCeilings(_ apps: [AppConfiguration], in root: Item, _ reading: Reading) {
        guard root["enrolment"]?["receipts"] == nil else { return }
        for (index, app) in apps.enumerated() {
            guard case .required(_?) = app.receipt, let item = root["apps"]?.elements[index] else {
                continue
            }
            reading.warn(
                item.place(of: "maximum_risk"),
                "`maximum_risk` of the app `\(app.id)` rarely applies: the first receipt of a device has no risk metric,"
                    + " and newer receipts are not requested",
                expected: "the section `enrolment.receipts`")
        }
    }

    /// Refuses simulated phones where Apple is asked for receipts, since Apple does not know them.
    ///
    /// - Parameters:
    ///   - apps: the apps.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func checkAskable(_ apps: [AppConfiguration], in root: Item, _ reading: Reading) {
        guard let enrolment = root["enrolment"], let receipts = enrolment["receipts"], receipts["base_url"] == nil
        else {
            return
        }
        for app in apps where app.isSimulated {
            reading.warn(
                enrolment.place(of: "receipts"),
                "no risk metric is requested for the app `\(app.id)`: Apple does not know software phones",
                expected: "`base_url` of a service that replaces Apple's")
        }
    }

    /// Refuses an address that another listener uses, and warns of an authority whose certificates no listener takes.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    static func check(
        _ enrolment: EnrolmentConfiguration, _ listeners: [ListenerConfiguration],
        _ administration: AdministrationConfiguration?, in root: Item, _ reading: Reading
    ) {
        guard let item = root["enrolment"] else { return }
        for (address, place) in [
            (enrolment.address, item.place(of: "address")),
            (enrolment.devices?.address, item["devices"]?.place(of: "address") ?? item.place),
        ] {
            guard let address else { continue }
            let objections =
                listeners.map { address.objection(to: $0.address, "a listener of the gateway's clients") }
                + (administration?.listeners ?? []).map {
                    address.objection(to: $0.address, "a listener of the administration")
                }
            if let objection = objections.compactMap(\.self).first {
                reading.refuse(place, objection, expected: "another address")
            }
        }
        let path = enrolment.authority.certificatePath
        let authority = WrittenFiles.segments(of: path)
        func isTrusting(_ clients: ListenerConfiguration.Clients) -> Bool {
            clients.authoritiesPaths.contains { WrittenFiles.segments(of: $0) == authority }
        }
        if let devices = enrolment.devices, let item = item["devices"]?["clients"],
            !isTrusting(devices.clients) || !devices.clients.keys.contains(.p256)
        {
            reading.warn(
                item.place,
                "the listener for enrolled devices takes no certificate of \(Printable.quoted(path)): no phone could use it",
                expected: "the same file among `authorities`, and `p256` among `keys`")
        }
        let trusting = listeners.flatMap(\.allClients).filter(isTrusting)
        let place = item["authority"]?.place(of: "certificate") ?? item.place
        if !trusting.isEmpty, !trusting.contains(where: { $0.keys.contains(.p256) }) {
            reading.warn(
                place,
                "no listener that trusts \(Printable.quoted(path)) accepts P-256: phones would receive certificates that"
                    + " no listener takes",
                expected: "`p256` among the `clients.keys` of a listener")
        } else if trusting.isEmpty {
            reading.warn(
                place,
                "no listener trusts \(Printable.quoted(path)): phones would receive certificates that no listener"
                    + " takes",
                expected: "the same file among `clients.authorities` of a listener")
        }
    }
}
