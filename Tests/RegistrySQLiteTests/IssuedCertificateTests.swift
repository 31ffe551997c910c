import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Issued certificates")
struct IssuedCertificateTests {
    private let scratch: Scratch
    private let store: RegistryStore

    init() throws {
        scratch = try Scratch()
        store = try RegistryStore(path: scratch.file(), creating: true)
        try store.initializeAll(3)
    }

    /// Binds `key` to `device`; the certificate has the key's number.
    @discardableResult
    private func bind(
        _ device: Int, key: Int, counter: UInt32, serial: Int? = nil, notAfter: Int64 = 50_000, at time: Int64 = 1_100
    ) throws -> KeyBindingVerdict {
        let request = store.keyBinding(
            device, key: key, nonce: serial ?? key, counter: counter, serial: Fixture.serial(serial ?? key),
            notAfter: notAfter)
        return try store.bindKey(request, at: time)
    }

    private func id(_ device: Int) throws -> DeviceID {
        try store.show(.hardwareKey(Fixture.hardwareKey(device))).device.id
    }

    private func revoked(at time: Int64 = 1_500, _ store: RegistryStore? = nil) throws -> [RevokedCertificate] {
        try (store ?? self.store).revokedCertificates(after: nil, limit: 100, at: time).certificates
    }

    @Test("certificates of a revoked device are on hold until it is restored")
    func devices() throws {
        try bind(1, key: 1, counter: 1)
        try bind(2, key: 2, counter: 1)
        #expect(try revoked().isEmpty)
        _ = try store.revoke(id(1), at: 1_200)
        #expect(
            try revoked() == [
                RevokedCertificate(serial: Fixture.serial(1), revokedAt: 1_200, reason: .certificateHold)
            ])
        _ = try store.restore(id(1))
        #expect(try revoked().isEmpty)
    }

    @Test("every certificate of a key is revoked with it, renewed ones included")
    func renewal() throws {
        try bind(1, key: 1, counter: 1)
        #expect(try bind(1, key: 1, counter: 2, serial: 9).kind == .renewal)
        #expect(try revoked().isEmpty)
        _ = try store.endBinding(Fixture.bindingKey(1), at: 1_300)
        #expect(
            try revoked()
                == [1, 9].map {
                    RevokedCertificate(serial: Fixture.serial($0), revokedAt: 1_300, reason: .cessationOfOperation)
                })
    }

    @Test("the certificate of a replaced key is superseded when its overlap ends, recorded or not")
    func rotation() throws {
        try bind(1, key: 1, counter: 1)
        try bind(1, key: 2, counter: 2, at: 1_200)
        let superseded = RevokedCertificate(serial: Fixture.serial(1), revokedAt: 1_300, reason: .superseded)
        #expect(try revoked(at: 1_299).isEmpty)
        #expect(try revoked(at: 1_300) == [superseded])
        #expect(try store.endDueBindings(at: 1_300, limit: 9).count == 1)
        #expect(try revoked(at: 1_301) == [superseded])
        // Restoring the device brings it not back; revoking it dates it no later.
        _ = try store.revoke(id(1), at: 1_250)
        #expect(
            try revoked() == [
                RevokedCertificate(serial: Fixture.serial(1), revokedAt: 1_250, reason: .superseded),
                RevokedCertificate(serial: Fixture.serial(2), revokedAt: 1_250, reason: .certificateHold),
            ])
    }

    @Test("certificates of a revoked subject are revoked with its devices")
    func subject() throws {
        let admission = AdmissionGrant.token(Fixture.token(1), subject: Fixture.subject(1))
        let request = store.keyBinding(1, key: 1, nonce: 1, counter: 1, admission: admission, serial: Fixture.serial(1))
        #expect(try store.bindKey(request, at: 1_100).kind == .first)
        _ = try store.revokeSubject(Fixture.subject(1), at: 1_200)
        #expect(try revoked().map(\.serial) == [Fixture.serial(1)])
    }

    @Test("a key bound by an operator has no known certificate")
    func imports() throws {
        let details = try store.register(Fixture.identity(7), binding: Fixture.bindingKey(7))
        _ = try store.revoke(details.device.id)
        #expect(try revoked().isEmpty)
    }

    @Test("a refused binding leaves no certificate, and no serial number is used twice")
    func refusals() throws {
        try bind(1, key: 1, counter: 1)
        #expect(try bind(2, key: 1, counter: 1, serial: 2).refusal == .keyBound)
        #expect(try bind(2, key: 2, counter: 1, serial: 1).refusal == .nonceUsed)
        let request = store.keyBinding(2, key: 2, nonce: 5, counter: 1, serial: Fixture.serial(1))
        #expect(try store.bindKey(request, at: 1_100).refusal == .serialUsed)
        // Refused before anything was spent.
        #expect(try bind(2, key: 2, counter: 1, serial: 5).kind == .first)
        for device in 1...2 { _ = try store.revoke(id(device)) }
        #expect(try revoked().map(\.serial) == [1, 5].map(Fixture.serial))
    }

    @Test("certificates are listed in pages without missing any")
    func pages() throws {
        for key in 1...7 { try bind(1, key: key, counter: UInt32(key)) }
        for key in stride(from: 1, through: 7, by: 2) {
            _ = try store.endBinding(Fixture.bindingKey(key), at: 1_150)
        }
        var serials: [CertificateSerial] = []
        var pages = 0
        var next: CertificateSerial?
        repeat {
            let page = try store.revokedCertificates(after: next, limit: 2, at: 1_160)
            #expect(page.certificates.count <= 2)
            serials += page.certificates.map(\.serial)
            next = page.next
            pages += 1
        } while next != nil
        #expect(pages == 4)
        #expect(serials == [1, 3, 5, 7].map(Fixture.serial))
    }

    @Test("certificates are listed for eight days after their expiry, and later removed in slices")
    func end() throws {
        for key in 1...3 { try bind(key, key: key, counter: 1, notAfter: key == 3 ? 60_000 : 50_000) }
        for device in 1...3 { _ = try store.revoke(id(device), at: 1_200) }
        let listed = 50_000 + CertificateRecord.listedAfterEnd
        #expect(try revoked(at: listed - 1).count == 3)
        #expect(try revoked(at: listed).map(\.serial) == [Fixture.serial(3)])
        // Renewals within a time of grace need them longer.
        let last = 50_000 + CertificateRecord.keptAfterEnd
        #expect(try !store.removeEndedCertificates(at: last - 1))
        #expect(try revoked(at: 1_500).count == 3)
        #expect(try store.removeEndedCertificates(at: last, limit: 1))
        #expect(try revoked(at: 1_500).count == 2)
        #expect(try store.removeEndedCertificates(at: last, limit: 1))
        #expect(try !store.removeEndedCertificates(at: last, limit: 1))
        #expect(try revoked(at: 1_500).map(\.serial) == [Fixture.serial(3)])
    }

    @Test("numbers of revocation lists grow, whatever the clock, and survive a crash")
    func numbers() throws {
        #expect(try store.drawRevocationListNumber(at: 1_000) == 1_000)
        #expect(try store.drawRevocationListNumber(at: 1_000) == 1_001)
        #expect(try store.drawRevocationListNumber(at: 900) == 1_002)
        #expect(try store.drawRevocationListNumber(at: 2_000) == 2_000)
        let other = try RegistryStore(path: try scratch.copy(to: "crashed.db"), creating: false)
        #expect(try other.drawRevocationListNumber(at: 1_000) == 2_001)
    }

    @Test("issued certificates survive a crash")
    func crash() throws {
        try bind(1, key: 1, counter: 1)
        let other = try RegistryStore(path: try scratch.copy(to: "crashed.db"), creating: false)
        _ = try other.revoke(id(1), at: 1_200)
        #expect(try revoked(other).map(\.serial) == [Fixture.serial(1)])
    }
}
