public import Cryptography
public import Registry

// An export becomes a registry: all of it, in one transaction, or nothing.
extension DeviceAdministration {
    /// What was taken over.
    public struct ImportReport: Sendable {
        public let head: ExportHead
        public let counts: ExportCounts
    }

    /// Takes over an export into a registry that has no devices, which is made if there is none.
    ///
    /// Read once, from the beginning to the end: what it says is visible to others only when the last line has been found to be
    /// right.
    ///
    /// - Parameters:
    ///   - next: the next bytes of the file; nil at its end.
    ///   - progress: called now and then with the lines read so far.
    ///   - complete: called when all of it was found to be right, before any of it counts: from then on it may.
    /// - Throws: `RegistryImportError`, or what `next` does; nothing has changed then but that an empty registry may have been made.
    public func importExport(
        next: () throws -> [UInt8]?, progress: (Int) -> Void, complete: (ExportHead) -> Void = { _ in }
    ) throws -> ImportReport {
        let registry = try patiently { () throws(DeviceAdministrationError) in try openAtRest(isLoading: true) }
        var work = RegistryImport(reader: try ExportReader(LibraryContext()))
        do throws(RegistryLoadError) {
            work.users = try registry.otherUsers()
            guard work.users == 0 else { throw .abandoned }
            try registry.load { loading throws(RegistryLoadError) in
                try work.run(into: loading, next: next, progress: progress)
                if let head = work.reader.head { complete(head) }
            }
        } catch {
            throw work.reason(of: error)
        }
        guard let head = work.reader.head else { preconditionFailure("an export without a head was imported") }
        return ImportReport(head: head, counts: work.reader.counts)
    }
}

/// Why nothing was taken over.
public enum RegistryImportError: Error, Equatable, Sendable {
    /// What is wrong with the file: the first twenty faults.
    case faults([RegistrationList.Fault])
    /// The registry has devices already.
    case notEmpty
    /// Gateways, or other commands, use the database now.
    case inUse(connections: Int)
}

/// One import under way.
private struct RegistryImport {
    let reader: ExportReader
    private var faults: [RegistrationList.Fault] = []
    private var readFailure: (any Error)?
    /// Connections of others to the database.
    var users = 0

    private static let faultLimit = 20

    init(reader: ExportReader) {
        self.reader = reader
    }

    mutating func run(
        into loading: RegistryLoading, next: () throws -> [UInt8]?, progress: (Int) -> Void
    ) throws(RegistryLoadError) {
        var rest: [UInt8] = []
        do {
            while let block = try next() {
                rest += block
                var start = rest.startIndex
                while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
                    try take(rest[start..<end], loading)
                    start = end + 1
                }
                rest.removeSubrange(..<start)
                progress(reader.lines)
                // The line is longer than any valid one: the boundaries of the lines that follow are unknown.
                guard rest.count <= ExportLine.limit else { break }
            }
            // The end of the file may be the end of a line.
            if !rest.isEmpty { try take(rest[...], loading) }
        } catch let error as RegistryLoadError {
            throw error
        } catch {
            readFailure = error
            throw .abandoned
        }
        if faults.isEmpty {
            do throws(ExportFault) { try reader.finish() } catch { add(reader.lines + 1, error) }
        }
        guard faults.isEmpty else { throw .abandoned }
    }

    private mutating func take(_ line: ArraySlice<UInt8>, _ loading: RegistryLoading) throws(RegistryLoadError) {
        let record: ExportRecord
        do throws(ExportFault) {
            record = try reader.append(line)
            if case .device(let device) = record { try reader.check(device) }
        } catch {
            // After other faults the last line is wrong for no reason of its own.
            if faults.isEmpty || !reader.hasEnded { add(reader.lines, error) }
            if faults.count >= Self.faultLimit { throw .abandoned }
            return
        }
        // Nothing of it will be kept: only further faults are looked for.
        guard faults.isEmpty else { return }
        do throws(RegistryLoadError) { try loading.add(record, line: reader.lines) } catch {
            guard case .refused(let line, let conflict) = error else { throw error }
            add(line, ExportFault(conflict.description))
        }
    }

    private mutating func add(_ line: Int, _ fault: ExportFault) {
        faults.append(RegistrationList.Fault(line: line, reason: fault.description))
    }

    func reason(of error: RegistryLoadError) -> any Error {
        switch error {
        case .notEmpty: return RegistryImportError.notEmpty
        case .refused(let line, let conflict):
            // Of lines that were written together, when all had been read.
            return RegistryImportError.faults([.init(line: line, reason: conflict.description)])
        case .abandoned:
            if users > 0 { return RegistryImportError.inUse(connections: users) }
            return readFailure ?? RegistryImportError.faults(faults)
        case .failed(let detail): return DeviceAdministrationError.store(detail)
        }
    }
}

/// Reads an export line by line, as it is written and as it is taken over: the form of each line, their order, and in the end that
/// they are those that were written, all of them.
public final class ExportReader {
    /// Lines read so far.
    public private(set) var lines = 0
    /// What there was to begin with.
    public private(set) var head: ExportHead?
    public var counts: ExportCounts { order.counts }
    /// Whether the last line was there.
    var hasEnded: Bool { order.hasEnded }

    private let library: LibraryContext
    private var order = ExportOrder()
    /// Of the lines so far; nil once it was taken.
    private var digest: RunningDigest<32>?

    public init(_ library: LibraryContext) throws(CryptographyError) {
        self.library = library
        digest = try .sha256(library)
    }

    /// Reads the next line. - Parameter text: without its end.
    public func append(_ text: ArraySlice<UInt8>) throws(ExportFault) -> ExportRecord {
        lines += 1
        let record: ExportRecord
        do throws(ExportFault) {
            record = try ExportLine.decode(text)
            try order.add(record)
        } catch {
            try digest(text)
            throw error
        }
        if case .head(let head) = record { self.head = head }
        if case .end(let end) = record {
            guard try takeDigest() == end.digest else {
                throw ExportFault("the checksum of the earlier lines is wrong: the file was changed")
            }
        } else {
            try digest(text)
        }
        return record
    }

    /// At the end of the file.
    public func finish() throws(ExportFault) {
        guard order.hasEnded else { throw ExportFault("the last line is missing: the file is truncated") }
    }

    /// The last line of those that were read so far. Nothing can be read behind it.
    func makeEnd() throws(ExportFault) -> ExportEnd { ExportEnd(counts: counts, digest: try takeDigest()) }

    private func digest(_ text: ArraySlice<UInt8>) throws(ExportFault) {
        let line = Array(text) + [UInt8(ascii: "\n")]
        do throws(CryptographyError) { try digest?.update(line.span) } catch { throw ExportFault("\(error)") }
    }

    private func takeDigest() throws(ExportFault) -> Fingerprint {
        do throws(CryptographyError) {
            if let taken = digest.take(), let fingerprint = Fingerprint(try taken.finish().bytes) { return fingerprint }
        } catch {
            throw ExportFault("\(error)")
        }
        throw ExportFault("there is data after the last line")
    }

    /// Whether the device's hardware key is a key, and the one it is known by: nothing in a registry is looked at again.
    func check(_ device: ExportedDevice) throws(ExportFault) {
        let key: DeviceKey
        do throws(DeviceKeyFault) { key = try DeviceKey(point: device.identity.point.bytes, library) } catch {
            throw ExportFault("'point' \(error)")
        }
        guard key.id == device.identity.hardwareKey else {
            throw ExportFault("'hardware_key' is not the SHA-256 of 'point'")
        }
    }
}
