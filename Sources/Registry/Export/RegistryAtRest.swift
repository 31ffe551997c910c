internal import Encoding
internal import EventLoop

/// A registry that a command uses directly, without a gateway in its process.
public protocol RegistryAtRest: AnyObject {
    /// Reads a page of an export.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    func exportPage(from cursor: ExportCursor, at time: Int64) throws(RegistryLoadError) -> ExportPage

    /// Returns the number of gateways and other commands that are connected to the registry, as far as it is known.
    func otherUsers() throws(RegistryLoadError) -> Int

    /// Imports an export into a registry without devices, completely or not at all.
    ///
    /// The registry then has a new identity and a fresh epoch. Earlier challenges are invalid, and tokens that may have
    /// been used before are refused.
    ///
    /// - Parameters:
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    ///   - fill: Adds the records in order, starting with the head. If it throws, the transaction is rolled back.
    func load(
        at time: Int64, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError)
}

extension RegistryAtRest {
    public func exportPage(from cursor: ExportCursor) throws(RegistryLoadError) -> ExportPage {
        try exportPage(from: cursor, at: WallClock.seconds)
    }

    public func load(_ fill: (RegistryLoading) throws(RegistryLoadError) -> Void) throws(RegistryLoadError) {
        try load(at: WallClock.seconds, fill)
    }
}

/// An import in progress, within a transaction.
public final class RegistryLoading {
    private let take: (ExportRecord, Int) throws(RegistryLoadError) -> Void
    private let time: Int64

    /// The maximum time by which an export may appear to be in the future, in seconds, because another machine wrote
    /// it.
    private static let clockTolerance: Int64 = 300

    /// Creates an import.
    ///
    /// - Parameters:
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    ///   - take: Adds a record to the store. Its second argument is the line number.
    package init(at time: Int64, _ take: @escaping (ExportRecord, Int) throws(RegistryLoadError) -> Void) {
        self.time = time
        self.take = take
    }

    /// Adds a record.
    ///
    /// - Parameters:
    ///   - record: The next record. The caller checks the order.
    ///   - line: The line number for error messages.
    public func add(_ record: ExportRecord, line: Int) throws(RegistryLoadError) {
        // A head with a wrong time would make the expiry of used tokens wrong.
        if case .head(let head) = record, head.time - time > Self.clockTolerance {
            throw .refused(line: line, .madeAhead)
        }
        try take(record, line)
    }
}

/// An error that prevents an import.
public enum RegistryLoadError: Error, Equatable, Sendable {
    /// The registry has devices.
    case notEmpty
    /// A line conflicts with earlier lines.
    case refused(line: Int, Conflict)
    /// The caller found that the records must not be kept.
    case abandoned
    /// The store failed.
    case failed(String)

    public enum Conflict: Equatable, Sendable {
        case hardwareKeyTwice
        case bindingKeyTwice
        /// Two Android phones have this tag.
        case tagTwice([UInt8])
        /// The export is dated in the future.
        case madeAhead
    }
}

extension RegistryLoadError.Conflict: CustomStringConvertible {
    /// The text for messages.
    public var description: String {
        switch self {
        case .hardwareKeyTwice: "the hardware key is in an earlier line"
        case .bindingKeyTwice: "a certificate key is in an earlier line"
        case .tagTwice(let tag):
            "the tag \(Hexadecimal.encode(tag)) is in an earlier line: two devices cannot have it"
        case .madeAhead:
            "it was exported in the future: the clock of this machine, or of the exporting one, is wrong"
        }
    }
}
