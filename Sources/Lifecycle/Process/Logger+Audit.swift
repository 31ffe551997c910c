internal import Administration
internal import Logging

extension Logger {
    /// What the administration has to tell, with members for programs: `event` and what belongs to it.
    func tell(_ notice: AdministrationNotice) {
        switch notice {
        case .act(let act):
            var members: Metadata = ["event": "administration_act", "act": "\(act.name)", "by": "\(act.peer)"]
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
            self.notice("administration: \(act)", metadata: members)
        case .refused(let text):
            self.notice("administration: \(text)", metadata: ["event": "administration_refused"])
        }
    }
}
