internal import Administration
internal import ArgumentParser
internal import Encoding
internal import EventLoop
internal import Foundation
internal import GatewayConfiguration
internal import Lifecycle
internal import Policy
internal import Registry

struct PolicyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "policy", abstract: "Try the policies of a conf file.", subcommands: [PolicyExplain.self])
}

private struct PolicyExplain: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain", abstract: "Explain what the policy of a route decides about a device, and why.",
        discussion: """
            Shows each condition with what is known of the device, and what the decision point would be asked. The \
            device is one of the registry, or a posture in a file: what `attestgate device show --json` prints, perhaps \
            with other facts in its `posture`. A route that requires no device needs neither. In the question, zeros \
            stand for pseudonyms; request fields and the client's network are left out.

            With --ask, the decision point is asked, as by the gateway.

            Exit status: 0 allowed, 1 denied or no decision, 2 usage error.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(help: ArgumentHelp("The route.", valueName: "NAME"))
    var route: String

    @Option(
        help: ArgumentHelp("A device of the registry, as for `attestgate device show`.", valueName: "DEVICE"),
        transform: DeviceReference.init(argument:))
    var device: DeviceReference?

    @Option(help: ArgumentHelp("A posture in JSON; - for standard input.", valueName: "FILE"), completion: .file())
    var posture: String?

    @Option(help: ArgumentHelp("The method. Without it GET, if the route admits it.", valueName: "METHOD"))
    var method: String?

    @Option(help: ArgumentHelp("The path, perhaps with a query. Without it that of the route.", valueName: "PATH"))
    var path: String?

    @Flag(help: "Ask the decision point.")
    var ask = false

    @Flag(help: "Print one JSON object.")
    var json = false

    func validate() throws {
        guard device == nil || posture == nil else { throw ValidationError("give either --device or --posture") }
    }

    func run() throws {
        let configuration = try file.read()
        let posture = device == nil && posture == nil ? nil : try readPosture()
        var explanation: PolicyExplanation
        do throws(StartupError) {
            explanation = try PolicyExplanation(
                configuration, route: route, posture, method: method, target: path, at: WallClock.seconds)
        } catch {
            throw ValidationError(error.description)
        }
        if ask { try explanation.ask(configuration) }
        print(json ? PolicyReport.json(explanation).text : PolicyReport.text(explanation))
        if explanation.outcome != .allow { throw ExitCode.failure }
    }

    private func readPosture() throws -> Posture {
        let text: [UInt8]
        if let posture {
            guard let handle = posture == "-" ? .standardInput : FileHandle(forReadingAtPath: posture),
                let data = try? handle.read(upToCount: Posture.textLimit + 1) ?? Data()
            else { throw ValidationError("cannot read \(posture)") }
            text = Array(data)
        } else {
            text = try deviceText()
        }
        do throws(PostureFault) { return try Posture(parsing: text) } catch {
            throw ValidationError("\(posture ?? "the device"): \(error.reason)")
        }
    }

    private func deviceText() throws -> [UInt8] {
        guard let device else { return [] }
        var access = DeviceAccess()
        access.file = file
        do {
            guard case .device(let document) = try access.administration().perform(.show(device.selection(access)))
            else { return [] }
            return JSONText.encode(document)
        } catch {
            // 1 is for a device that is denied.
            Failure.print("\(error)")
            throw ExitCode(2)
        }
    }
}

/// An explanation for people and for programs.
private enum PolicyReport {
    static func text(_ explanation: PolicyExplanation) -> String {
        var lines = [
            "route \(explanation.route), policy \(explanation.policy)\(explanation.isSimulated ? " (simulated)" : "")",
            "",
        ]
        let rows = explanation.findings.map { finding in
            [
                "  \(mark(finding.verdict)) \(finding.condition.key)", finding.condition.requirement,
                value(finding.fact), detail(finding),
            ]
        }
        lines += rows.isEmpty ? ["  no conditions"] : Columns.aligned(rows)
        if let name = explanation.decisionPoint {
            lines += ["", "decision point \(name)"]
            lines.append("  question: \(explanation.document.map { String(decoding: $0, as: UTF8.self) } ?? "none")")
            if let fault = explanation.fault { lines.append("  denied: \(fault.reason)") }
            switch explanation.answer {
            case .notAsked: break
            case .decided(let decision):
                let texts = decision.violations + [decision.userReason, decision.adminReason].compactMap(\.self)
                let suffix = texts.isEmpty ? "" : " (\(texts.joined(separator: "; ")))"
                lines.append("  answered: \(decision.isAllowed ? "allow" : "deny")\(suffix)")
            case .failed(let reason): lines.append("  no decision: \(reason)")
            }
        }
        lines += ["", "decision: \(outcome(explanation))"]
        return lines.joined(separator: "\n")
    }

    private static func outcome(_ explanation: PolicyExplanation) -> String {
        let codes = explanation.violations
        switch (explanation.outcome, explanation.answer) {
        case (.allow, .notAsked) where explanation.decisionPoint != nil:
            return "allow, if the decision point does: --ask asks it"
        case (.allow, _): return "allow"
        case (.deny, _): return codes.isEmpty ? "deny" : "deny (\(codes.joined(separator: ", ")))"
        case (.unavailable, _): return "none (policy_unavailable)"
        }
    }

    private static func mark(_ verdict: Condition.Verdict) -> String { verdict == .met ? "✓" : "✗" }

    private static func value(_ fact: PostureFact?) -> String {
        switch fact?.value {
        case nil: "not known"
        case .text(let text): text
        case .number(let number): "\(number)"
        case .flag(let flag): flag ? "yes" : "no"
        case .texts(let texts): texts.isEmpty ? "none" : texts.joined(separator: ", ")
        case .time(let seconds): InternetTime.text(of: seconds)
        }
    }

    private static func detail(_ finding: PolicyExplanation.Finding) -> String {
        var parts = [finding.fact?.source.rawValue, finding.age.map(age)].compactMap(\.self)
        if finding.verdict != .met { parts.append(String(describing: finding.condition.violation.row.code)) }
        return parts.joined(separator: ", ")
    }

    private static func age(_ seconds: Int64) -> String {
        switch seconds {
        case 172_800...: "\(seconds / 86_400) days old"
        case 7_200...: "\(seconds / 3_600) hours old"
        default: "\(max(0, seconds) / 60) minutes old"
        }
    }

    static func json(_ explanation: PolicyExplanation) -> ReportValue {
        let conditions = explanation.findings.map { finding in
            ReportValue.object([
                ("condition", .string(finding.condition.key)), ("required", .string(finding.condition.requirement)),
                ("fact", .string(finding.condition.fact.rawValue)), ("value", json(finding.fact?.value)),
                ("source", .optional(finding.fact?.source.rawValue)), ("age_seconds", .optional(finding.age)),
                ("verdict", .string(finding.verdict.rawValue)),
                (
                    "violation",
                    finding.verdict == .met
                        ? .null : .string(String(describing: finding.condition.violation.row.code))
                ),
            ])
        }
        return .object([
            ("decision", .string(explanation.outcome.rawValue)), ("route", .string(explanation.route)),
            ("policy", .string(explanation.policy)), ("simulated", .bool(explanation.isSimulated)),
            ("conditions", .array(conditions)), ("decision_point", point(of: explanation)),
            ("violations", .array(explanation.violations.map { .string($0) })),
        ])
    }

    private static func point(of explanation: PolicyExplanation) -> ReportValue {
        guard let name = explanation.decisionPoint else { return .null }
        let answer: ReportValue
        switch explanation.answer {
        case .notAsked: answer = .null
        case .failed(let reason): answer = .object([("error", .string(reason))])
        case .decided(let decision):
            answer = .object([
                ("decision", .bool(decision.isAllowed)),
                ("violations", .array(decision.violations.map { .string($0) })),
                ("reason_user", .optional(decision.userReason)), ("reason_admin", .optional(decision.adminReason)),
            ])
        }
        return .object([
            ("name", .string(name)),
            ("question", .optional(explanation.document.map { String(decoding: $0, as: UTF8.self) })),
            ("denied", .optional(explanation.fault.map { String(describing: $0.reason) })), ("answer", answer),
        ])
    }

    private static func json(_ value: PostureValue?) -> ReportValue {
        switch value {
        case nil: .null
        case .text(let text): .string(text)
        case .number(let number): .integer(number)
        case .flag(let flag): .bool(flag)
        case .texts(let texts): .array(texts.map { .string($0) })
        case .time(let seconds): .string(InternetTime.text(of: seconds))
        }
    }
}
