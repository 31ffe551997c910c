/// Takes over the records of an export, one after the other, in a transaction under way.
public final class RegistryLoading {
    private let take: (ExportRecord, Int) throws -> Void

    private let time: Int64

    /// How far ahead an export may have been made, in seconds: by another machine.
    private static let clockTolerance: Int64 = 300

    /// - Parameter time: now, in seconds since 1970-01-01T00:00:00Z.
    init(at time: Int64, _ take: @escaping (ExportRecord, Int) throws -> Void) {
        self.time = time
        self.take = take
    }

    /// - Parameters:
    ///   - record: the next one; the order is the caller's to see to.
    ///   - line: where it stands, for refusals.
    public func add(_ record: ExportRecord, line: Int) throws(RegistryLoadError) {
        // What was used last, and by when it has expired, would be taken for what it is not.
        if case .head(let head) = record, head.time - time > Self.clockTolerance {
            throw .refused(line: line, .madeAhead)
        }
        do { try take(record, line) } catch let error as RegistryLoadError { throw error } catch {
            throw .failed(RegistryLoadError.detail(error))
        }
    }
}

/// Why nothing was taken over from an export.
public enum RegistryLoadError: Error, Equatable, Sendable {
    /// The registry has devices.
    case notEmpty
    /// A line cannot be taken beside those before it.
    case refused(line: Int, Conflict)
    /// The caller that supplies the records has found that they must not be kept.
    case abandoned
    /// The store failed.
    case failed(String)

    public enum Conflict: Equatable, Sendable {
        case hardwareKeyTwice
        case bindingKeyTwice
        /// It was exported at a time that is still to come.
        case madeAhead
    }

    static func detail(_ error: any Error) -> String {
        error is DatabaseFault || error is RegistryDatabase.Unknown
            ? "\(DatabaseFailure(error))" : StoreFault(error).detail
    }
}

extension RegistryLoadError.Conflict: CustomStringConvertible {
    /// For people.
    public var description: String {
        switch self {
        case .hardwareKeyTwice: "the hardware key is in an earlier line"
        case .bindingKeyTwice: "a certificate key is in an earlier line"
        case .madeAhead:
            "it was exported in the future: the clock of this machine, or of the exporting one, is wrong"
        }
    }
}
