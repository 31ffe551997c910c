internal import HTTP

/// Which of the client's header fields reach the upstream.
///
/// An upstream believes what proxies say about the client. So everything a client could say in a proxy's name is taken
/// out, whether or not this gateway says it too: a field that is stripped today cannot be spoofed tomorrow. Fields that
/// would make a server behind execute another method or path than the authorised one are refused outright.
struct FieldPolicy {
    enum Verdict {
        case forward
        case strip
        case refuse
    }

    /// All in lower case.
    private let names: [[UInt8]]
    private let prefixes: [[UInt8]]
    private let refused: [[UInt8]]
    /// Bit n stands for the n-th letter: those with which any entry starts. Most fields are let through by this alone.
    private let initials: UInt32
    /// Those with which a refused one starts.
    private let refusedInitials: UInt32

    /// - Parameter additional: names the operator's conf file adds.
    init(additional: [String]) {
        names = (Self.builtInNames + additional.map { $0.lowercased() }).map { Array($0.utf8) }
        prefixes = Self.builtInPrefixes.map { Array($0.utf8) }
        refused = Self.refusedNames.map { Array($0.utf8) }
        initials = Self.initials(of: names + prefixes + refused)
        refusedInitials = Self.initials(of: refused)
    }

    static let builtInNames = [
        "forwarded", "x-forwarded", "x-real-ip", "x-device-token",
        // What other proxies and content networks say about the client; a service may have believed them before.
        "true-client-ip", "x-client-ip", "x-cluster-client-ip", "cf-connecting-ip", "remote-user", "x-remote-user",
        "x-arr-clientcert", "x-client-verify", "x-client-dn", "x-original-host",
    ]
    static let builtInPrefixes = [
        "client-cert", "attest-", "x-forwarded-", "x-client-cert", "x-ssl-", "ssl-client-", "x-amzn-mtls-", "zeta-",
    ]
    static let refusedNames = [
        "x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url",
        "x-original-method", "x-original-uri",
    ]

    /// Whether `verdict` is `.refuse`, at less expense.
    func refuses(_ name: Span<UInt8>, _ known: FieldName) -> Bool {
        // HTTP knows none of them.
        guard known == .other, refusedInitials & Self.initial(name[0]) != 0 else { return false }
        for candidate in refused where name.equals(lowercase: candidate) { return true }
        return false
    }

    /// - Parameters:
    ///   - name: the field's name as sent; at least one byte.
    ///   - known: what HTTP knows it as.
    func verdict(_ name: Span<UInt8>, _ known: FieldName) -> Verdict {
        // The gateway writes the framing itself, and answers 100-continue here.
        if known.isHopByHop || known == .contentLength || known == .expect { return .strip }
        guard initials & Self.initial(name[0]) != 0 else { return .forward }
        if refuses(name, known) { return .refuse }
        for candidate in names where name.equals(lowercase: candidate) { return .strip }
        for prefix in prefixes where name.count >= prefix.count {
            if name.extracting(first: prefix.count).equals(lowercase: prefix) { return .strip }
        }
        return .forward
    }

    private static func initials(of entries: [[UInt8]]) -> UInt32 { entries.reduce(0) { $0 | initial($1[0]) } }

    private static func initial(_ byte: UInt8) -> UInt32 {
        let letter = (byte | 0x20) &- UInt8(ascii: "a")
        return letter < 26 ? 1 << UInt32(letter) : 1 << 31
    }
}
