import Cryptography
import EventLoop
import Foundation
import Synchronization
import TestVectors
import RegistryMemory
import Vocabulary

@testable import Administration
@testable package import Registry
@testable package import RegistrySQLite
@testable import Server

/// A registry in a temporary directory, with its administration served on a thread.
final class TestAdministration {
    let directory: SocketDirectory
    let registry: DeviceRegistry
    private let commands: Mailbox<Bool>
    private let thread: LoopThread

    var socketPath: String { directory.socket }
    static func registryPath(in directory: SocketDirectory) -> String { "\(directory.path)/registry.db" }

    init(
        in directory: SocketDirectory? = nil, maximumPages: Int? = nil,
        subjects: @escaping @Sendable () throws -> SubjectPseudonyms? = { nil },
        audit: @escaping @Sendable (String) -> Void = { _ in },
        endpoints: @escaping @Sendable () -> [AdministrationEndpoint] = { [] },
        change: @escaping @Sendable (inout ServerSettings) -> Void = { _ in }
    ) throws {
        let directory = try directory ?? SocketDirectory()
        self.directory = directory
        var options = StoreOptions()
        options.maximumPages = maximumPages
        let registry = try DeviceRegistry.start(
            path: Self.registryPath(in: directory), creating: true, limits: RegistryLimits(), options: options,
            observe: { _ in })
        self.registry = registry
        let commands = try Mailbox<Bool>(limit: 1)
        self.commands = commands
        let start = Mutex<Result<Bool, any Error>?>(nil)
        let started = DispatchSemaphore(value: 0)
        let shared = Shared(start, started)
        let path = directory.socket
        thread = try LoopThread(name: "administration") {
            do {
                let loop = try Loop()
                var settings = ServerSettings.administration
                change(&settings)
                let server = try AdministrationServer(
                    loop: loop, socketPath: path, registry: registry, subjects: try subjects(),
                    endpoints: endpoints(), settings: settings
                ) { notice in
                    switch notice {
                    case .act(let act): audit(act.description)
                    case .refused(let text): audit(text)
                    }
                }
                let receiver = MailboxReceiver(loop: loop, mailbox: commands) { _ in
                    server.stop()
                    loop.stop()
                }
                shared.tell(.success(true))
                withExtendedLifetime((receiver, server)) { loop.run() }
            } catch {
                shared.tell(.failure(error))
            }
        }
        try shared.wait()
    }

    deinit {
        commands.post(true)
        thread.join()
        registry.stop()
    }

    /// The result of starting the server's thread.
    private final class Shared: Sendable {
        private let result: Mutex<Result<Bool, any Error>?>
        private let completed: DispatchSemaphore

        init(_ result: consuming Mutex<Result<Bool, any Error>?>, _ completed: DispatchSemaphore) {
            self.result = result
            self.completed = completed
        }

        func tell(_ result: Result<Bool, any Error>) {
            self.result.withLock { $0 = result }
            completed.signal()
        }

        func wait() throws {
            completed.wait()
            _ = try result.withLock { try $0?.get() }
        }
    }

    // MARK: - Requests

    var client: AdministrationClient { AdministrationClient(socketPath: socketPath) }

    /// Sends bytes and returns everything received until the server closes.
    func exchange(_ bytes: String) throws -> String {
        let client = try RawClient(loop: try Loop(), socketPath: socketPath)
        client.send(bytes)
        guard client.run() else { throw StillOpen(received: client.received) }
        return client.received
    }

    struct StillOpen: Error {
        let received: String
    }

    /// Sends a request with `Connection: close`, Host and more fields, and returns status and content.
    func ask(_ line: String, fields: String = "", content: String? = nil) throws -> (status: Int, content: String) {
        var head = "\(line) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(fields)"
        if let content {
            if !fields.contains("Content-Type") { head += "Content-Type: application/json\r\n" }
            head += "Content-Length: \(content.utf8.count)\r\n"
        }
        return try Self.parse(try exchange(head + "\r\n" + (content ?? "")))
    }

    static func parse(_ response: String) throws -> (status: Int, content: String) {
        // Swift treats CR LF as one character.
        guard response.hasPrefix("HTTP/1.1 "), let status = Int(response.dropFirst(9).prefix(3)),
            let end = response.range(of: "\r\n\r\n")
        else { throw StillOpen(received: response) }
        return (status, String(response[end.upperBound...]))
    }

    /// Returns the member `error` of a refusal.
    func refusal(_ line: String, fields: String = "", content: String? = nil) throws -> String {
        let answer = try ask(line, fields: fields, content: content)
        let members = try JSONDecoder().decode([String: String].self, from: Data(answer.content.utf8))
        guard Set(members.keys) == ["error", "error_description"] else { return "?" }
        return "\(answer.status) \(members["error"] ?? "?")"
    }
}

/// Keys and registrations of an operator.
enum Sample {
    /// Returns a new key each time.
    static func key() throws -> DeviceKey {
        let library = try LibraryContext()
        let pem = try PrivateKey.generateP256(library).pem()
        return try DeviceKey(pem: pem, library)
    }

    static func app(_ name: String = "app") throws -> AppID {
        guard let app = AppID("ABCDE12345.org.example.\(name)") else { throw DeviceKeyFault.noKey }
        return app
    }

    static func registration() throws -> DeviceRegistration {
        DeviceRegistration(
            app: try app(), platform: .iOS, environment: .production, publicKey: try key(), certificateKey: try key())
    }
}

extension Sample {
    /// Registers a pending device like enrolment.
    ///
    /// - Parameter number: Another number for each device.
    static func initialize(_ number: UInt8, in store: RegistryStore) throws -> DeviceID {
        let key = try key()
        let identity = DeviceIdentity(
            app: try app(), platform: .iOS, environment: .production, hardwareKey: key.id, point: key.point)
        guard let fingerprint = Fingerprint([UInt8](repeating: number, count: 32)),
            let attestation = AttestationRecord(digest: fingerprint)
        else { throw DeviceKeyFault.noKey }
        let request = InstanceRegistration(
            identity: identity, attestation: attestation, shown: [],
            nonce: SingleUse(id: fingerprint, expiresAt: 2_000),
            epoch: store.identity.epoch)
        guard case .registered(let details) = try store.initialize(request, at: 1_000) else {
            throw DeviceKeyFault.noKey
        }
        return details.device.id
    }
}

extension DeviceAnswer {
    var document: DeviceDocument? {
        if case .device(let document) = self { document } else { nil }
    }

    var listed: DevicePage? {
        if case .page(let page) = self { page } else { nil }
    }
}

extension RegistryStore: OperatedStore {
    package func answer(_ command: RegistryCommand, at time: Int64) throws -> RegistryReply {
        try perform(command, at: time).get()
    }
}
