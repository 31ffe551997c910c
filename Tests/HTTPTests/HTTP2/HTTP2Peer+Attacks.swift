import HTTP
import Testing

/// What all attacks have in common.
extension HTTP2Peer {
    /// Sends what `frames` makes until the connection ends. - Returns: how often it did so.
    func attack(most: Int = 5000, reads: Bool = true, _ made: (Int) -> [Frame]) -> Int {
        for round in 0..<most {
            send(made(round).flatMap(\.bytes))
            if fault == nil, reads { _ = frames() }
            if fault != nil { return round }
        }
        return most
    }

    /// The connection ended for there was too much of `excess`: one GOAWAY, and nothing more is read or held.
    func expectCalm(_ excess: HTTP2Excess) {
        #expect(fault == .excess(excess))
        _ = frames()
        #expect(goAways == [HTTP2ErrorCode.enhanceYourCalm.rawValue])
        #expect(session.isFinished)
        let events = record.events
        send(.get(0x7fff_fff1))
        #expect(record.events == events)
        session.close()
        #expect(session.openStreams == 0)
        #expect(pool.outstanding == 0)
    }
}
