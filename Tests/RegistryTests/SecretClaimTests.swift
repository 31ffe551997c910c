import RegistryMemory
import Synchronization
import Testing

@testable import Registry

@Suite("The secret of a registry")
struct SecretClaimTests {
    /// One start of a process.
    struct Case: CustomTestStringConvertible {
        enum Outcome: Equatable {
            case used, made, replaced, other, missing
        }

        let own: Int?
        let known: Int?
        let isPopulated: Bool
        let isShared: Bool
        let acceptsNew: Bool
        let outcome: Outcome

        init(
            _ own: Int?, _ known: Int?, populated isPopulated: Bool, shared isShared: Bool, accepts acceptsNew: Bool,
            _ outcome: Outcome
        ) {
            (self.own, self.known, self.isPopulated) = (own, known, isPopulated)
            (self.isShared, self.acceptsNew, self.outcome) = (isShared, acceptsNew, outcome)
        }

        var testDescription: String {
            "own \(own ?? 0), known \(known ?? 0), populated \(isPopulated), shared \(isShared), accepts \(acceptsNew)"
        }
    }

    static let cases: [Case] = [false, true].flatMap { accepts in
        [
            // Nobody knows one yet.
            Case(nil, nil, populated: false, shared: false, accepts: accepts, .made),
            Case(nil, nil, populated: false, shared: true, accepts: accepts, .made),
            Case(1, nil, populated: true, shared: true, accepts: accepts, .used),
            // The same.
            Case(1, 1, populated: true, shared: false, accepts: accepts, .used),
            Case(1, 1, populated: true, shared: true, accepts: accepts, .used),
            // Nobody has a name by it, and nobody else uses it.
            Case(nil, 1, populated: false, shared: false, accepts: accepts, .made),
            Case(2, 1, populated: false, shared: false, accepts: accepts, .replaced),
            // Somebody has a name, or another gateway runs with it.
            Case(nil, nil, populated: true, shared: false, accepts: accepts, accepts ? .made : .missing),
            Case(nil, 1, populated: true, shared: false, accepts: accepts, accepts ? .made : .missing),
            Case(nil, 1, populated: false, shared: true, accepts: accepts, accepts ? .made : .missing),
            Case(2, 1, populated: true, shared: false, accepts: accepts, accepts ? .replaced : .other),
            Case(2, 1, populated: false, shared: true, accepts: accepts, accepts ? .replaced : .other),
            Case(2, 1, populated: true, shared: true, accepts: accepts, accepts ? .replaced : .other),
        ]
    }

    private func check(_ number: Int) -> Fingerprint { Fixture.fingerprint(number, kind: 9) }

    private final class Heard: Sendable {
        let notices = Mutex<[SecretNotice]>([])
    }

    private func claim(_ own: Int?, acceptsNew: Bool, _ heard: Heard) -> SecretClaim {
        SecretClaim(
            path: "/secret", check: own.map(check), acceptsNew: acceptsNew,
            make: { () throws(StoreOpenError) in Fixture.fingerprint(3, kind: 9) },
            notice: { notice in heard.notices.withLock { $0.append(notice) } })
    }

    @Test("a secret is used, registered or refused", arguments: cases)
    func outcome(_ one: Case) throws {
        let heard = Heard()
        let claim = claim(one.own, acceptsNew: one.acceptsNew, heard)
        let store = SecretClaim.Registered(
            check: one.known.map(check), isPopulated: one.isPopulated, isShared: one.isShared, name: "/registry")
        switch one.outcome {
        case .other:
            #expect(throws: StoreOpenError.otherSecret(path: "/registry", secret: "/secret")) {
                try claim.check(for: store)
            }
            return
        case .missing:
            #expect(throws: StoreOpenError.secretMissing(path: "/registry", secret: "/secret")) {
                try claim.check(for: store)
            }
            return
        case .used, .made, .replaced: break
        }
        let settled = try claim.check(for: store)
        #expect(settled == check(one.own ?? 3))
        claim.confirm(settled, in: store)
        let expected: [SecretNotice] =
            switch one.outcome {
            case .made: [.made(path: "/secret", isLoss: one.isPopulated)]
            case .replaced: [.replaced(path: "/secret", isLoss: one.isPopulated)]
            default: []
            }
        #expect(heard.notices.withLock { $0 } == expected)
    }

    @Test("accepting a new secret holds for the start only")
    func later() throws {
        let claim = claim(2, acceptsNew: true, Heard())
        func store(_ known: Int) -> SecretClaim.Registered {
            SecretClaim.Registered(check: check(known), isPopulated: true, isShared: true, name: "/registry")
        }
        claim.confirm(try claim.check(for: store(1)), in: store(1))
        #expect(try claim.check(for: store(2)) == check(2))
        #expect(throws: StoreOpenError.self) { try claim.check(for: store(1)) }
    }
}
