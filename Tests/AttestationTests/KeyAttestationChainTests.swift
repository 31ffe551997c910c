import Attestation
import COpenSSL
import Cryptography
import DeviceSimulator
import Encoding
import Testing

/// Attacks on the chain of a key attestation: certificates that are genuine one by one, or signed by a test's root.
@Suite("Chains of key attestations")
struct KeyAttestationChainTests {
    typealias Kind = KeyAttestationForgery.Kind

    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    private func forgery(_ kind: Kind) throws -> KeyAttestationForgery { try KeyAttestationForgery(kind, library) }

    private func fault(
        _ kind: Kind, _ change: (inout KeyAttestationForgery) throws -> Void
    ) throws -> KeyAttestationFault? {
        var forgery = try forgery(kind)
        try change(&forgery)
        return try forgery.fault()
    }

    /// Returns a certificate of another maker, to be inserted.
    private func link(_ name: String) throws -> CertificateForm {
        CertificateForm(
            name: [("CN", name)], key: try TestAuthority.key("P-256", library),
            validity: KeyAttestationForgery.validity)
    }

    @Test("an unchanged chain is accepted, with its root and without", arguments: Kind.allCases)
    func accepted(_ kind: Kind) throws {
        #expect(try fault(kind) { _ in } == nil)
        #expect(try fault(kind) { $0.sendsRoot = false } == nil)
        let forgery = try forgery(kind)
        let verified = try forgery.verifier().verify(forgery.evidence(), at: forgery.time, forgery.list)
        #expect(verified.publicKey == TestAuthority.point(of: forgery.links[0].key))
        #expect(verified.keyID.bytes == (try library.sha256(of: verified.publicKey.span).bytes))
        #expect(verified.app == forgery.app)
        #expect(verified.serials.map(\.decimal).dropLast() == forgery.links[1...].map { "\($0.serial)" }.dropLast())
    }

    // MARK: - Certificates

    @Test("a chain of any other number of certificates is refused", arguments: Kind.allCases)
    func lengths(_ kind: Kind) throws {
        let forgery = try forgery(kind)
        let right = forgery.links.count
        for count in [0, 1, 7, 8] {
            let sent = try Array(repeating: forgery.certificates()[0], count: count)
            #expect(try forgery.fault(sent) == .certificateCount(count))
        }
        for count in 2...6 where count != right {
            var other = forgery
            if count < right {
                other.links.removeSubrange(1..<(1 + right - count))
                // The leaf becomes the certificate below the root.
                if count == 2 { other.links[0].name = forgery.links[right - 2].name }
            } else {
                for _ in right..<count { other.links.insert(try link("inserted"), at: 1) }
            }
            #expect(try other.fault() == .chainLength(count, expected: right), "\(count)")
            other.sendsRoot = false
            let withoutRoot: KeyAttestationFault =
                count == 2 ? .certificateCount(1) : .chainLength(count, expected: right)
            #expect(try other.fault() == withoutRoot, "\(count) without root")
        }
    }

    @Test("a certificate that is cut off, longer than it says, or empty is refused", arguments: Kind.allCases)
    func truncated(_ kind: Kind) throws {
        let forgery = try forgery(kind)
        let genuine = try forgery.certificates()
        for position in genuine.indices {
            for count in genuine[position].indices {
                var sent = genuine
                sent[position] = Array(genuine[position][..<count])
                #expect(try forgery.fault(sent) == .certificateUnreadable(position))
            }
            var sent = genuine
            sent[position].append(0)
            #expect(try forgery.fault(sent) == .certificateUnreadable(position))
        }
    }

    @Test("a certificate in BER instead of DER is refused", arguments: Kind.allCases)
    func notCanonical(_ kind: Kind) throws {
        let forgery = try forgery(kind)
        let genuine = try forgery.certificates()
        for position in genuine.indices {
            let der = genuine[position]
            try #require(der.starts(with: [0x30, 0x82]))
            for other in [[0x30, 0x83, 0] + der[2...], [0x30, 0x80] + der[4...] + [0, 0]] {
                // OpenSSL reads both.
                #expect(throws: Never.self) { try Certificate(der: other.span, library) }
                var sent = genuine
                sent[position] = other
                #expect(try forgery.fault(sent) == .certificateUnreadable(position))
            }
        }
    }

    @Test("a certificate of more than 8 KiB is refused, one of 8 KiB is not", arguments: Kind.allCases)
    func longCertificate(_ kind: Kind) throws {
        func forged(padding: Int) throws -> KeyAttestationForgery {
            var forged = try self.forgery(kind)
            forged.leafDescriptions = [forged.description.der, [UInt8](repeating: 0, count: padding)]
            return forged
        }
        let spare = try 8192 - forged(padding: 7000).certificates()[0].count
        // Lengths of signatures vary by some bytes.
        #expect(try forged(padding: 7000 + spare - 8).fault() == .keyDescriptionCount(2))
        #expect(try forged(padding: 7000 + spare + 8).fault() == .certificateTooLong(0))
        let forgery = try forgery(kind)
        var sent = try forgery.certificates()
        sent[1] = [UInt8](repeating: 0x30, count: 1 << 20)
        #expect(try forgery.fault(sent) == .certificateTooLong(1))
    }

    @Test("a list of 100,000 certificates is refused before any is read")
    func manyCertificates() throws {
        let forgery = try forgery(.factory)
        let sent = [[UInt8]](repeating: try forgery.certificates()[0], count: 100_000)
        #expect(try forgery.fault(sent) == .certificateCount(100_000))
    }

    @Test("an extension of virtual machines is refused in any certificate", arguments: Kind.allCases)
    func virtualMachine(_ kind: Kind) throws {
        let family = "1.3.6.1.4.1.11129.2.1.29"
        for position in try forgery(kind).links.indices {
            for identifier in [family, family + ".1", family + ".1.2"] {
                let found = try fault(kind) { $0.links[position].extensions.append(.init(identifier, [5, 0])) }
                #expect(found == .virtualMachine(position))
            }
            for identifier in ["1.3.6.1.4.1.11129.2.1.290", "1.3.6.1.4.1.11129.2.1.30", "1.3.6.1.4.1.11129.2.1.2.9"] {
                #expect(try fault(kind) { $0.links[position].extensions.append(.init(identifier, [5, 0])) } == nil)
            }
        }
    }

    // MARK: - Root, names and signatures

    @Test("another root is refused, also one with the same name", arguments: Kind.allCases)
    func anotherRoot(_ kind: Kind) throws {
        let forgery = try forgery(kind)
        let other = try self.forgery(kind)
        #expect(try forgery.fault(other.certificates()) == .rootUnknown)
        #expect(try forgery.fault(Array(other.certificates().dropLast())) == .rootUnknown)
        // The right root above another chain.
        let mixed = try Array(other.certificates().dropLast()) + forgery.certificates().suffix(1)
        #expect(try forgery.fault(mixed) == .signatureInvalid(forgery.links.count - 2))
    }

    @Test("a root that another key signed, or with another content, is refused", arguments: Kind.allCases)
    func alteredRoot(_ kind: Kind) throws {
        let root = try forgery(kind).links.count - 1
        #expect(try fault(kind) { $0.signers[root] = $0.links[0].key } == .signatureInvalid(root))
        #expect(try fault(kind) { $0.links[root].issuer = [("CN", "another")] } == .issuerMismatch(root))
    }

    @Test("Google's roots are not valid for software phones, nor theirs for production", arguments: Kind.allCases)
    func environments(_ kind: Kind) throws {
        var forgery = try forgery(kind)
        let google = try GoogleRoots.keyAttestation(library)
        let own = [try forgery.rootCertificate]
        func fault(_ roots: KeyAttestationVerifier.Roots) throws -> KeyAttestationFault? {
            try KeyAttestationVerifier(apps: [forgery.app], roots: roots, library).fault(
                of: forgery.evidence(), at: forgery.time, forgery.list)
        }
        #expect(try fault(.init(google: google, simulator: own)) == .rootUnknown)
        forgery.app.environment = .simulator
        #expect(try fault(.init(google: google, simulator: own)) == nil)
        #expect(try fault(.init(google: own, simulator: google)) == .rootUnknown)
        #expect(try fault(.init(google: own)) == .rootUnknown)
    }

    @Test("certificates in another order are refused", arguments: Kind.allCases)
    func swapped(_ kind: Kind) throws {
        let forgery = try forgery(kind)
        let genuine = try forgery.certificates()
        for first in genuine.indices {
            for second in genuine.indices.dropFirst(first + 1) {
                var sent = genuine
                sent.swapAt(first, second)
                let found = try #require(try forgery.fault(sent))
                #expect(found.step == .signatures || found == .rootUnknown, "\(first) and \(second): \(found)")
            }
        }
        #expect(try forgery.fault(genuine.reversed()) == .rootUnknown)
    }

    @Test("a certificate sent twice is refused", arguments: Kind.allCases)
    func doubled(_ kind: Kind) throws {
        let forgery = try forgery(kind)
        let genuine = try forgery.certificates()
        for position in genuine.indices.dropLast() {
            var sent = genuine
            sent.insert(genuine[position], at: position)
            #expect(try forgery.fault(sent) == .issuerMismatch(position))
            sent = genuine
            sent[position + 1] = genuine[position]
            let found = try #require(try forgery.fault(sent))
            #expect(found.step == .signatures || found == .rootUnknown)
        }
        #expect(try forgery.fault(genuine + [genuine[genuine.count - 1]]) == .provisioningUnknown)
    }

    @Test("a root in place of the certificate below it is refused", arguments: Kind.allCases)
    func doubledRoot(_ kind: Kind) throws {
        let found = try fault(kind) { forgery in
            forgery.links.remove(at: forgery.links.count - 2)
            forgery.links.append(forgery.links[forgery.links.count - 1])
        }
        #expect(found == .provisioningUnknown)
    }

    @Test("each certificate is issued and signed by the next", arguments: Kind.allCases)
    func pairs(_ kind: Kind) throws {
        for position in try forgery(kind).links.indices.dropLast() {
            #expect(
                try fault(kind) { $0.links[position].issuer = [("CN", "another")] } == .issuerMismatch(position))
            let other = try TestAuthority.key("P-256", library)
            #expect(try fault(kind) { $0.signers[position] = other } == .signatureInvalid(position))
            #expect(try fault(kind) { $0.links[position].digest = "SHA1" } == .signatureInvalid(position))
            #expect(try fault(kind) { $0.links[position].digest = "SHA512" } == nil)
        }
    }

    @Test("of two wrong signatures the upper is found: no key is used before it is trusted", arguments: Kind.allCases)
    func order(_ kind: Kind) throws {
        let other = try TestAuthority.key("P-256", library)
        let positions = try forgery(kind).links.indices
        for lower in positions {
            for upper in positions.dropFirst(lower + 1) {
                let found = try fault(kind) { forgery in
                    forgery.signers[lower] = other
                    forgery.signers[upper] = other
                }
                #expect(found == .signatureInvalid(upper))
            }
        }
    }

    @Test("a weak key above the leaf is refused", arguments: Kind.allCases)
    func weakKeys(_ kind: Kind) throws {
        for position in try forgery(kind).links.indices.dropFirst().dropLast() {
            for (name, isStrong) in [("P-224", false), ("P-384", true), ("P-521", true), ("secp256k1", true)] {
                let key = try TestAuthority.key(name, library)
                let expected: KeyAttestationFault? = isStrong ? nil : .signatureInvalid(position - 1)
                #expect(try fault(kind) { $0.links[position].key = key } == expected, "\(name)")
            }
            for (bits, isStrong) in [(1024, false), (2048, true)] {
                let key = try TestAuthority.rsaKey(bits, library)
                let expected: KeyAttestationFault? = isStrong ? nil : .signatureInvalid(position - 1)
                #expect(try fault(kind) { $0.links[position].key = key } == expected, "RSA-\(bits)")
            }
        }
    }

    @Test("a key above the leaf that OpenSSL cannot decode is refused", arguments: Kind.allCases)
    func unknownKey(_ kind: Kind) throws {
        let key = CertificateForm.UnknownKey(
            algorithm: "2.16.840.1.101.3.4.3.18", bytes: .init(repeating: 3, count: 1952))
        for position in try forgery(kind).links.indices.dropFirst().dropLast() {
            #expect(try fault(kind) { $0.links[position].unknownKey = key } == .signatureInvalid(position - 1))
        }
    }

    // MARK: - Provisioning and validity

    @Test("a certificate below the root of no known kind is refused")
    func provisioning() throws {
        let names: [[(String, String)]] = [
            [], [("CN", "Droid CA2")], [("O", "Google LLC")], [("CN", "Droid CA2"), ("O", "Google")],
            [("CN", "Droid CA3"), ("O", "Google LLC")], [("CN", "droid ca2"), ("O", "Google LLC")],
            [("CN", "Droid CA2"), ("CN", "other"), ("O", "Google LLC")],
            [("CN", "Droid CA2"), ("O", "Google LLC"), ("O", "other")],
        ]
        for name in names {
            #expect(try fault(.remote) { $0.links[3].name = name } == .provisioningUnknown, "\(name)")
            #expect(try fault(.factory) { $0.links[2].name = name } == .provisioningUnknown, "\(name)")
        }
    }

    @Test("a certificate below the root of the other kind demands the other length")
    func otherProvisioning() throws {
        let remote = try forgery(.remote).links[3].name
        let factory = try forgery(.factory).links[2].name
        #expect(try fault(.factory) { $0.links[2].name = remote } == .chainLength(4, expected: 5))
        #expect(try fault(.remote) { $0.links[3].name = factory } == .chainLength(5, expected: 4))
    }

    @Test("of factory chains, nothing expires; of remote ones, all but leaf and root do")
    func expiry() throws {
        let expired = 1_600_000_000...(KeyAttestationForgery.time - 1)
        let atLastSecond = 1_600_000_000...KeyAttestationForgery.time
        for kind in Kind.allCases {
            let links = try forgery(kind).links
            for position in links.indices {
                let found = try fault(kind) { $0.links[position].validity = expired }
                let mayExpire = kind == .factory || position == 0 || position == links.count - 1
                #expect((found == nil) == mayExpire, "\(kind) \(position)")
                if let found { #expect(found.step == .validity) }
                #expect(try fault(kind) { $0.links[position].validity = atLastSecond } == nil)
            }
        }
    }

    @Test("every certificate but the leaf must be valid already", arguments: Kind.allCases)
    func notYetValid(_ kind: Kind) throws {
        let later = (KeyAttestationForgery.time + 1)...2_000_000_000
        for position in try forgery(kind).links.indices {
            let found = try fault(kind) { $0.links[position].validity = later }
            #expect((found == nil) == (position == 0))
            if let found { #expect(found.step == .validity) }
        }
        let found = try fault(kind) { forgery in
            forgery.links[forgery.links.count - 1].validity = later
            forgery.sendsRoot = false
        }
        #expect(found == nil)
    }

    // MARK: - Key descriptions

    @Test("a forged leaf below a genuine leaf is refused, with and without attest_key: allow", arguments: Kind.allCases)
    func forgedLeaf(_ kind: Kind) throws {
        func forged(_ change: (inout KeyAttestationForgery) throws -> Void) throws -> KeyAttestationFault? {
            try fault(kind) { forgery in
                // The attacker's phone signs what it likes with its attested key.
                let genuine = KeyDescriptionForgery()
                forgery.links[0].extensions.append(.init(KeyDescription.identifier, genuine.der))
                forgery.links.insert(try self.link("Android Keystore Key"), at: 0)
                try change(&forgery)
            }
        }
        let right = try forgery(kind).links.count
        #expect(try forged { _ in } == .chainLength(right + 1, expected: right))
        #expect(try forged { $0.sendsRoot = false } == .chainLength(right + 1, expected: right))
        #expect(try forged { $0.app.allowsAttestKey = true } == .keyDescriptionAbove(1))
        // With a certificate left out, the length is right, and a signature is not.
        #expect(try forged { $0.signers[1] = $0.links.remove(at: 2).key } == .signatureInvalid(1))
    }

    @Test("a leaf without a key description, or with two, is refused", arguments: Kind.allCases)
    func count(_ kind: Kind) throws {
        let der = KeyDescriptionForgery().der
        #expect(try fault(kind) { $0.leafDescriptions = [] } == .keyDescriptionCount(0))
        #expect(try fault(kind) { $0.leafDescriptions = [der, der] } == .keyDescriptionCount(2))
        #expect(try fault(kind) { $0.leafDescriptions = [der, []] } == .keyDescriptionCount(2))
        let isCritical = try fault(kind) { forgery in
            forgery.leafDescriptions = []
            forgery.links[0].extensions = [.init(KeyDescription.identifier, der, isCritical: true)]
        }
        #expect(isCritical == nil)
    }

    @Test("a key description in a second certificate is refused", arguments: Kind.allCases)
    func twoCertificates(_ kind: Kind) throws {
        for position in try forgery(kind).links.indices.dropFirst() {
            for content in [KeyDescriptionForgery().der, KeyAttestationForgery.attestKey.der, []] {
                let found = try fault(kind) {
                    $0.links[position].extensions = [.init(KeyDescription.identifier, content)]
                }
                #expect(found == .keyDescriptionAbove(position))
            }
        }
        // One in the wrong certificate alone.
        let moved = try fault(kind) { forgery in
            forgery.leafDescriptions = []
            forgery.links[1].extensions = [.init(KeyDescription.identifier, forgery.description.der)]
        }
        #expect(moved == .keyDescriptionCount(0))
    }

    // MARK: - Attest keys

    @Test("a key attested by a key of the app's own is accepted only with attest_key: allow", arguments: Kind.allCases)
    func attestKey(_ kind: Kind) throws {
        let right = try forgery(kind).links.count
        #expect(try fault(kind) { try $0.insertAttestKey() } == .chainLength(right + 1, expected: right))
        for sendsRoot in [true, false] {
            let found = try fault(kind) { forgery in
                try forgery.insertAttestKey()
                forgery.app.allowsAttestKey = true
                forgery.sendsRoot = sendsRoot
            }
            #expect(found == nil)
        }
        // An app that allows such keys need not use one.
        #expect(try fault(kind) { $0.app.allowsAttestKey = true } == nil)
    }

    @Test("a serial number that no list can name is refused, even of the app's own key", arguments: Kind.allCases)
    func serialNumbers(_ kind: Kind) throws {
        let longest = "0x7f" + String(repeating: "ab", count: 19)
        for (serial, expected) in [
            (longest, nil), (longest + "ab", KeyAttestationFault.serialNumber(1)), ("-0x1f", .serialNumber(1)),
            ("0x0", nil),
        ] {
            let found = try fault(kind) { forgery in
                try forgery.insertAttestKey()
                forgery.app.allowsAttestKey = true
                forgery.links[1].unusualSerial = serial
            }
            #expect(found == expected, "\(serial)")
        }
        #expect(try fault(kind) { $0.links[2].unusualSerial = "-1" } == .serialNumber(2))
    }

    @Test("an attest key for other purposes, of another level or origin is refused", arguments: Kind.allCases)
    func wrongAttestKey(_ kind: Kind) throws {
        func fault(_ change: (inout KeyDescriptionForgery) -> Void) throws -> KeyAttestationFault? {
            try self.fault(kind) { forgery in
                var description = KeyAttestationForgery.attestKey
                change(&description)
                try forgery.insertAttestKey(description)
                forgery.app.allowsAttestKey = true
            }
        }
        #expect(try fault { _ in } == nil)
        for purposes in [[], [2], [2, 7], [7, 2], [7, 7], [3]] as [[UInt64]] {
            #expect(
                try fault { $0.setHardware(1, KeyDescriptionForgery.numbers(purposes)) } == .keyDescriptionAbove(1))
        }
        #expect(try fault { $0.setHardware(1, nil) } == .keyDescriptionAbove(1))
        #expect(try fault { $0.setHardware(702, KeyDescriptionForgery.number(2)) } == .keyDescriptionAbove(1))
        #expect(try fault { $0.setHardware(702, nil) } == .keyDescriptionAbove(1))
        #expect(try fault { $0.attestationLevel = 2 } == .keyDescriptionAbove(1))
        #expect(try fault { $0.keyMintLevel = 0 } == .keyDescriptionAbove(1))
        #expect(try fault { $0.further = [5, 0] } == .keyDescriptionAbove(1))
        // What software states of the purpose does not matter.
        let inSoftware = try fault { description in
            description.setHardware(1, nil)
            description.setSoftware(1, KeyDescriptionForgery.numbers([7]))
        }
        #expect(inSoftware == .keyDescriptionAbove(1))
    }

    @Test("a second attest key, or one above the attesting certificate, is refused", arguments: Kind.allCases)
    func twoAttestKeys(_ kind: Kind) throws {
        let right = try forgery(kind).links.count
        let two = try fault(kind) { forgery in
            try forgery.insertAttestKey()
            try forgery.insertAttestKey()
            forgery.app.allowsAttestKey = true
        }
        #expect(
            two == (kind == .factory ? .chainLength(right + 2, expected: right + 1) : .certificateCount(right + 2)))
        let above = try fault(kind) { forgery in
            forgery.app.allowsAttestKey = true
            forgery.links[2].extensions = [
                .init(KeyDescription.identifier, KeyAttestationForgery.attestKey.der)
            ]
        }
        #expect(above == .keyDescriptionAbove(2))
    }

    @Test("the subject of an attest key does not say where keys are kept", arguments: Kind.allCases)
    func attestKeySubject(_ kind: Kind) throws {
        for name in [[("O", "StrongBox")], [("title", "StrongBox"), ("serialNumber", "1")], []] {
            let found = try fault(kind) { forgery in
                try forgery.insertAttestKey()
                forgery.links[1].name = name
                forgery.app.allowsAttestKey = true
            }
            #expect(found == nil)
        }
    }

    // MARK: - Revocation

    @Test(
        "a serial on the list is refused, in hexadecimal and in decimal, but for the leaf's", arguments: Kind.allCases)
    func revoked(_ kind: Kind) throws {
        for sendsRoot in [true, false] {
            for position in try forgery(kind).links.indices {
                // The root that was not sent is the verifier's own.
                guard try sendsRoot || position < forgery(kind).links.count - 1 else { continue }
                for radix in [10, 16] {
                    let found = try fault(kind) { forgery in
                        forgery.sendsRoot = sendsRoot
                        forgery.list = AttestationStatusList(
                            serials: ["2", String(forgery.links[position].serial, radix: radix)])
                    }
                    #expect(found == (position == 0 ? nil : .revoked(position)))
                }
            }
        }
    }

    @Test("a serial with leading zeros in DER or an odd number of digits is found")
    func spellings() throws {
        for (serial, spelling) in [(0x80, "80"), (0xabc, "abc"), (0xabc, "2748"), (0x0f, "f"), (255, "255")] {
            let found = try fault(.factory) { forgery in
                forgery.links[1].serial = UInt64(serial)
                forgery.list = AttestationStatusList(serials: [spelling])
            }
            #expect(found == .revoked(1), "\(spelling)")
        }
    }

    @Test("without a list, an attestation is refused, and a report says that revocation was not checked")
    func noList() throws {
        let forgery = try forgery(.remote)
        let verifier = try forgery.verifier()
        let evidence = try forgery.evidence()
        #expect(throws: KeyAttestationFault.statusListMissing) {
            try verifier.verify(evidence, at: forgery.time, nil)
        }
        let report = verifier.report(evidence, at: forgery.time, nil, judgesChainOnly: false)
        #expect(report.isAccepted && report.fault == nil)
        guard case .notDemanded(.statusListMissing)? = report.steps.last?.outcome else {
            Issue.record("\(String(describing: report.steps.last?.outcome))")
            return
        }
    }
}
