import Foundation
import NIOPosix

/// The highest counter of each device. What memory says is never behind the database: this process alone writes it.
actor Counters {
    private let database: Database
    /// Of one thread: a commit waits for the disk, and nobody else is to wait with it.
    private let writer: NIOThreadPool
    private var highest: [Data: UInt32]
    private var waiting: [(key: Data, value: UInt32, continuation: CheckedContinuation<Void, any Error>)] = []
    private var isWriting = false

    init(_ database: Database, _ highest: [Data: UInt32]) {
        self.database = database
        self.highest = highest
        writer = NIOThreadPool(numberOfThreads: 1)
        writer.start()
    }

    /// Returns when the value is durable.
    ///
    /// - Returns: false if it, or a higher one, was spent before.
    func spend(_ value: UInt32, of device: Device) async throws -> Bool {
        guard value > highest[device.certificateKey, default: .max] else { return false }
        // From here on it is spent, whatever becomes of the commit.
        highest[device.certificateKey] = value
        try await withCheckedThrowingContinuation { continuation in
            waiting.append((device.certificateKey, value, continuation))
            if !isWriting {
                isWriting = true
                Task { await write() }
            }
        }
        return true
    }

    /// What comes while one commit is made durable shares the next.
    private func write() async {
        while !waiting.isEmpty {
            let batch = waiting
            waiting.removeAll(keepingCapacity: true)
            let spent = Dictionary(batch.map { ($0.key, $0.value) }, uniquingKeysWith: max)
            let outcome: Result<Void, any Error>
            do {
                outcome = .success(try await writer.runIfActive { [database] in try database.spend(spent) })
            } catch {
                outcome = .failure(error)
            }
            for request in batch { request.continuation.resume(with: outcome) }
        }
        isWriting = false
    }
}
