public import EventLoop

/// A registry that a command uses by itself, without a gateway in its process.
public final class RegistryAtRest {
    private enum Place {
        case file(RegistryStore)
        case database(RegistryDatabase)
    }

    private let place: Place

    /// A file that the command has to itself.
    public init(_ store: RegistryStore) {
        place = .file(store)
    }

    /// A database, which gateways may use at the same time. Waits for it.
    ///
    /// - Parameter isLoading: whether it is for an import: tables are made where there are none, for nobody else until that has ended
    ///   well.
    public init(_ settings: PostgreSQLSettings, isLoading: Bool) throws(StoreOpenError) {
        var settings = settings
        // Nobody waits for a command but who has called it; and much is written down at once.
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

    /// Some of what the registry knows.
    public func exportPage(
        from cursor: ExportCursor, at time: Int64 = WallClock.seconds
    ) throws(RegistryLoadError) -> ExportPage {
        do {
            switch place {
            // Nobody waits but who has called.
            case .file(let store):
                do throws(StoreError) {
                    return try store.exportPage(
                        from: cursor, limit: ExportPage.rows, until: .now + .seconds(1), at: time)
                } catch {
                    throw RegistryLoadError.failed("\(store.path): \(store.lastFault ?? "\(error)")")
                }
            case .database(let database):
                return try database.exportPage(from: cursor, limit: ExportPage.rows, at: time)
            }
        } catch let error as RegistryLoadError {
            throw error
        } catch {
            throw .failed(RegistryLoadError.detail(error))
        }
    }

    /// Gateways, and other commands, that use the registry now, as far as can be seen.
    public func otherUsers() throws(RegistryLoadError) -> Int {
        guard case .database(let database) = place else { return 0 }
        do { return try database.otherUsers() } catch { throw .failed(RegistryLoadError.detail(error)) }
    }

    /// Takes over an export into a registry that has no devices: all of it, or nothing. The registry is another one from then on,
    /// with a fresh epoch, so that nothing made for an earlier one is good; and no token passes that can have been used before.
    ///
    /// - Parameters:
    ///   - time: seconds since 1970-01-01T00:00:00Z.
    ///   - fill: hands over the records in their order, the head first. What it throws undoes everything.
    public func load(
        at time: Int64 = WallClock.seconds, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError) {
        switch place {
        case .file(let store): _ = try store.load(at: time, fill)
        case .database(let database): try database.load(at: time, fill)
        }
    }
}

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
