package import Vocabulary

/// The rules of background work: receipts, and expiry in slices. Times are in seconds since 1970-01-01T00:00:00Z.
package enum UpkeepRules {
    // MARK: - Receipts

    /// Claims devices whose receipts are due, the longest due first.
    static func claimReceipts(_ claim: ReceiptClaim) -> StoreRule<RegistryReply> {
        let limit = max(0, claim.limit)
        let rows = max(limit, ReceiptClaim.leastRows)
        var look = StoreLook()
        look.due = StoreLook.Due(.receipts, at: claim.time, limit: rows)
        return StoreRule(look: look, isOftenIdle: true) { facts in
            var writes: [StoreWrite] = []
            var claimed: [DeviceID] = []
            for row in facts.due where claimed.count < limit {
                guard let device = row.device else { continue }
                // Revoked devices are postponed, so that they do not delay others.
                let next = row.isRevoked ? claim.time + ReceiptClaim.revokedPause : claim.until
                writes.append(.scheduleReceipt(device, at: next))
                if !row.isRevoked { claimed.append(device) }
            }
            let isMoreDue = writes.count < facts.due.count || facts.due.count == rows
            return StoreDecision(writes, reading: claimed.map { .id($0) }) {
                .claimedReceipts(ClaimedReceipts(devices: $0, isMoreDue: isMoreDue))
            }
        }
    }

    /// Records the result for a claimed device. Only the examined receipt is replaced, and never by an older one.
    static func recordReceipt(_ result: ReceiptResult) -> StoreRule<RegistryReply> {
        StoreRule(look: StoreLook(.id(result.device))) { facts in
            guard let details = facts.device, let attestation = details.attestation,
                attestation.receipt == result.previous, let known = details.refresh,
                known.createdAt.map({ before in result.createdAt.map { before <= $0 } ?? true }) ?? true
            else { return StoreDecision(reply: .recordedReceipt(.superseded)) }
            let refresh = ReceiptRefresh(
                createdAt: result.createdAt ?? known.createdAt, nextAt: result.nextAt,
                askedAt: result.askedAt ?? known.askedAt, outcome: result.outcome ?? known.outcome,
                failures: max(0, result.failures))
            let write = StoreWrite.keepReceipt(
                of: result.device, content: result.newer?.content,
                riskMetric: result.newer == nil ? attestation.riskMetric : result.newer?.riskMetric, refresh)
            return StoreDecision([write], reading: [.id(result.device)]) { .recordedReceipt(.recorded($0[0])) }
        }
    }

    // MARK: - Expiry

    /// Ends bindings whose time has come. The end is written, so that it stays after a clock was set back.
    package static func endDueBindings(at time: Int64, limit: Int) -> StoreRule<UpkeepResult> {
        slice(StoreLook.Due(.bindings, at: time, limit: limit)) { facts in
            facts.due.compactMap { row in row.key.flatMap { key in row.device.map { .expireBinding(key, of: $0) } } }
        }
    }

    /// Removes the oldest expired rows of used values. Their latest expiry is kept, so that they stay refused.
    package static func removeUsed(_ kind: SingleUseKind, at time: Int64, limit: Int) -> StoreRule<UpkeepResult> {
        slice(StoreLook.Due(.used(kind), at: time, limit: limit)) { facts in
            guard let last = facts.due.last?.time else { return [] }
            var state = facts.state
            switch kind {
            case .nonce: state.noncesRemoved = max(state.noncesRemoved, last)
            case .token: state.tokensRemoved = max(state.tokensRemoved, last)
            }
            return [.setState(state), .removeUsed(kind, until: last, limit: limit)]
        }
    }

    /// Removes the oldest rows of certificates that expired long ago.
    package static func removeCertificates(at time: Int64, limit: Int) -> StoreRule<UpkeepResult> {
        slice(StoreLook.Due(.certificates, at: time - CertificateRecord.keptAfterEnd, limit: limit)) { facts in
            facts.due.last.map { [.removeCertificates(until: $0.time, limit: limit)] } ?? []
        }
    }

    /// Removes the oldest rows of the federation's tokens that expired long ago.
    package static func removeTokens(at time: Int64, limit: Int) -> StoreRule<UpkeepResult> {
        slice(StoreLook.Due(.federationTokens, at: time - FederationToken.keptAfterEnd, limit: limit)) { facts in
            facts.due.last.map { [.federation(.remove(until: $0.time, limit: limit))] } ?? []
        }
    }

    private static func slice(
        _ due: StoreLook.Due, _ writes: @escaping (StoreFacts) -> [StoreWrite]
    ) -> StoreRule<UpkeepResult> {
        var look = StoreLook()
        look.due = due
        return StoreRule(look: look, isOftenIdle: true) { facts in
            StoreDecision(
                writes(facts),
                reply: UpkeepResult(ended: facts.due.compactMap(\.key), isMoreLeft: facts.due.count == due.limit))
        }
    }
}

/// The result of a slice of upkeep.
package struct UpkeepResult {
    /// The keys whose bindings have ended.
    package var ended: [KeyID] = []
    /// Whether there may be more to do.
    package let isMoreLeft: Bool
}
