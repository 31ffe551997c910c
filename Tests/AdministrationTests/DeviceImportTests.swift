import Foundation
import Registry
import RegistrySQLite
import TestVectors
import Testing
import RegistryMemory
import Vocabulary

@testable import Administration

@Suite("Device import, on the file and through a gateway")
struct DeviceImportTests {
    enum Way: CaseIterable {
        case file
        case gateway
    }

    private let directory: SocketDirectory

    init() throws {
        directory = try SocketDirectory()
    }

    private var administration: DeviceAdministration {
        DeviceAdministration(
            registryPath: TestAdministration.registryPath(in: directory), socketPath: directory.socket, attempts: 2,
            patience: .seconds(30))
    }

    /// Runs `body` with or without a running gateway.
    private func with<Result>(_ way: Way, _ body: () throws -> Result) throws -> Result {
        let served = way == .gateway ? try TestAdministration(in: directory) : nil
        return try withExtendedLifetime(served) { try body() }
    }

    private func tally(_ registered: Int, _ skipped: Int) -> DeviceImportTally {
        var tally = DeviceImportTally()
        tally.registered = registered
        tally.skipped = skipped
        return tally
    }

    private func devices() throws -> [DeviceDocument] {
        try administration.perform(.list(after: nil, limit: 500)).listed?.devices ?? []
    }

    @Test("an import registers all devices in their order; repeated, it skips them all", arguments: Way.allCases)
    func twice(_ way: Way) throws {
        try with(way) {
            let registrations = try (0..<7).map { _ in try Sample.registration() }
            var progress: [Int] = []
            #expect(try administration.register(registrations) { progress.append($0.done) } == tally(7, 0))
            #expect(progress == progress.sorted() && progress.last == 7)
            #expect(try devices().map(\.keyID) == registrations.map(\.publicKey.id.base64))
            let known = try administration.perform(.show(.key(registrations[3].publicKey.id))).document
            #expect(known?.bindings?.map(\.keyID) == [registrations[3].certificateKey.id.base64])
            #expect((known?.state, known?.counter) == ("active", 0))
            #expect(try administration.register(registrations) { _ in } == tally(0, 7))
            #expect(try devices().count == 7)
        }
    }

    @Test("an import resumes after an interruption, wherever the registered devices stand", arguments: Way.allCases)
    func again(_ way: Way) throws {
        try with(way) {
            let registrations = try (0..<6).map { _ in try Sample.registration() }
            for index in [0, 1, 4] { _ = try administration.perform(.add(registrations[index])) }
            #expect(try administration.register(registrations) { _ in } == tally(3, 3))
            #expect(try devices().count == 6)
        }
    }

    @Test("a revoked device is skipped, and stays revoked", arguments: Way.allCases)
    func revoked(_ way: Way) throws {
        try with(way) {
            let registration = try Sample.registration()
            _ = try administration.perform(.add(registration))
            _ = try administration.perform(.revoke(.key(registration.publicKey.id)))
            #expect(try administration.register([registration]) { _ in } == tally(0, 1))
            #expect(try devices().map(\.state) == ["revoked"])
        }
    }

    @Test("an import ends at a device that is already registered differently, and names it", arguments: Way.allCases)
    func otherwise(_ way: Way) throws {
        let one = try Sample.registration()
        let another = try Sample.registration()
        let last = try Sample.registration()
        func otherwise(_ difference: String) -> AdministrationFault {
            .registeredOtherwise(device: 1, difference)
        }
        try with(way) {
            _ = try administration.perform(.add(one))
            for (registration, fault) in [
                (one.with(certificateKey: try Sample.key()), otherwise("with another certificate key")),
                (one.with(app: try Sample.app("other")), otherwise("for the app 'ABCDE12345.org.example.app'")),
                (one.with(platform: .macOS), otherwise("for the platform 'ios'")),
                (one.with(environment: .simulator), otherwise("for the environment 'production'")),
                (try Sample.registration().with(certificateKey: one.certificateKey), AdministrationFault(.keyBound)),
            ] {
                let before = try devices().count
                #expect(
                    throws: DeviceImportError(
                        reason: .refused(fault), index: 1, tally: tally(before == 1 ? 1 : 0, before == 1 ? 0 : 1))
                ) { try administration.register([another, registration, last]) { _ in } }
                // Devices before it are registered, and those after it are not.
                #expect(try devices().map(\.keyID) == [one, another].map(\.publicKey.id.base64))
            }
        }
    }

    @Test("a device with an ended certificate key is not taken for the same device")
    func ended() throws {
        let registration = try Sample.registration()
        _ = try administration.perform(.add(registration))
        do {
            let store = try RegistryStore(path: TestAdministration.registryPath(in: directory), creating: false)
            _ = try store.endBinding(registration.certificateKey.id)
        }
        let fault = AdministrationFault.registeredOtherwise(device: 1, "with another certificate key")
        #expect(throws: DeviceImportError(reason: .refused(fault), index: 0, tally: tally(0, 0))) {
            try administration.register([registration]) { _ in }
        }
    }

    @Test("no device is named when the file is in use and no gateway answers")
    func locked() throws {
        let path = TestAdministration.registryPath(in: directory)
        let store = try RegistryStore(path: path, creating: true)
        let expected = DeviceAdministrationError.locked(registry: path, socket: directory.socket)
        #expect(throws: DeviceImportError(reason: expected, index: nil, tally: tally(0, 0))) {
            try administration.register([try Sample.registration()]) { _ in }
        }
        withExtendedLifetime(store) {}
    }
}

extension DeviceRegistration {
    fileprivate func with(
        app: AppID? = nil, platform: Platform? = nil, environment: AttestationEnvironment? = nil,
        certificateKey: DeviceKey? = nil
    ) -> DeviceRegistration {
        DeviceRegistration(
            app: app ?? self.app, platform: platform ?? self.platform, environment: environment ?? self.environment,
            publicKey: publicKey, certificateKey: certificateKey ?? self.certificateKey)
    }
}
