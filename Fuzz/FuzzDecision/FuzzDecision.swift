import Encoding
import Policy

/// libFuzzer's entry: the answers and the metadata of decision points.
///
/// Properties: nothing traps; the same bytes have the same outcome; texts are within their bounds and need no escape in
/// JSON; only an answer with a true Boolean at its place allows; no beginning of an answer is a decision.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzDecision(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let content = Array(UnsafeBufferPointer(start: data, count: count).dropFirst())
    let format = DecisionFormat.allCases[Int(data[0]) % DecisionFormat.allCases.count]
    let first = parse(content, format)
    precondition(first == parse(content, format), "the same bytes have two outcomes")
    switch first {
    case .failure(let fault): precondition(!fault.reason.isEmpty)
    case .success(let decision):
        check(decision)
        if decision.isAllowed { precondition(isAllowed(content, format), "something else than a Boolean allows") }
        if let last = content.lastIndex(of: UInt8(ascii: "}")) {
            if case .success = parse(Array(content[..<last]), format) { preconditionFailure("its end is not needed") }
        }
    }
    checkMetadata(content)
    return 0
}

private func parse(_ content: [UInt8], _ format: DecisionFormat) -> Result<PolicyDecision, DecisionFault> {
    PolicyDecision.parse(status: 200, contentType: "application/json", content: content.span, format: format)
}

private func check(_ decision: PolicyDecision) {
    precondition(decision.violations.count <= PolicyDecision.violationLimit)
    for code in decision.violations {
        precondition((1...PolicyDecision.codeLimit).contains(code.utf8.count))
        precondition(code.utf8.allSatisfy { (0x20...0x7e).contains($0) } && JSONWriter.quoted(code) == "\"\(code)\"")
    }
    for reason in [decision.userReason, decision.adminReason].compactMap(\.self) {
        precondition((1...PolicyDecision.reasonLimit).contains(reason.utf8.count))
        precondition(JSONWriter.quoted(reason) == "\"\(reason)\"", "a reason must be escaped")
        precondition(PolicyDecision.messageForGRPC(reason).utf8.allSatisfy { (0x20...0x7e).contains($0) })
    }
}

private func isAllowed(_ content: [UInt8], _ format: DecisionFormat) -> Bool {
    let object = try? JSONReader.object(
        in: content, longest: PolicyDecision.contentLimit, most: Int.max, deepest: PolicyDecision.depthLimit)
    if format == .authzen { return object?["decision"] == .boolean(true) }
    return object?["result"] == .boolean(true) || object?["result"]?.object?["allow"] == .boolean(true)
}

private func checkMetadata(_ content: [UInt8]) {
    let found = DecisionMetadata.endpoint(
        status: 200, contentType: "application/json", content: content.span, url: "https://pdp.example")
    if case .success(let path) = found {
        precondition(path.hasPrefix("/") && path.utf8.allSatisfy { (0x21...0x7e).contains($0) })
    }
}
