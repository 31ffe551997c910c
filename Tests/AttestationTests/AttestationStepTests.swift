import Attestation
import COpenSSL
import Cryptography
import Encoding
import Testing
import Vocabulary

/// For each step, an attestation by the test authority that is wrong in this step only.
@Suite("Attestation steps")
struct AttestationStepTests {
    private let authority: TestAuthority

    init() throws { authority = try TestAuthority(LibraryContext()) }

    private func faults(
        _ change: (inout AttestationForgery) throws -> Void, apps: [AttestedApp] = [AttestationForgery.app],
        at time: Int64 = AttestationForgery.time
    ) throws -> [AttestationFault] {
        var forgery = try AttestationForgery(authority)
        try change(&forgery)
        return try forgery.refusals(forgery.evidence(), apps, at: time)
    }

    @Test("a correct attestation is accepted in every form that Apple's systems send")
    func accepted() throws {
        #expect(try faults { _ in } == [])
        #expect(try faults { $0.receipt = nil } == [])
        #expect(try faults { $0.receipt = [] } == [])
        #expect(try faults { $0.systemExtensions = [] } == [])
        #expect(try faults { $0.systemExtensions = [AttestationForgery.system("14.2", platform: nil)] } == [])
        #expect(try faults { $0.extensions = AttestationForgery.extensions() } == [])
        #expect(try faults { $0.extensions = CBORWriter.map([("apple_new_01", [0xf5])]) } == [])
        #expect(try faults { $0.unsigned = [("cdHash", CBORWriter.bytes([1, 2, 3]))] } == [])
        for flags in [0x00, 0x40, 0xc0, 0xff] as [UInt8] { #expect(try faults { $0.flags = flags } == []) }
        // Apple's own samples pass the challenge instead of its hash.
        #expect(try faults { $0.clientDataHash = Array("test_server_challenge".utf8) } == [])
        #expect(try faults { $0.clientDataHash = [] } == [])
    }

    @Test("form: other formats, entries and sizes are refused")
    func form() throws {
        #expect(try faults { $0.format = "apple" } == [.unknownFormat])
        #expect(try faults { $0.unsigned = [("more", [0xf6])] } == [.unknownEntry])
        #expect(try faults { $0.furtherCertificates = [[1]] } == [.certificateCount(3)])
        #expect(try faults { $0.receipt = [UInt8](repeating: 0, count: 16 * 1024) } == [.tooLong])
        #expect(try faults { $0.coseKey = [] } == [.authenticatorData(.credential(.truncated))])
        #expect(try faults { $0.coseKey = [0x00] } == [.authenticatorData(.credential(.unexpectedType))])
    }

    @Test("RP id: another app and another spelling of the app id are refused")
    func rpID() throws {
        for id in ["TEAM123456.com.example.other", "com.example.app", "team123456.com.example.app", ""] {
            #expect(try faults { $0.rpID = id } == [.rpIDMismatch])
        }
    }

    @Test("counter: anything but 0 is refused", arguments: [1, 256, UInt32.max])
    func counter(_ counter: UInt32) throws {
        #expect(try faults { $0.counter = counter } == [.counterNotZero(counter)])
    }

    @Test("AAGUID: the other environment and unknown values are refused")
    func environment() throws {
        let development = Array("appattestdevelop".utf8)
        #expect(try faults { $0.aaguid = development } == [.environmentMismatch(.development)])
        let sandbox = [AttestedApp(id: AttestationForgery.appID, environment: .development)]
        #expect(try faults({ $0.aaguid = development }, apps: sandbox) == [])
        #expect(try faults({ _ in }, apps: sandbox) == [.environmentMismatch(.production)])
        for other in ["appattest\0\0\0\0\0\0\u{1}", "appattestdevelo\0", "Appattestdevelop", "\0appattest\0\0\0\0\0\0"]
        {
            #expect(try faults { $0.aaguid = Array(other.utf8) } == [.environmentMismatch(nil)])
        }
    }

    @Test("extensions: exactly one map is accepted, with known extensions in Apple's form")
    func extensions() throws {
        let map = AttestationForgery.extensions()
        #expect(try faults { $0.extensions = map + [0] } == [.extensions(.extensions(.trailingBytes))])
        #expect(try faults { $0.extensions = map + map } == [.extensions(.extensions(.trailingBytes))])
        #expect(try faults { $0.extensions = [0x00] } == [.extensions(.extensions(.unexpectedType))])
        let wrong = CBORWriter.map([("apple_validation_category_01", [0x04])])
        #expect(try faults { $0.extensions = wrong } == [.extensions(.extensions(.unexpectedType))])
    }

    @Test("validation category: only admitted ones are accepted; the app decides about absence")
    func category() throws {
        func app(_ absence: AppExtensionPolicy.Absence) -> [AttestedApp] {
            let policy = AppExtensionPolicy(categories: .init([.appStore, .testFlight], absence: absence))
            return [AttestedApp(id: AttestationForgery.appID, environment: .production, extensions: policy)]
        }
        #expect(try faults({ $0.extensions = AttestationForgery.extensions(category: 4) }, apps: app(.refused)) == [])
        #expect(
            try faults({ $0.extensions = AttestationForgery.extensions(category: 5) }, apps: app(.admitted))
                == [.validationCategory(.notAdmitted)])
        #expect(try faults({ _ in }, apps: app(.admitted)) == [])
        #expect(try faults({ _ in }, apps: app(.refused)) == [.validationCategory(.absent)])
    }

    @Test("bundle version: none below the least is accepted; the app decides about absence")
    func bundleVersion() throws {
        func app(_ absence: AppExtensionPolicy.Absence) throws -> [AttestedApp] {
            let least = try #require(BundleVersion("1.10"))
            let policy = AppExtensionPolicy(minimumVersion: .init(least, absence: absence))
            return [AttestedApp(id: AttestationForgery.appID, environment: .production, extensions: policy)]
        }
        func faults(_ version: String) throws -> [AttestationFault] {
            try self.faults(
                { $0.extensions = AttestationForgery.extensions(version: version) }, apps: app(.admitted))
        }
        for version in ["1.10", "1.10.0", "1.11", "2"] { #expect(try faults(version) == []) }
        for version in ["1.9.9", "1.2", "1", "0"] { #expect(try faults(version) == [.bundleVersion(.notAdmitted)]) }
        for version in ["", "1.x", "1..2", "-1"] { #expect(try faults(version) == [.bundleVersion(.unreadable)]) }
        #expect(try self.faults({ _ in }, apps: app(.admitted)) == [])
        #expect(try self.faults({ _ in }, apps: app(.refused)) == [.bundleVersion(.absent)])
    }

    @Test("system version: not below the least, and absence means what the app says")
    func systemVersion() throws {
        func faults(
            _ version: String?, platform: String? = "iphoneos", absence: AppExtensionPolicy.Absence = .admitted
        ) throws -> [AttestationFault] {
            let least = try #require(SystemVersion("17.4"))
            let policy = AppExtensionPolicy(minimumSystem: .init(least, absence: absence))
            let app = AttestedApp(id: AttestationForgery.appID, environment: .production, extensions: policy)
            return try self.faults(
                { $0.systemExtensions = [AttestationForgery.system(version, platform: platform)] }, apps: [app])
        }
        for version in ["17.4", "17.4.0", "17.4.1", "17.10", "18"] { #expect(try faults(version) == []) }
        for version in ["17.3.9", "17.1", "17", "9.99"] {
            #expect(try faults(version) == [.systemVersion(.notAdmitted)])
        }
        for version in ["", "17.x", "17.4 (21E5)"] { #expect(try faults(version) == [.systemVersion(.unreadable)]) }
        #expect(try faults("14.2", platform: nil) == [.systemVersion(.notAdmitted)])
        #expect(try faults(nil) == [])
        #expect(try faults(nil, absence: .refused) == [.systemVersion(.absent)])
        #expect(try self.faults { $0.systemExtensions = [AttestationForgery.system("x", platform: nil)] } == [])
    }

    @Test("key id: one that differs from what was sent, or from the attested key, is refused")
    func keyID() throws {
        var forgery = try AttestationForgery(authority)
        let other = [UInt8](repeating: 1, count: 32)
        #expect(try forgery.refusals(forgery.evidence(keyID: other)) == [.keyIDMismatch])

        let attested = try TestAuthority.key("P-256", authority.library)
        forgery.leafKey = attested
        forgery.coseKey = AttestationForgery.cose(TestAuthority.point(of: attested))
        #expect(try forgery.refusals(forgery.evidence()) == [.keyIDMismatch])
    }

    @Test("credential id: a different, longer or empty one is refused")
    func credentialID() throws {
        #expect(try faults { $0.credentialID[31] ^= 1 } == [.credentialIDMismatch])
        #expect(try faults { $0.credentialID += [0] } == [.credentialIDMismatch])
        #expect(try faults { $0.credentialID = [] } == [.credentialIDMismatch])
    }

    @Test("COSE key: another key and another kind of key are refused")
    func coseKey() throws {
        let other = try TestAuthority.point(of: TestAuthority.key("P-256", authority.library))
        #expect(try faults { $0.coseKey = AttestationForgery.cose(other) } == [.coseKeyMismatch])
        func point(_ forgery: AttestationForgery) -> [UInt8] { TestAuthority.point(of: forgery.key) }
        #expect(try faults { $0.coseKey = AttestationForgery.cose(point($0), kty: 1) } == [.coseKeyKind])
        #expect(try faults { $0.coseKey = AttestationForgery.cose(point($0), alg: 0x27) } == [.coseKeyKind])
        #expect(try faults { $0.coseKey = AttestationForgery.cose(point($0), crv: 2) } == [.coseKeyKind])
        #expect(try faults { $0.coseKey = [0xa0] } == [.coseKeyKind])
        #expect(
            try faults { forgery in
                forgery.coseKey[0] = 0xa6
                forgery.coseKey += [0x04, 0x00]
            } == [.coseKeyKind])
    }

    @Test("nonce extension: a missing or repeated one and every other form are refused")
    func nonceExtension() throws {
        let nonce = [UInt8](repeating: 9, count: 32)
        let right = DERWriter.nonce(nonce)
        #expect(try faults { $0.nonceExtensions = [] } == [.nonceExtensionCount(0)])
        let forms: [([UInt8], DERFault)] = [
            ([], .truncated), (right + [0], .trailingBytes), (DERWriter.octetString(nonce), .unexpectedTag),
            (DERWriter.sequence(DERWriter.octetString(nonce)), .unexpectedTag),
            (DERWriter.sequence(DERWriter.explicit(2, DERWriter.octetString(nonce))), .unexpectedTag),
            (DERWriter.nonce(Array(nonce.dropLast())), .unexpectedValue),
            (DERWriter.nonce(nonce + [0]), .unexpectedValue),
            (DERWriter.sequence(DERWriter.explicit(1, DERWriter.octetString(nonce) + [5, 0])), .trailingBytes),
            (DERWriter.sequence(DERWriter.explicit(1, DERWriter.octetString(nonce)), [5, 0]), .trailingBytes),
            ([0x30, 0x80] + right.dropFirst(2) + [0, 0], .indefiniteLength),
            ([0x30, 0x81] + right.dropFirst(), .notShortest),
        ]
        for (form, fault) in forms {
            #expect(try faults { $0.nonceExtensions = [form] } == [.nonceExtensionForm(fault)])
        }
    }

    @Test("a leaf with two nonces is refused, even if one is right")
    func twoNonces() throws {
        var forgery = try AttestationForgery(authority)
        let data = try forgery.authenticatorData
        let right = try authority.library.sha256(of: data.span, forgery.clientDataHash.span).bytes
        let other = DERWriter.nonce([UInt8](repeating: 9, count: 32))
        for nonces in [[DERWriter.nonce(right), other], [other, DERWriter.nonce(right)]] {
            forgery.nonceExtensions = nonces
            #expect(try forgery.refusals(forgery.evidence()) == [.nonceExtensionCount(2)])
        }
    }

    @Test("nonce: one made for another client data hash is refused")
    func nonce() throws {
        let forgery = try AttestationForgery(authority)
        for hash in [[], [UInt8](repeating: 8, count: 32), forgery.clientDataHash + [0]] {
            #expect(try forgery.refusals(forgery.evidence(signing: hash)) == [.nonceMismatch])
        }
    }

    @Test("platform: one the app does not list, or that cannot be read, is refused")
    func platform() throws {
        let macOS = AttestationForgery.system("27.0", platform: "macosx")
        #expect(try faults { $0.systemExtensions = [macOS] } == [.platformRefused(.macOS)])
        let onMac = [AttestedApp(id: AttestationForgery.appID, environment: .production, platforms: [.macOS])]
        #expect(try faults({ $0.systemExtensions = [macOS] }, apps: onMac) == [])
        #expect(try faults({ $0.systemExtensions = [] }, apps: onMac) == [.platformRefused(.unstated)])
        #expect(try faults { $0.systemExtensions = [macOS, macOS] } == [.platformForm(.unexpectedValue)])
        for name in ["", "iphone os", "unstated", "\u{e9}", String(repeating: "x", count: 33)] {
            let form = AttestationForgery.system("27.0", platform: name)
            #expect(try faults { $0.systemExtensions = [form] } == [.platformForm(.unexpectedValue)])
        }
        #expect(try faults { $0.systemExtensions = [[0x30, 0x01]] } == [.platformForm(.truncated)])
    }

    @Test("CA flags: a leaf that is an authority or an intermediate that is not is refused")
    func authorityFlags() throws {
        #expect(try faults { $0.leafIsAuthority = true } == [.leafIsAuthority])
        #expect(try faults { $0.leafIsAuthority = nil } == [])
        for isAuthority in [false, nil] {
            let intermediate = try authority.intermediate(isAuthority: isAuthority)
            #expect(try faults { $0.sentIntermediate = intermediate } == [.intermediateIsNoAuthority])
        }
        let unsigning = try authority.intermediate(keyUsage: "digitalSignature")
        #expect(try faults { $0.sentIntermediate = unsigning } == [.intermediateIsNoAuthority])
    }

    @Test("validity: leaf and intermediate are checked to the second")
    func validity() throws {
        let leaf = (AttestationForgery.time - 86_400)...(AttestationForgery.time + 172_800)
        for time in [leaf.lowerBound, leaf.upperBound] { #expect(try faults({ _ in }, at: time) == []) }
        for time in [leaf.lowerBound - 1, leaf.upperBound + 1] {
            #expect(try faults({ _ in }, at: time).map(\.step) == [.validity])
        }
        let expired = try authority.intermediate(validity: 1_600_000_000...(AttestationForgery.time - 1))
        #expect(try faults { $0.sentIntermediate = expired }.map(\.step) == [.validity])
        let later = try authority.intermediate(validity: (AttestationForgery.time + 1)...2_000_000_000)
        #expect(try faults { $0.sentIntermediate = later }.map(\.step) == [.validity])
    }

    @Test("chain: another authority of the same name is refused for leaf, intermediate and root")
    func chain() throws {
        let other = try TestAuthority(authority.library)
        let forgery = try AttestationForgery(authority)
        #expect(try forgery.refusals(forgery.evidence(), root: other.trustedRoot()).map(\.step) == [.chain])
        #expect(try faults { $0.leafIssuer = (other, try other.intermediate()) }.map(\.step) == [.chain])
        #expect(try faults { $0.sentIntermediate = try other.intermediate() }.map(\.step) == [.chain])
        let apple = try AppleRoots.appAttestation(authority.library)
        #expect(try forgery.refusals(forgery.evidence(), root: apple).map(\.step) == [.chain])
    }

    @Test("chain: an expired root is refused")
    func expiredRoot() throws {
        let end = TestAuthority.validity.upperBound
        let faults = try faults({ $0.leafValidity = (end - 10)...(end + 10) }, at: end + 1)
        #expect(faults.map(\.step) == [.validity])
        let later = try authority.intermediate(validity: end...(end + 10))
        let rootOnly = try self.faults(
            {
                $0.leafValidity = (end - 10)...(end + 10)
                $0.sentIntermediate = later
            }, at: end + 1)
        #expect(rootOnly.map(\.step) == [.chain])
    }

    @Test("chain: a cached intermediate does not validate another intermediate")
    func rememberedIntermediate() throws {
        let root = try authority.trustedRoot()
        let genuine = try AttestationForgery(authority)
        let other = try TestAuthority(authority.library)
        var forged = try AttestationForgery(authority)
        forged.leafIssuer = (other, try other.intermediate())
        var forgedAbove = forged
        forgedAbove.sentIntermediate = try other.intermediate()
        for _ in 0..<3 {
            #expect(try genuine.refusals(genuine.evidence(), root: root) == [])
            #expect(try forged.refusals(forged.evidence(), root: root).map(\.step) == [.chain])
            #expect(try forgedAbove.refusals(forgedAbove.evidence(), root: root).map(\.step) == [.chain])
        }
    }

    @Test("receipt: a required receipt that is missing or not genuine is refused")
    func receipt() throws {
        let demanding = [
            AttestedApp(id: AttestationForgery.appID, environment: .production, demandsReceipt: true)
        ]
        #expect(try faults({ $0.receipt = nil }, apps: demanding) == [.receiptMissing])
        #expect(try faults({ _ in }, apps: demanding).map(\.step) == [.receipt])
    }

    @Test("certificates: a leaf whose key is on another curve is refused")
    func certificates() throws {
        var forgery = try AttestationForgery(authority)
        forgery.leafKey = try TestAuthority.key("P-384", authority.library)
        let refused = try forgery.refusals(forgery.evidence())
        #expect(refused == [.leafKey])
    }

    @Test("a simulator app has its own root; Apple's root is not valid for it")
    func simulator() throws {
        let forgery = try AttestationForgery(authority)
        let app = AttestedApp(id: AttestationForgery.appID, environment: .simulator)
        let own = try authority.trustedRoot()
        let apple = try TestAuthority(authority.library).trustedRoot()
        let receipts = try AppleRoots.receipts(authority.library)
        func isAccepted(_ roots: AttestationVerifier.Roots, _ app: AttestedApp) throws -> Bool {
            let verifier = try AttestationVerifier(apps: [app], roots: roots, authority.library)
            return try verifier.report(forgery.evidence(), at: AttestationForgery.time).verified != nil
        }
        #expect(try isAccepted(.init(apple: apple, simulator: own, receipts: receipts), app))
        #expect(try !isAccepted(.init(apple: own, simulator: apple, receipts: receipts), app))
        #expect(try !isAccepted(.init(apple: apple, simulator: own, receipts: receipts), AttestationForgery.app))
    }

    @Test("an empty or contradictory list of apps is refused")
    func appLists() throws {
        let forgery = try AttestationForgery(authority)
        let id = AttestationForgery.appID
        #expect(throws: AppListFault.empty) { try forgery.verifier([]) }
        #expect(throws: AppListFault.repeated(id)) {
            try forgery.verifier([AttestationForgery.app, AttestationForgery.app])
        }
        let simulator = AttestedApp(id: id, environment: .simulator)
        #expect(throws: AppListFault.rootMissing(id)) { try forgery.verifier([simulator]) }
        let root = try authority.trustedRoot()
        let roots = AttestationVerifier.Roots(apple: root, simulator: root, receipts: root)
        #expect(throws: AppListFault.twoRoots(id)) {
            try AttestationVerifier(apps: [AttestationForgery.app, simulator], roots: roots, authority.library)
        }
    }
}
