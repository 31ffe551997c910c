internal import Cryptography
public import Registry
internal import Vocabulary

// Export of the whole registry to a file: page by page through a running gateway, or directly.
extension DeviceAdministration {
    /// Writes an export.
    ///
    /// - Parameters:
    ///   - write: Receives the next bytes of the file.
    ///   - progress: Called periodically with the counts so far.
    /// - Throws: the errors of `write`, and `DeviceAdministrationError`. The file is then incomplete.
    public func export(
        write: ([UInt8]) throws -> Void, progress: (ExportCounts) -> Void
    ) throws -> ExportCounts {
        var (source, page) = try patiently { () throws(DeviceAdministrationError) in try beginExport() }
        let store = page.end.store
        let reader = try ExportReader(LibraryContext())
        func put(_ line: some Sequence<UInt8>) throws { try write(line + [UInt8(ascii: "\n")]) }
        while true {
            var bytes: [UInt8] = []
            for line in page.lines {
                do throws(ExportFault) { _ = try reader.append(line) } catch {
                    throw DeviceAdministrationError.failed("the registry's records cannot be saved: \(error)")
                }
                bytes += line
                bytes.append(UInt8(ascii: "\n"))
            }
            try write(bytes)
            progress(reader.counts)
            guard let next = page.next else { throw source.malformed }
            guard let next else { break }
            page = try source.page(from: next)
            guard page.end.store == store else {
                throw DeviceAdministrationError.failed("the registry was replaced during the export")
            }
        }
        try put(ExportLine.encode(.end(try reader.makeEnd())))
        return reader.counts
    }

    /// Begins an export.
    ///
    /// - Returns: nil if the file is in use and no gateway answers.
    private func beginExport() throws(DeviceAdministrationError) -> (ExportSource, ExportPageDocument)? {
        if let client {
            do throws(DeviceAdministrationError) {
                let source = ExportSource.gateway(client)
                return (source, try source.page(from: .start))
            } catch {
                guard error.isUnreachable else { throw error }
            }
        }
        guard let registry = try openAtRest(isLoading: false) else { return nil }
        let source = ExportSource.atRest(registry)
        return (source, try source.page(from: .start))
    }
}

/// The source of the pages.
private enum ExportSource {
    case gateway(AdministrationClient)
    case atRest(any RegistryAtRest)

    func page(from cursor: ExportCursor) throws(DeviceAdministrationError) -> ExportPageDocument {
        switch self {
        case .gateway(let client):
            do throws(AdministrationClientError) { return try client.exportPage(from: cursor) } catch {
                throw DeviceAdministrationError(error, of: client.socketPath)
            }
        case .atRest(let registry):
            do throws(RegistryLoadError) {
                guard let page = ExportPageDocument(ExportPageDocument.encode(try registry.exportPage(from: cursor)))
                else { throw .failed("a page that cannot be read") }
                return page
            } catch {
                guard case .failed(let detail) = error else { throw .failed("\(error)") }
                throw .store(detail)
            }
        }
    }

    var malformed: DeviceAdministrationError {
        guard case .gateway(let client) = self else { return .failed("a page without its end") }
        return .gateway(socket: client.socketPath, .malformed)
    }
}
