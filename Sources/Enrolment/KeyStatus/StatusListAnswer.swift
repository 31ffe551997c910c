internal import Attestation
internal import Encoding
internal import Upstream

/// The answer of the source of the status list, compared with the list that is kept.
enum StatusListAnswer: Equatable {
    /// A list that is taken.
    case list(AttestationStatusList, text: [UInt8], ContentValidators, maxAge: Int64?)
    /// The kept list is still the source's: 304.
    case unchanged(maxAge: Int64?)
    /// A list that is not taken.
    ///
    /// - reason: The text for logs.
    case refused(String)
    /// There is no answer, or an unexpected one.
    ///
    /// - reason: A word for logs, followed by details.
    case failed(String, retryAfter: Int64?)

    /// Judges the result of a call.
    ///
    /// - Parameter kept: The list that the new one would replace. If it is nil, the request had no conditions.
    init(_ result: Result<OutboundAnswer, OutboundFailure>, kept: AttestationStatusList?) {
        switch FetchAnswer(result, isConditional: kept != nil) {
        case .content(let answer): self.init(answer.content, answer.validators, answer.maxAge, kept: kept)
        case .unchanged(let maxAge): self = .unchanged(maxAge: maxAge)
        case .tooLong: self = .refused(RejectedStatusList.tooLong.reason)
        case .failed(let reason, let retryAfter): self = .failed(reason, retryAfter: retryAfter)
        }
    }

    /// Judges the text of a list.
    init(
        _ text: [UInt8], _ validators: ContentValidators = ContentValidators(), _ maxAge: Int64? = nil,
        kept: AttestationStatusList?
    ) {
        do throws(RejectedStatusList) {
            self = .list(try AttestationStatusList(text, replacing: kept), text: text, validators, maxAge: maxAge)
        } catch {
            self = .refused(error.reason)
        }
    }

    /// What the schedule has to know of it.
    var outcome: FetchSchedule.Outcome {
        switch self {
        case .list(_, _, _, let maxAge), .unchanged(let maxAge): .confirmed(maxAge: maxAge)
        case .refused: .failed(retryAfter: nil)
        case .failed(_, let retryAfter): .failed(retryAfter: retryAfter)
        }
    }
}

extension AttestationStatusList {
    /// Parses a list that replaces another. A list that has lost most of its entries is rather damaged or forged than
    /// right: keys are revoked for good.
    ///
    /// - Throws: `RejectedStatusList` if it is not taken.
    init(_ text: [UInt8], replacing kept: AttestationStatusList?) throws(RejectedStatusList) {
        do throws(StatusListFault) { try self.init(text) } catch {
            if case .malformed(.tooLong) = error { throw .tooLong }
            throw .unreadable(error)
        }
        guard !serials.isEmpty else { throw .empty }
        guard let kept else { return }
        let lost = kept.serials.subtracting(serials).count
        guard lost * 2 <= kept.serials.count else { throw .shrunken(lost: lost, of: kept.serials.count) }
    }
}

/// The reason why a list is not taken.
enum RejectedStatusList: Error, Equatable {
    case unreadable(StatusListFault)
    case tooLong
    case empty
    /// It has lost more than half of the entries.
    case shrunken(lost: Int, of: Int)

    var reason: String {
        switch self {
        case .unreadable(.malformed(let fault)): "it is not JSON: \(fault)"
        case .unreadable(.entriesMissing): "it has no member `entries`"
        case .unreadable(.statusMissing): "an entry has no status"
        case .tooLong: "it is longer than \(AttestationStatusList.longest) bytes"
        case .empty: "it has no entries"
        case .shrunken(let lost, let count): "it has lost \(lost) of \(count) entries"
        }
    }
}
