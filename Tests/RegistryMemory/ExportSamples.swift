package import Registry
internal import Vocabulary

/// Records of every kind, with every member there and with none that may be missing.
package enum ExportSample {
    package static let store = RandomID([UInt8](0..<16)) ?? RandomID()

    package static let head = ExportRecord.head(
        ExportHead(
            time: 1_763_800_000, store: store, revocationList: 7, tokensRemoved: 1_763_700_000,
            secretCheck: Fixture.fingerprint(3, kind: 9)))

    package static let firstHead = ExportRecord.head(
        ExportHead(
            time: 1_763_800_000, store: store, revocationList: 7, tokensRemoved: 1_763_700_000, secretCheck: nil))

    package static let leastDevice = ExportRecord.device(
        ExportedDevice(
            identity: Fixture.identity(1), registeredAt: 0, activatedAt: nil, approvedAt: nil, revokedAt: nil,
            subject: nil, shown: [], window: CounterWindow(), bindings: [], attestation: nil, receipt: nil))

    package static let fullDevice: ExportRecord = {
        var window = CounterWindow()
        for value: UInt32 in [1, 3, 900, 4_294_967_295] { _ = window.accept(value, mode: .unspent) }
        return .device(
            ExportedDevice(
                identity: Fixture.identity(2), registeredAt: 1, activatedAt: 2, approvedAt: 3, revokedAt: 4,
                subject: Fixture.subject(1), shown: [.validationCategory, .bundleVersion], window: window,
                bindings: [
                    ExportedBinding(key: Fixture.bindingKey(1), createdAt: 5, endsAt: 6, endedAt: 7),
                    ExportedBinding(key: Fixture.bindingKey(2), createdAt: 8, endsAt: nil, endedAt: nil),
                ],
                attestation: ExportedAttestation(
                    digest: Fixture.fingerprint(2, kind: 6), certificateKey: Fixture.bindingKey(1),
                    systemVersion: SystemVersion("17.4.1"),
                    app: ShownApp(version: AppVersion(bundleVersion: "4.10"), distribution: 4), tag: Fixture.tag(1),
                    phone: Fixture.phone(1), attestedAt: 8, isCertificateKeyAttested: false, isKeyListed: true),
                receipt: ExportedReceipt(
                    content: [0, 127, 255], riskMetric: 12,
                    refresh: ReceiptRefresh(createdAt: 9, nextAt: 10, askedAt: 11, outcome: .unchanged, failures: 2)),
                signals: Signals(content: Array(#"{"a":["b"]}"#.utf8), claimedAt: 15)))
    }()

    /// A head that says that services and tokens of a federation follow.
    package static let federationHead = ExportRecord.head(
        ExportHead(
            time: 1_763_800_000, store: store, revocationList: 7, tokensRemoved: 1_763_700_000, secretCheck: nil,
            hasFederation: true))

    package static let service = FederationService(
        id: "00000000-0000-4000-8000-000000000001", name: "Learning \u{1f393}", url: "https://learn.example",
        tokenEndpoint: "https://learn.example/token", descriptionURL: "https://learn.example/services.txt",
        info: "\"quoted\"", operatorName: "university", secret: Fixture.fingerprint(1, kind: 20), joinedAt: 15,
        approvedAt: 16, revokedAt: 17)

    package static let federationToken = FederationToken(
        id: Fixture.fingerprint(2, kind: 22), kind: .app, parent: Fixture.fingerprint(1, kind: 22),
        device: Fixture.hardwareKey(2), audience: "https://learn.example", party: "org.example.other",
        scope: "read write", thumbprint: "thumbprint", issuedAt: 18, expiresAt: 19, revokedAt: 20)

    package static let barred = BarredKey(key: Fixture.hardwareKey(9), kind: .hardware, barredAt: 14)

    package static func certificate(_ number: Int) -> ExportRecord {
        .certificate(
            ExportedCertificate(serial: Fixture.serial(number), key: Fixture.bindingKey(2), notAfter: 12))
    }

    package static func end(_ change: (inout ExportCounts) -> Void = { _ in }) -> ExportRecord {
        var counts = ExportCounts()
        change(&counts)
        return .end(ExportEnd(counts: counts, digest: Fixture.fingerprint(1, kind: 8)))
    }

    package static let all = [
        head, leastDevice, fullDevice, certificate(1), .usedToken(Fixture.token(1)),
        .revokedSubject(Fixture.subject(1), at: 13), .barredKey(barred),
        end {
            $0.devices = 2
            $0.certificates = 1
            $0.usedTokens = 1
            $0.revokedSubjects = 1
            $0.barredKeys = 1
        },
    ]
}
