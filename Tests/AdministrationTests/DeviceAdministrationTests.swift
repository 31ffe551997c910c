import EventLoop
import Foundation
import Registry
import RegistryMemory
import RegistrySQLite
import TestVectors
import Testing

@testable import Administration

@Suite("How the command line reaches the registry")
struct DeviceAdministrationTests {
    private let directory: SocketDirectory
    private var registryPath: String { TestAdministration.registryPath(in: directory) }

    init() throws {
        directory = try SocketDirectory()
    }

    private func administration(socket: String?) -> DeviceAdministration {
        DeviceAdministration(registryPath: registryPath, socketPath: socket, attempts: 2, patience: .seconds(30))
    }

    @Test("the command line uses the file, or the socket while a gateway runs, with the same answers")
    func bothWays() throws {
        let administration = administration(socket: directory.socket)
        let registration = try Sample.registration()
        let added = try administration.perform(.add(registration))
        let selection = DeviceSelection.key(registration.publicKey.id)
        #expect(try administration.perform(.show(selection)) == added)
        let page = try administration.perform(.list(after: nil, limit: 5))
        do {
            let served = try TestAdministration(in: directory)
            #expect(try administration.perform(.show(selection)) == added)
            #expect(try administration.perform(.list(after: nil, limit: 5)) == page)
            #expect(try administration.perform(.revoke(selection)).document?.state == "revoked")
            #expect(throws: DeviceAdministrationError.refused(AdministrationFault(.keyRegistered))) {
                _ = try administration.perform(.add(registration))
            }
            withExtendedLifetime(served) {}
        }
        #expect(try administration.perform(.show(selection)).document?.state == "revoked")
        #expect(try administration.perform(.restore(selection)) == added)
        #expect(throws: DeviceAdministrationError.refused(AdministrationFault(.keyRegistered))) {
            _ = try administration.perform(.add(registration))
        }
    }

    @Test("a file in use without a gateway that answers is an error that says what is missing")
    func locked() throws {
        let registry = try DeviceRegistry.start(path: registryPath, creating: true, observe: { _ in })
        defer { registry.stop() }
        for socket in [nil, directory.socket] {
            let expected = DeviceAdministrationError.locked(registry: registryPath, socket: socket)
            #expect(throws: expected) {
                _ = try administration(socket: socket).perform(.list(after: nil, limit: 1))
            }
            #expect(expected.description.hasPrefix("\(registryPath) is in use by another process, "))
        }
    }

    @Test("only adding a device creates a registry")
    func creating() throws {
        let administration = administration(socket: nil)
        #expect(
            throws: DeviceAdministrationError.store(
                "\(registryPath): no such file: a gateway creates it at its first start")
        ) {
            _ = try administration.perform(.list(after: nil, limit: 1))
        }
        #expect(!FileManager.default.fileExists(atPath: registryPath))
        _ = try administration.perform(.add(try Sample.registration()))
        #expect(try administration.perform(.list(after: nil, limit: 1)).listed?.devices.count == 1)
    }

    @Test("a fresh epoch is drawn on the file and through the socket, but creates no registry")
    func renewEpoch() throws {
        let administration = administration(socket: directory.socket)
        #expect(
            throws: DeviceAdministrationError.store(
                "\(registryPath): no such file: a gateway creates it at its first start")
        ) {
            try administration.renewEpoch()
        }
        func identity() throws -> StoreIdentity { try RegistryStore(path: registryPath, creating: false).identity }
        let first = try RegistryStore(path: registryPath, creating: true).identity
        try administration.renewEpoch()
        let second = try identity()
        #expect(second.store == first.store)
        #expect(second.epoch != first.epoch)
        do {
            let served = try TestAdministration(in: directory)
            try administration.renewEpoch()
            withExtendedLifetime(served) {}
        }
        let third = try identity()
        #expect(third.store == first.store)
        #expect(![first.epoch, second.epoch].contains(third.epoch))
        let registry = try DeviceRegistry.start(path: registryPath, creating: false, observe: { _ in })
        defer { registry.stop() }
        #expect(throws: DeviceAdministrationError.locked(registry: registryPath, socket: directory.socket)) {
            try administration.renewEpoch()
        }
    }

    @Test("pending devices are listed and approved, on the file and through the socket")
    func approve() throws {
        let administration = administration(socket: directory.socket)
        _ = try administration.perform(.add(try Sample.registration()))
        let ids = try {
            let store = try RegistryStore(path: registryPath, creating: false)
            return try (1...2).map { try Sample.initialize($0, in: store) }
        }()
        func pending() throws -> [DeviceDocument] {
            try administration.perform(.listPending(after: nil, limit: 5)).listed?.devices ?? []
        }
        #expect(try pending().map(\.device) == ids.map(\.number))
        #expect(try pending().allSatisfy { $0.state == "pending" && $0.approvedAt == nil })
        let first = try administration.perform(.approve(.number(ids[0]))).document
        #expect(first?.state == "pending")
        #expect(first?.approvedAt != nil)
        do {
            let served = try TestAdministration(in: directory)
            #expect(try pending().map(\.device) == ids.map(\.number))
            #expect(try administration.perform(.approve(.number(ids[1]))).document?.approvedAt != nil)
            for query in [
                "state=other", "app=a", "platform=linux", "subject=AAAA", "seen_before=2026-02-30", "seen_since=today",
                "state=active&state=active", "seen_since=",
            ] {
                #expect(try served.ask("GET /devices?\(query)").status == 400, "\(query)")
            }
            #expect(try served.ask("GET /devices?state=revoked&seen_before=2026-11-27").status == 200)
            _ = try administration.perform(.revoke(.number(ids[1])))
            #expect(throws: DeviceAdministrationError.refused(AdministrationFault(.deviceRevoked))) {
                _ = try administration.perform(.approve(.number(ids[1])))
            }
        }
        #expect(try pending().map(\.device) == [ids[0].number])
    }

    @Test("the file is not touched when a gateway listens but does not answer")
    func silent() throws {
        let loop = try Loop()
        let file = try SocketFile(path: directory.socket)
        // The loop does not run, so the kernel accepts the connections.
        let listener = ListeningSocket(loop: loop, socket: try file.listen()) { _, _ in }
        let administration = DeviceAdministration(
            registryPath: registryPath, socketPath: directory.socket, attempts: 2, patience: .milliseconds(50))
        let change = DeviceAdministrationError.gateway(socket: directory.socket, .timeout(mayHaveChanged: true))
        #expect(throws: change) { _ = try administration.perform(.add(try Sample.registration())) }
        #expect(change.description.hasSuffix("did not respond in time; the change may have been made"))
        // A command that only reads has no doubtful outcome.
        let question = DeviceAdministrationError.gateway(socket: directory.socket, .timeout(mayHaveChanged: false))
        #expect(throws: question) { _ = try administration.perform(.list(after: nil, limit: 1)) }
        #expect(question.description.hasSuffix("did not respond in time"))
        #expect(!FileManager.default.fileExists(atPath: registryPath))
        withExtendedLifetime(listener) {}
    }

    @Test(
        "an answer that no gateway writes is an error",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 200 OK\r\n\r\n<html>", "nonsense\r\n\r\n",
            "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops",
        ])
    func malformed(_ answer: String) throws {
        let script = """
            import socket, sys
            server = socket.socket(socket.AF_UNIX)
            server.bind(sys.argv[1])
            server.listen()
            print("listening", flush=True)
            connection, _ = server.accept()
            connection.recv(65536)
            connection.sendall(sys.argv[2].encode())
            connection.shutdown(socket.SHUT_WR)
            connection.recv(65536)
            """
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", script, directory.socket, answer]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        defer {
            process.terminate()
            process.waitUntilExit()
        }
        _ = output.fileHandleForReading.availableData
        let client = AdministrationClient(socketPath: directory.socket, patience: .seconds(30))
        do {
            _ = try client.perform(.list(after: nil, limit: 1))
            Issue.record("taken for an answer")
        } catch {
            #expect(error == .malformed || error == .disconnected(mayHaveChanged: false))
        }
    }
}
