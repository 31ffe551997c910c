internal import Encoding
internal import HTTP
internal import Registry
internal import Vocabulary

extension AdministrationEndpoint {
    /// Returns the endpoint for one page of an export. The store's thread reads it between two commits, within two
    /// milliseconds.
    ///
    /// - Parameter audit: Called when an export begins, because it shows every device, and when its last page is sent.
    ///   A client that stops earlier does not have all devices. It is also called for a position that no page gave: a
    ///   client can choose one before the first device and so see all.
    static func export(
        performing perform: @escaping DeviceEndpoints.Perform, audit: @escaping (AdministrationAct) -> Void
    ) -> AdministrationEndpoint {
        let places = ExportPositions()
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

/// The positions at which logged exports may continue, each valid for one page. Their number is limited. An export
/// whose position was dropped is logged again.
private final class ExportPositions {
    private var places: [ExportCursor] = []
    private static let limit = 64

    func handOut(_ place: ExportCursor) {
        if places.count == Self.limit { places.removeFirst() }
        places.append(place)
    }

    /// Removes a position.
    ///
    /// - Returns: whether it was present.
    func takeBack(_ place: ExportCursor) -> Bool {
        guard let index = places.firstIndex(of: place) else { return false }
        places.remove(at: index)
        return true
    }
}

/// A page of an export by a running gateway: lines of the file, followed by one with the next position.
struct ExportPageDocument {
    let lines: [ArraySlice<UInt8>]
    let end: End

    /// The last line of a page, which does not belong to the file.
    struct End: Codable, Equatable {
        /// The registry's identity in hexadecimal.
        let store: String
        /// The position of the next page. Null after the last.
        let next: String?

        func encode(to encoder: any Encoder) throws {
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(store, forKey: .store)
            // The synthesized encoder would omit null.
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

    /// Parses a page.
    ///
    /// - Returns: nil if the form is not a gateway's.
    init?(_ content: [UInt8]) {
        var lines = content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        // Nothing follows the end of the last line.
        guard lines.popLast()?.isEmpty == true, let last = lines.popLast(),
            let end = try? JSONText.decode(End.self, from: Array(last))
        else { return nil }
        self.lines = lines
        self.end = end
    }

    /// The position of the next page. The outer optional is nil if it is unreadable.
    var next: ExportCursor?? {
        guard let text = end.next else { return .some(nil) }
        return ExportCursor(text).map { .some($0) }
    }
}
