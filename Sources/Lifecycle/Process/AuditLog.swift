internal import Administration
internal import Logging

/// The log of what operators do. It ignores the configured level, because an audit log must be complete.
struct AuditLog {
    let logger: Logger

    /// Records that an operator has begun something.
    ///
    /// - Parameters:
    ///   - act: Its name for programs.
    ///   - words: Its name for people.
    ///   - peer: Who began it.
    func begun(_ act: String, _ words: String, by peer: String) {
        record(.act(AdministrationAct(act, words, .begun, by: peer)))
    }

    /// Records a notice of the administration, with members for programs: `event` and its details.
    func record(_ notice: AdministrationNotice) {
        switch notice {
        case .act(let act):
            var members: Logger.Metadata = [
                "event": "administration_act", "act": "\(act.name)", "by": "\(act.peer)",
            ]
            if let target = act.target { members["target"] = "\(target)" }
            switch act.outcome {
            case .done: members["outcome"] = "done"
            case .begun: members["outcome"] = "begun"
            case .refused(let code):
                members["outcome"] = "refused"
                members["refusal"] = "\(code)"
            case .unknown(let code):
                members["outcome"] = "unknown"
                members["refusal"] = "\(code)"
            }
            logger.notice("administration: \(act)", metadata: members)
        case .refused(let text):
            logger.notice("administration: \(text)", metadata: ["event": "administration_refused"])
        }
    }
}
