internal import Cryptography
internal import Encoding
internal import Gateway
internal import Registry
internal import Vocabulary

/// The rules of one generation, built from its settings. Belongs to the thread of its library context.
struct FederationRules {
    let settings: FederationSettings
    let assertions: AssertionVerification
    private let logNames: DeviceLogNames
    private let people: AuthenticationKey
    private let library: LibraryContext

    init(
        _ settings: FederationSettings, _ secrets: GatewaySecrets, _ library: LibraryContext
    ) throws(CryptographyError) {
        self.settings = settings
        self.library = library
        assertions = AssertionVerification(
            url: settings.url, lifeWithoutExpiry: settings.assertionLifeWithoutExpiry, library)
        logNames = try secrets.logNames(library)
        let key = try secrets.federationKey(library)
        people = try AuthenticationKey(key.span, library)
    }

    /// A new token, and what is stored of it.
    struct FreshToken {
        let text: String
        let id: Fingerprint
    }

    /// Draws a token. Neither it nor its `jti` begins with a hyphen, which command lines take for an option.
    func freshToken() throws(FederationFault) -> FreshToken {
        try FederationFault.checking { () throws(CryptographyError) in
            while true {
                let text = Base64URL.encode(try library.randomBytes(32))
                let id = try fingerprint(of: text)
                if !text.hasPrefix("-"), !id.base64URL.hasPrefix("-") { return FreshToken(text: text, id: id) }
            }
        }
    }

    private func fingerprint(of text: String) throws(CryptographyError) -> Fingerprint {
        let bytes = Array(text.utf8)
        guard let id = Fingerprint(try library.sha256(of: bytes.span).bytes) else {
            preconditionFailure("a SHA-256 has 32 bytes")
        }
        return id
    }

    /// Returns what is stored of a token that was received.
    ///
    /// - Returns: nil for text that is none.
    func id(ofToken text: String) throws(FederationFault) -> Fingerprint? {
        guard text.utf8.count == 43 else { return nil }
        return try FederationFault.checking { () throws(CryptographyError) in try fingerprint(of: text) }
    }

    /// Returns the person's pseudonym at a service, or the device's if it was admitted for none. Services that compare
    /// notes cannot link people.
    func subject(of token: FoundToken) throws(FederationFault) -> String {
        let audience = Array(token.token.audience.utf8)
        let kind = token.subject == nil ? "device" : "person"
        let message =
            Array("\(kind) \(audience.count):".utf8) + audience + (token.subject?.bytes ?? token.token.device.bytes)
        return try FederationFault.checking { () throws(CryptographyError) in
            Base64URL.encode(try people.code(of: message.span).bytes)
        }
    }

    /// Returns the device's name in logs. Nil if it cannot be computed.
    func label(of device: KeyID) -> String? {
        guard let name = try? logNames.name(of: device) else { return nil }
        return Hexadecimal.encode(name, digits: 16)
    }

    /// Parses a scope (RFC 6749 section 3.3).
    func scope(_ text: String?) throws(FederationFault) -> [String]? {
        guard let text else { return nil }
        let words = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        guard FederationToken.admits(text), words.allSatisfy({ !$0.isEmpty }), Set(words).count == words.count else {
            throw FederationFault(.invalidScope, "the scope is malformed, or names a word twice")
        }
        return words
    }

    /// Returns the operator of a token, which an operator has chosen in any form.
    func operatorName(_ text: String) throws(FederationFault) -> String? {
        let id = try FederationFault.checking { () throws(CryptographyError) in try fingerprint(of: text) }
        return settings.operators.first { $0.secret == id }?.name
    }
}

extension FederationFault {
    init(_ refusal: TokenRefusal, isClient: Bool) {
        let credentials: FederationError = isClient ? .invalidClient : .invalidGrant
        self =
            switch refusal {
            case .assertionUsed: FederationFault(credentials, "the assertion was used before")
            case .assertionExpired: FederationFault(credentials, "the assertion has expired")
            case .instanceUnknown:
                FederationFault(credentials, "the assertion's key is not bound to an active device that it names")
            case .personMissing: FederationFault(.accessDenied, "the device was admitted for no person")
            case .versionExcluded:
                FederationFault(.invalidClient, "this version of the app is no longer admitted: update it")
            case .parentInvalid:
                FederationFault(.invalidGrant, "the instance has no live token from which this one can be derived")
            case .scopeExceeded: FederationFault(.invalidScope, "the scope exceeds what may be granted")
            case .serviceUnknown: FederationFault(.invalidRequest, "aud is the URL of no approved service")
            case .tooManyTokens:
                FederationFault(.temporarilyUnavailable, "the device has too many tokens", retryAfter: 60)
            case .codeInvalid:
                FederationFault(.invalidGrant, "the code is unknown, expired, used, or of another service")
            }
    }
}
