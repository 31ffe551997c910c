import EventLoop
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Every store: tokens and services of the federation")
struct FederationConformanceTests {
    private static let url = "https://learn.example"

    /// A store with a device, whose key is bound, and an approved service.
    private struct Federation {
        let place: any StorePlace
        let store: AskedStore
        let device: DeviceID

        init(_ kind: StoreKind) throws {
            place = try kind.makePlace()
            store = try AskedStore(place)
            guard
                case .device(let details) = try store.perform(
                    .register(Fixture.identity(1), binding: Fixture.bindingKey(1)))
            else { throw AskedStore.OtherReply() }
            device = details.device.id
            try store.perform(.joinService(Self.service(1)))
            try store.perform(.approveService(Self.service(1).id))
        }

        static func service(
            _ number: Int, url: String = FederationConformanceTests.url, of operatorName: String = "university"
        ) -> FederationService {
            FederationService(
                id: "00000000-0000-4000-8000-00000000000\(number)", name: "Learning \u{1f393}", url: url,
                tokenEndpoint: "\(url)/token", descriptionURL: "\(url)/services.txt", info: nil,
                operatorName: operatorName, secret: Fixture.fingerprint(number, kind: 20), joinedAt: 900)
        }

        func grant(
            _ number: Int, _ kind: FederationToken.Kind, parent: Int? = nil, scope: [String]? = nil, key: Int = 1,
            audience: String? = FederationConformanceTests.url, assertion: Int? = nil, life: Int64 = 100,
            change: (inout [AppID: AppVersion]) -> Void = { _ in }
        ) throws -> TokenVerdict {
            var versions: [AppID: AppVersion] = [:]
            change(&versions)
            let reply = try store.perform(
                .grantToken(
                    TokenGrant(
                        token: Self.id(number), kind: kind, key: Fixture.bindingKey(key),
                        instance: Fixture.hardwareKey(1), parent: parent.map { Self.id($0) }, audience: audience,
                        party: kind == .app ? "org.example.other" : nil, scope: scope,
                        instanceScope: ["read", "write"], thumbprint: nil,
                        assertion: SingleUse(
                            id: Fixture.fingerprint(assertion ?? number, kind: 21), expiresAt: 2_000),
                        life: life, minimumVersions: versions)))
            guard case .token(let verdict) = reply else { throw AskedStore.OtherReply() }
            return verdict
        }

        static func id(_ number: Int) -> Fingerprint { Fixture.fingerprint(number, kind: 22) }

        func found(_ number: Int) throws -> FoundToken? {
            guard case .foundToken(let found) = try store.perform(.findToken(Self.id(number))) else {
                throw AskedStore.OtherReply()
            }
            return found
        }

        func isLive(_ number: Int) throws -> Bool { try found(number)?.isLive(at: store.time) ?? false }

        func revoke(_ number: Int, by revoker: TokenRevoker) throws -> TokenRevocation {
            guard case .tokenRevocation(let result) = try store.perform(.revokeToken(Self.id(number), by: revoker))
            else { throw AskedStore.OtherReply() }
            return result
        }
    }

    @Test("tokens are derived from their parents, with no more scope and no longer", arguments: StoreKind.allCases)
    func derivation(_ kind: StoreKind) throws {
        let federation = try Federation(kind)
        #expect(try federation.grant(1, .service) == .refused(.parentInvalid), "no instance is registered")
        guard case .issued(let instance) = try federation.grant(2, .instance, life: 60) else {
            throw AskedStore.OtherReply()
        }
        #expect(instance.scope == "read write")
        #expect(instance.expiresAt == 1_060)
        guard case .issued(let service) = try federation.grant(3, .service) else { throw AskedStore.OtherReply() }
        #expect(service.parent == instance.id)
        #expect(service.expiresAt == 1_060)
        #expect(
            try federation.grant(4, .app, parent: 3, scope: ["admin"], audience: nil) == .refused(.scopeExceeded))
        guard case .issued(let app) = try federation.grant(5, .app, parent: 3, scope: ["read"], audience: nil) else {
            throw AskedStore.OtherReply()
        }
        #expect(app.audience == Self.url)
        #expect(app.party == "org.example.other")
        #expect(try federation.found(5)?.token == app)
        #expect(try federation.grant(6, .app, parent: 5, audience: nil) == .refused(.parentInvalid))
        #expect(try federation.grant(7, .app, parent: 2, audience: nil) == .refused(.parentInvalid))
        #expect(try federation.grant(8, .service, assertion: 3) == .refused(.assertionUsed))
        #expect(try federation.grant(9, .service, audience: "https://other.example") == .refused(.serviceUnknown))
        #expect(try federation.grant(10, .service, key: 2) == .refused(.instanceUnknown))
        guard case .tokens(let tokens) = try federation.store.perform(.listTokens(federation.device)) else {
            throw AskedStore.OtherReply()
        }
        #expect(Set(tokens.map(\.id)) == [instance.id, service.id, app.id])
        guard case .services(let used) = try federation.store.perform(.listUsedServices(federation.device)) else {
            throw AskedStore.OtherReply()
        }
        #expect(used.map(\.url) == [Self.url])
    }

    @Test("a token is revoked with its children, and by its own people only", arguments: StoreKind.allCases)
    func revocation(_ kind: StoreKind) throws {
        let federation = try Federation(kind)
        _ = try federation.grant(1, .instance)
        _ = try federation.grant(2, .service)
        _ = try federation.grant(4, .service)
        _ = try federation.grant(3, .app, parent: 2, audience: nil)
        #expect(try federation.revoke(9, by: .instance(Fixture.hardwareKey(1))) == .unknown)
        #expect(try federation.revoke(2, by: .instance(Fixture.hardwareKey(2))) == .foreign)
        #expect(try federation.revoke(2, by: .service("https://other.example")) == .foreign)
        #expect(try federation.revoke(2, by: .holder(Federation.id(3))) == .foreign)
        #expect(try (1...4).allSatisfy { try federation.isLive($0) })
        #expect(try federation.revoke(2, by: .service(Self.url)) == .revoked)
        #expect(try [1, 4].allSatisfy { try federation.isLive($0) })
        #expect(try [2, 3].allSatisfy { try !federation.isLive($0) })
        #expect(try federation.grant(5, .app, parent: 2, audience: nil) == .refused(.parentInvalid))
        #expect(try federation.revoke(1, by: .instance(Fixture.hardwareKey(1))) == .revoked)
        #expect(try (1...4).allSatisfy { try !federation.isLive($0) })
        _ = try federation.grant(6, .instance)
        #expect(try federation.isLive(6))
        try federation.store.perform(.revoke(federation.device))
        #expect(try !federation.isLive(6))
        #expect(try federation.grant(7, .instance) == .refused(.instanceUnknown))
    }

    @Test("a code gives one token, and its second use revokes that", arguments: StoreKind.allCases)
    func codes(_ kind: StoreKind) throws {
        let federation = try Federation(kind)
        func exchange(_ code: Int, _ token: Int, _ url: String = Self.url) throws -> TokenVerdict {
            let reply = try federation.store.perform(
                .exchangeCode(
                    CodeExchange(code: Federation.id(code), token: Federation.id(token), audience: url, life: 50)))
            guard case .token(let verdict) = reply else { throw AskedStore.OtherReply() }
            return verdict
        }
        _ = try federation.grant(1, .instance)
        _ = try federation.grant(2, .code)
        #expect(try exchange(2, 3, "https://other.example") == .refused(.codeInvalid))
        #expect(try exchange(1, 3) == .refused(.codeInvalid), "an instance's token is no code")
        guard case .issued(let token) = try exchange(2, 3) else { throw AskedStore.OtherReply() }
        #expect(token.parent == Federation.id(2))
        #expect(token.expiresAt == 1_050)
        #expect(try federation.isLive(3))
        #expect(try exchange(2, 4) == .refused(.codeInvalid))
        #expect(try !federation.isLive(3))
        _ = try federation.grant(5, .code)
        _ = try exchange(5, 6)
        #expect(try federation.revoke(1, by: .instance(Fixture.hardwareKey(1))) == .revoked)
        #expect(try !federation.isLive(6))
    }

    @Test("a service is used once it is approved, and no longer once it is removed", arguments: StoreKind.allCases)
    func services(_ kind: StoreKind) throws {
        let federation = try Federation(kind)
        let store = federation.store
        func verdict(_ command: RegistryCommand) throws -> ServiceVerdict {
            guard case .service(let verdict) = try store.perform(command) else { throw AskedStore.OtherReply() }
            return verdict
        }
        _ = try federation.grant(1, .instance)
        let other = Federation.service(2, url: "https://files.example")
        #expect(try verdict(.joinService(Federation.service(3))) == .urlTaken)
        #expect(try verdict(.joinService(other)) == .service(other))
        let stolen = Federation.service(2, url: "https://files.example", of: "another")
        #expect(try verdict(.joinService(stolen)) == .idTaken)
        #expect(try federation.grant(2, .service, audience: other.url) == .refused(.serviceUnknown))
        #expect(try verdict(.findService(.secret(other.secret))) == .service(other))
        guard case .service(let approved) = try verdict(.approveService(other.id)) else {
            throw AskedStore.OtherReply()
        }
        #expect(approved.approvedAt == 1_000)
        // The same place stays approved, another one does not.
        #expect(try verdict(.joinService(other)) == .service(approved))
        var moved = Federation.service(2, url: "https://files2.example")
        #expect(try verdict(.joinService(moved)) == .service(moved))
        _ = try verdict(.approveService(other.id))
        guard case .issued = try federation.grant(3, .service, audience: moved.url) else {
            throw AskedStore.OtherReply()
        }
        guard case .service(let removed) = try verdict(.removeService(other.id)) else {
            throw AskedStore.OtherReply()
        }
        moved.revokedAt = 1_000
        #expect(removed == moved)
        #expect(try federation.grant(4, .service, audience: moved.url) == .refused(.serviceUnknown))
        #expect(try verdict(.approveService("00000000-0000-4000-8000-000000000009")) == .unknown)
        guard case .services(let all) = try store.perform(.listServices(after: "", limit: 10)) else {
            throw AskedStore.OtherReply()
        }
        #expect(all.map(\.id) == [Federation.service(1).id, other.id])
    }

    @Test("an excluded version gets no token", arguments: StoreKind.allCases)
    func versions(_ kind: StoreKind) throws {
        let federation = try Federation(kind)
        let app = Fixture.identity(1).app
        let verdict = try federation.grant(1, .instance) { $0[app] = AppVersion(bundleVersion: "2.0") }
        #expect(verdict == .refused(.versionExcluded))
    }

    @Test("rows that expired long ago are removed, but not before their children", arguments: StoreKind.allCases)
    func removal(_ kind: StoreKind) throws {
        let federation = try Federation(kind)
        _ = try federation.grant(1, .instance)
        _ = try federation.grant(2, .service)
        federation.store.time += FederationToken.keptAfterEnd + 200
        // Each question serves the loop, and the child goes first.
        for _ in 0..<1_000 {
            federation.store.backend.tick(at: federation.store.time)
            if try federation.found(1) == nil { break }
        }
        #expect(try federation.found(1) == nil)
        #expect(try federation.found(2) == nil)
    }

    @Test("an import restores services and tokens, in every kind of store", arguments: ExportConformanceTests.ways)
    func exports(_ from: StoreKind, _ to: StoreKind) throws {
        let origin = try Federation(from)
        _ = try origin.grant(1, .instance)
        _ = try origin.grant(2, .service)
        _ = try origin.grant(3, .app, parent: 2, scope: ["read"], audience: nil)
        _ = try origin.revoke(2, by: .service(Self.url))
        let export = try origin.store.export()
        #expect(export.kinds == ["head", "device", "token", "service", "federation token"])
        let target = try to.makePlace()
        try target.load(export)
        let store = try AskedStore(target)
        #expect(try store.export().body == export.body)
        guard case .foundToken(let found?) = try store.perform(.findToken(Federation.id(3))) else {
            throw AskedStore.OtherReply()
        }
        #expect(found.token.scope == "read")
        #expect(!found.isLive(at: 1_000))
        for limit in [1, 2] { #expect(try store.export(limit: limit).body == export.body) }
    }
}
