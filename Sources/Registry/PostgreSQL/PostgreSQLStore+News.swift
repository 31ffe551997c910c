internal import EventLoop
internal import Vocabulary

// Changes by other gateways and by this one: read in one order, independent of their author.
extension PostgreSQLStore {
    /// Looks whether anything has changed; if not, what memory knows is still true as of when that was asked.
    func look() {
        guard let pipeline, feed.beginLook() else { return }
        let asked = Instant.now
        pipeline.run(CounterStatements.confirm, []) { [unowned self] outcome in
            guard case .done(let result) = outcome else { return ended(outcome, pipeline) }
            do {
                guard result.rows == 1, let store = RandomID(result.bytes(0, 0)),
                    let epoch = RandomID(result.bytes(0, 1)), store == identity.store
                else { throw DatabaseFault("replaced by another store while in use") }
                change(to: StoreIdentity(store: store, epoch: epoch))
                epochNumber = try result.integer(0, 3)
                logPosition.update(inserted: try result.integer(0, 4), flushed: try result.integer(0, 5))
                if try feed.isBehind(try result.integer(0, 2)) { return readChanges(pipeline) }
            } catch {
                return pipeline.lose("\(DatabaseFailure(error))")
            }
            if isServing { signal(.confirmed(at: asked)) }
            if feed.endLook() { look() }
        }
    }

    private func readChanges(_ pipeline: DatabasePipeline) {
        pipeline.run(CounterStatements.changes, [.integer(feed.position)]) { [unowned self] outcome in
            guard case .done(let result) = outcome else { return ended(outcome, pipeline) }
            do {
                let changed = try feed.changes(result, at: time)
                attest(changed.entries)
                for device in changed.devices { traffic?.forget(device) }
                signal(.changes(changed.changes))
                for done in feed.advance(to: changed.position) { done() }
            } catch {
                return pipeline.lose("\(DatabaseFailure(error))")
            }
            _ = feed.endLook()
            // There may be more.
            look()
        }
    }

    private func ended(_ outcome: DatabasePipeline.Outcome, _ pipeline: DatabasePipeline) {
        _ = feed.endLook()
        if case .refused(let fault) = outcome { pipeline.lose("\(fault)") }
    }
}
