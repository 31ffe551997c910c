import HTTP
import Testing

/// Helpers of all attacks.
extension HTTP2Peer {
    /// Sends the frames of `made` until the connection ends.
    ///
    /// - Returns: the number of repetitions.
    func attack(most: Int = 5000, reads: Bool = true, _ made: (Int) -> [Frame]) -> Int {
        for round in 0..<most {
            send(made(round).flatMap(\.bytes))
            if fault == nil, reads { _ = frames() }
            if fault != nil { return round }
        }
        return most
    }

    /// Expects the end of a connection for `excess`: one GOAWAY, no further reads, and no memory held.
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
