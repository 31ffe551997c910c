internal import EventLoop
internal import Vocabulary

// Changes that are decided by one look and written at once: two ways to the database and back, and one of them only while others
// wait.
extension RegistryDatabase {
    /// What was made of a look.
    enum Decision<Result> {
        /// Nothing is written.
        case refused(Result)
        /// - noting: the device whose change is announced to other gateways; nil if none is.
        /// - reading: what comes of it, by what the statements have answered.
        case write([DatabaseStatement], noting: DeviceID?, reading: ([DatabaseResult]) throws -> Result)
    }

    /// In one transaction, with the promises of `transaction`.
    ///
    /// - Parameters:
    ///   - purpose: `changing` for whatever notes a change.
    ///   - decide: is given the answers of `looks`; called again where something has to be tried again.
    func decide<Result>(
        _ purpose: Purpose, by looks: [DatabaseStatement], at time: Int64,
        _ decide: ([DatabaseResult]) throws -> Decision<Result>
    ) throws -> Result {
        try retrying {
            switch try look(purpose, looks, decide) {
            case .refused(let result):
                _ = try execute("ROLLBACK")
                return result
            case .write(let statements, let noting, let reading):
                return try reading(try write(statements, noting: noting, at: time))
            }
        }
    }

    private func look<Result>(
        _ purpose: Purpose, _ looks: [DatabaseStatement], _ decide: ([DatabaseResult]) throws -> Decision<Result>
    ) throws -> Decision<Result> {
        var statements = [DatabaseStatement(Self.beginWriting)]
        // Takes no snapshot: what is looked at after it is what is there after the wait.
        if purpose == .changing, kind.locksTables { statements.append(DatabaseStatement(Self.lock)) }
        let begin = statements.count
        do {
            return try decide([DatabaseResult](try run(statements + looks)[begin...]))
        } catch {
            try undo(after: error)
            throw error
        }
    }

    /// With the end of the transaction: nobody waits for the way that its answer takes.
    private func write(
        _ changes: [DatabaseStatement], noting device: DeviceID?, at time: Int64
    ) throws -> [DatabaseResult] {
        var statements = changes
        if let device {
            statements.append(Self.note(device, at: time))
            if kind.notifies { statements.append(DatabaseStatement(Self.notify)) }
        }
        statements.append(DatabaseStatement(Self.commit))
        // What fails here was not sent, so nothing is unknown of it.
        do { try connection.prepare(statements, patience: settings.limits.answering) } catch {
            try undo(after: error)
            throw error
        }
        let warnings = connection.warnings
        let results: [DatabaseResult]
        // It may have been committed, whatever became of the answer.
        do { results = try connection.run(statements, patience: settings.limits.answering) } catch {
            throw Self.trouble(ofCommit: error)
        }
        if let fault = results.last?.fault {
            guard results.count < statements.count else { throw Self.trouble(ofCommit: fault) }
            try undo(after: fault)
            throw fault
        }
        try check(commit: results[statements.count - 1], warningsBefore: warnings)
        if device != nil { hasNoted(try results[changes.count].integer(0, 0)) }
        return [DatabaseResult](results[..<changes.count])
    }

    private func undo(after error: any Error) throws {
        // A connection that has failed undoes it by its end.
        if let fault = error as? DatabaseFault, fault.state.isEmpty { return }
        _ = try execute("ROLLBACK")
    }
}
