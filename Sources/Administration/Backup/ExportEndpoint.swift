internal import HTTP
internal import Registry
internal import Vocabulary

extension AdministrationEndpoint {
    /// One page of an export. The store's thread reads it between two commits, for two milliseconds at most.
    ///
    /// - Parameter audit: called when an export begins, because an export shows every device, and when its last page is
    ///   handed out: a client that stops earlier does not have all devices. Also called for a page that continues from
    ///   a position which no page handed out: a client can make up a position, and one before the first device shows
    ///   all of them.
    static func export(
        performing perform: @escaping DeviceEndpoints.Perform, audit: @escaping (AdministrationAct) -> Void
    ) -> AdministrationEndpoint {
        let places = ExportPlaces()
        return AdministrationEndpoint(.get, "/registry/export", query: ["from"], level: .admin) {
            request, reply throws(AdministrationFault) in
            var cursor = ExportCursor.start
            if let text = request.query["from"] {
                guard let read = ExportCursor(text) else {
                    throw .badRequest("'from' must be 'next' of the previous page.")
                }
                cursor = read
            }
            let goesOn = places.takeBack(cursor)
            perform(.export(cursor, limit: ExportPage.rows)) { result in
                if !goesOn { audit(act(result, by: request.peer)) }
                switch result {
                case .success(.exportPage(let page)):
                    if let next = page.next {
                        places.handOut(next)
                    } else {
                        audit(AdministrationAct("registry_export", "registry export done", by: request.peer))
                    }
                    reply.send(
                        AdministrationResponse(
                            200, contentType: "application/jsonl", ExportPageDocument.encode(page)))
                case .success: reply.send(AdministrationResponse(.storeUnavailable))
                case .failure(let fault): reply.send(AdministrationResponse(fault))
                }
            }
        }
    }

    private static func act(
        _ result: Result<RegistryReply, AdministrationFault>, by peer: String
    ) -> AdministrationAct {
        switch result {
        case .success: AdministrationAct("registry_export", "registry export begun", .begun, by: peer)
        case .failure(let fault):
            AdministrationAct("registry_export", "registry export", fault, by: peer)
        }
    }
}

/// Positions at which exports that are already logged may continue, each valid for one page. Bounded: an export whose
/// position was dropped is logged a second time.
private final class ExportPlaces {
    private var places: [ExportCursor] = []
    private static let limit = 64

    func handOut(_ place: ExportCursor) {
        if places.count == Self.limit { places.removeFirst() }
        places.append(place)
    }

    /// - Returns: whether it was handed out, and not taken back since.
    func takeBack(_ place: ExportCursor) -> Bool {
        guard let index = places.firstIndex(of: place) else { return false }
        places.remove(at: index)
        return true
    }
}

/// Some of an export as a running gateway gives it: lines as in the file, and behind them one that says how to go on.
struct ExportPageDocument {
    let lines: [ArraySlice<UInt8>]
    let end: End

    /// The last line of a page, which is none of the file's.
    struct End: Codable, Equatable {
        /// Which registry this is, in hexadecimal.
        let store: String
        /// Where the next page begins; null if this was the last.
        let next: String?

        func encode(to encoder: any Encoder) throws {
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(store, forKey: .store)
            // Null where the encoder that Swift makes would leave it out.
            try members.encode(next, forKey: .next)
        }
    }

    static func encode(_ page: ExportPage) -> [UInt8] {
        var content: [UInt8] = []
        for record in page.records {
            content += ExportLine.encode(record)
            content.append(UInt8(ascii: "\n"))
        }
        let end = End(store: Hexadecimal.encode(page.store.bytes), next: page.next?.description)
        return content + JSONText.encode(end) + [UInt8(ascii: "\n")]
    }

    /// - Returns: nil if it is not as a gateway writes it.
    init?(_ content: [UInt8]) {
        var lines = content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        // Behind the end of the last line there is nothing.
        guard lines.popLast()?.isEmpty == true, let last = lines.popLast(),
            let end = try? JSONText.decode(End.self, from: Array(last))
        else { return nil }
        self.lines = lines
        self.end = end
    }

    /// Where the next page begins, and nil twice if that cannot be read.
    var next: ExportCursor?? {
        guard let text = end.next else { return .some(nil) }
        return ExportCursor(text).map { .some($0) }
    }
}
