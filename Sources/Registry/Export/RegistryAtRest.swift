public import EventLoop

/// A registry that a command uses directly, without a gateway in its process.
public final class RegistryAtRest {
    private enum Place {
        case file(RegistryStore)
        case database(RegistryDatabase)
    }

    private let place: Place

    /// Creates access to a file that no other process uses.
    public init(_ store: RegistryStore) {
        place = .file(store)
    }

    /// Connects to a database, which gateways may use at the same time. Blocks.
    ///
    /// - Parameter isLoading: Whether the command imports. Missing tables are then created, and hidden from others
    ///   until the import has succeeded.
    public init(_ settings: PostgreSQLSettings, isLoading: Bool) throws(StoreOpenError) {
        var settings = settings
        // Only the caller waits, and an import writes much at once.
        settings.limits.answering = .seconds(120)
        settings.limits.statement = .seconds(60)
        do {
            place = .database(try RegistryDatabase(atRest: settings, making: isLoading, isLoading: isLoading))
        } catch let error as StoreOpenError {
            throw error
        } catch is PostgreSQLSchema.Missing {
            throw .missing(path: settings.name)
        } catch {
            throw .failed(path: settings.name, detail: "\(DatabaseFailure(error))")
        }
    }

    /// Reads a page of an export.
    public func exportPage(
        from cursor: ExportCursor, at time: Int64 = WallClock.seconds
    ) throws(RegistryLoadError) -> ExportPage {
        do {
            switch place {
            // Only the caller waits.
            case .file(let store):
                do throws(StoreError) {
                    return try SQLiteExporter(store).exportPage(
                        from: cursor, limit: ExportPage.rows, until: .now + .seconds(1), at: time)
                } catch {
                    throw RegistryLoadError.failed("\(store.path): \(store.lastFault ?? "\(error)")")
                }
            case .database(let database):
                return try DatabaseExporter(database).exportPage(from: cursor, limit: ExportPage.rows, at: time)
            }
        } catch let error as RegistryLoadError {
            throw error
        } catch {
            throw .failed(RegistryLoadError.detail(error))
        }
    }

    /// Returns the number of gateways and other commands that are connected to the registry, as far as it is known.
    public func otherUsers() throws(RegistryLoadError) -> Int {
        guard case .database(let database) = place else { return 0 }
        do { return try database.otherUsers() } catch { throw .failed(RegistryLoadError.detail(error)) }
    }

    /// Imports an export into a registry without devices, completely or not at all.
    ///
    /// The registry then has a new identity and a fresh epoch. Earlier challenges are invalid, and tokens that may have
    /// been used before are refused.
    ///
    /// - Parameters:
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    ///   - fill: Adds the records in order, starting with the head. If it throws, the transaction is rolled back.
    public func load(
        at time: Int64 = WallClock.seconds, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError) {
        switch place {
        case .file(let store): _ = try SQLiteLoader.load(into: store, at: time, fill)
        case .database(let database): try DatabaseLoader.load(into: database, at: time, fill)
        }
    }
}

/// An import in progress, within a transaction.
public final class RegistryLoading {
    private let take: (ExportRecord, Int) throws -> Void

    private let time: Int64

    /// The maximum time by which an export may appear to be in the future, in seconds, because another machine wrote
    /// it.
    private static let clockTolerance: Int64 = 300

    /// Creates an import.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    init(at time: Int64, _ take: @escaping (ExportRecord, Int) throws -> Void) {
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
        do { try take(record, line) } catch let error as RegistryLoadError { throw error } catch {
            throw .failed(RegistryLoadError.detail(error))
        }
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
        /// The export is dated in the future.
        case madeAhead
    }

    static func detail(_ error: any Error) -> String {
        error is DatabaseFault || error is RegistryDatabase.UnknownOutcome
            ? "\(DatabaseFailure(error))" : StoreFault(error).detail
    }
}

extension RegistryLoadError.Conflict: CustomStringConvertible {
    /// The text for messages.
    public var description: String {
        switch self {
        case .hardwareKeyTwice: "the hardware key is in an earlier line"
        case .bindingKeyTwice: "a certificate key is in an earlier line"
        case .madeAhead:
            "it was exported in the future: the clock of this machine, or of the exporting one, is wrong"
        }
    }
}
