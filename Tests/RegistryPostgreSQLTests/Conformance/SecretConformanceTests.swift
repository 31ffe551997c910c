import RegistryMemory
import Testing
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Every store: the registered secret")
struct SecretConformanceTests {
    private static let path = "/the/secret"

    private func claim(_ number: Int?, acceptsNew: Bool = false) -> SecretClaim {
        SecretClaim(
            path: Self.path, check: number.map { Fixture.fingerprint($0, kind: 9) }, acceptsNew: acceptsNew,
            make: { () throws(StoreOpenError) in Fixture.fingerprint(99, kind: 9) }, notice: { _ in })
    }

    private func isOther(_ place: any StorePlace, _ claim: SecretClaim) -> Bool {
        do {
            try place.confirm(claim)
            return false
        } catch {
            if case .otherSecret(_, Self.path)? = error as? StoreOpenError { return true }
            Issue.record("\(error)")
            return false
        }
    }

    private func populate(_ place: any StorePlace) throws { try AskedStore(place).populate(1) }

    @Test("the first secret is registered, and every other one is refused", arguments: StoreKind.allCases)
    func first(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        // A store from the time before check values.
        try populate(place)
        try place.confirm(claim(1))
        try place.confirm(claim(1))
        #expect(isOther(place, claim(2)))
        #expect(throws: StoreOpenError.self) { try place.confirm(claim(nil)) }
        try place.confirm(claim(2, acceptsNew: true))
        #expect(isOther(place, claim(1)))
        try place.confirm(claim(2))
    }

    @Test(
        "an export carries the secret's check, even into a store used with another one", arguments: StoreKind.allCases)
    func exported(_ kind: StoreKind) throws {
        let (origin, target) = (try kind.makePlace(), try kind.makePlace())
        try populate(origin)
        try origin.confirm(claim(1))
        try target.confirm(claim(2))
        let page = try origin.openAtRest().exportPage(from: .start)
        try target.openAtRest().load { loading throws(RegistryLoadError) in
            for (index, record) in page.records.enumerated() { try loading.add(record, line: index + 1) }
        }
        #expect(isOther(target, claim(2)))
        try target.confirm(claim(1))
    }

    @Test("a store created for an import opens only after the import succeeded", arguments: StoreKind.allCases)
    func unfinished(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        _ = try place.openForLoading()
        for _ in 0..<2 {
            #expect {
                _ = try place.open()
            } throws: {
                if case .unfinishedImport? = $0 as? StoreOpenError { true } else { false }
            }
            #expect(throws: RegistryLoadError.abandoned) {
                try place.openForLoading().load { _ throws(RegistryLoadError) in throw .abandoned }
            }
        }
        try place.openForLoading().load { loading throws(RegistryLoadError) in
            try loading.add(ExportSample.firstHead, line: 1)
        }
        try populate(place)
    }
}
