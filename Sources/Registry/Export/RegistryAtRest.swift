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
