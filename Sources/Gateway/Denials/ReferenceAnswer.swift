internal import Encoding
internal import Vocabulary

/// A refusal in the form of the reference system's enforcement point: an object that is both the content and a field.
///
/// Its status and codes are those of gematik/poc-dsr-pep. Only what a device token or a policy refuses has such a form.
struct ReferenceAnswer {
    static let field: StaticString = "X-Pep-Result"

    let status: UInt16
    /// JSON in ASCII, because it is a field's value too.
    let text: [UInt8]

    /// Returns nil for a refusal that the reference system does not know.
    init?(_ refusal: Refusal) {
        switch refusal.denial {
        case .deviceTokenRequired, .deviceTokenInvalid:
            status = 403
            text = Self.text("ACCESS_DENIED", "Access denied")
        case .policyDenied:
            status = 403
            text = Self.text("POLICY_DENIED", "Policy denied", refusal.objection)
        case .policyUnavailable, .internalError:
            status = 500
            text = Self.text("INTERNAL_SERVER_ERROR", "Internal server error")
        default: return nil
        }
    }

    private static func text(_ code: String, _ description: String, _ objection: PolicyObjection? = nil) -> [UInt8] {
        let json = JSONWriter.object { answer in
            answer.member("errorCode", code)
            answer.member("description", description)
            guard let objection else { return }
            answer.object("decision") { decision in
                decision.object("result") { result in
                    result.member("allow", false)
                    result.member(
                        "violations",
                        objection.violations.map { code in
                            { (entry: inout JSONWriter) in entry.member("errorCode", code) }
                        })
                    result.member("reason_user", objection.reason)
                }
            }
        }
        return String(decoding: json, as: UTF8.self).utf16.flatMap { unit in
            unit < 0x80 ? [UInt8(unit)] : Array("\\u\(Hexadecimal.encode(UInt64(unit), digits: 4))".utf8)
        }
    }
}
