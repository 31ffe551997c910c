public import Cryptography
public import Registry

// Import of an export into a registry: everything in one transaction, or nothing.
extension DeviceAdministration {
    /// A summary of an import.
    public struct ImportReport: Sendable {
        public let head: ExportHead
        public let counts: ExportCounts
    }

    /// Imports an export into a registry without devices, which is created if there is none.
    ///
    /// The file is read once. Others see its content only after the last line was found valid.
    ///
    /// - Parameters:
    ///   - next: Returns the next bytes of the file, or nil at its end.
    ///   - progress: Called periodically with the number of lines read.
    ///   - complete: Called when the whole file was found valid, before the commit.
    /// - Throws: `RegistryImportError` or the errors of `next`. At most an empty registry was then created.
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

/// The reason why nothing was imported.
public enum RegistryImportError: Error, Equatable, Sendable {
    /// The first twenty faults of the file.
    case faults([RegistrationList.Fault])
    /// The registry already has devices.
    case notEmpty
    /// Gateways or other commands are using the database.
    case inUse(connections: Int)
}

/// The state of one import.
private struct RegistryImport {
    let reader: ExportReader
    private var faults: [RegistrationList.Fault] = []
    private var readFailure: (any Error)?
    /// The number of other connections to the database.
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
                // The line is longer than any valid one, so the boundaries of the following lines are unknown.
                guard rest.count <= ExportLine.limit else { break }
            }
            // The last line may lack its line end.
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
            // After other faults, the fault of the last line is only a consequence.
            if faults.isEmpty || !reader.hasEnded { add(reader.lines, error) }
            if faults.count >= Self.faultLimit { throw .abandoned }
            return
        }
        // Nothing will be kept, so the rest is only searched for faults.
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
            // The store reports a line of a batch after the whole batch was read.
            return RegistryImportError.faults([.init(line: line, reason: conflict.description)])
        case .abandoned:
            if users > 0 { return RegistryImportError.inUse(connections: users) }
            return readFailure ?? RegistryImportError.faults(faults)
        case .failed(let detail): return DeviceAdministrationError.store(detail)
        }
    }
}

/// A reader of exports, line by line, for writing and importing. It checks the form of each line, their order, and at
/// the end that no line is missing or changed.
public final class ExportReader {
    /// The number of lines read.
    public private(set) var lines = 0
    /// The first line.
    public private(set) var head: ExportHead?
    public var counts: ExportCounts { order.counts }
    /// Whether the last line was read.
    var hasEnded: Bool { order.hasEnded }

    private let library: LibraryContext
    private var order = ExportOrder()
    /// The digest of the lines read. Nil after it was taken.
    private var digest: RunningDigest<32>?

    public init(_ library: LibraryContext) throws(CryptographyError) {
        self.library = library
        digest = try .sha256(library)
    }

    /// Reads the next line.
    ///
    /// - Parameter text: The line without its end.
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

    /// Checks that the file is complete, at its end.
    public func finish() throws(ExportFault) {
        guard order.hasEnded else { throw ExportFault("the last line is missing: the file is truncated") }
    }

    /// Returns the last line for the lines read. Nothing can be read after it.
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

    /// Checks that the hardware key is valid and matches its key id. A registry never checks its content again.
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
