public import Cryptography
package import Encoding
public import Vocabulary

/// How a device token is bound to the client that presents it.
public enum DeviceTokenBinding: String, CaseIterable, Sendable {
    /// By `x5t#S256` in `cnf`: the certificate's SHA-256 (RFC 8705 section 3.1).
    case x5t
    /// By `sub`: SHA-256 of the point of the certificate's key, in base64. For issuers that put another certificate
    /// into `cnf`.
    case sub
}

/// What a device token must be.
public struct DeviceTokenDemands: Equatable, Sendable {
    /// The required `iss`, compared byte by byte. Nil for any.
    public var issuer: String?
    /// Nil if the binding is not checked.
    public var binding: DeviceTokenBinding?
    /// The maximum age in seconds, whatever `exp` says.
    public var maximumAge: Int64

    public init(issuer: String?, binding: DeviceTokenBinding?, maximumAge: Int64 = Self.standardAge) {
        self.issuer = issuer
        self.binding = binding
        self.maximumAge = maximumAge
    }

    /// The default of `maximumAge`: one hour.
    public static let standardAge: Int64 = 3_600
}

/// The client that presents a device token.
public struct DeviceTokenHolder: Sendable {
    /// SHA-256 of its certificate.
    public let thumbprint: [UInt8]
    /// SHA-256 of the point of the certificate's key. Nil if the key is not on P-256.
    public let key: KeyID?

    public init(thumbprint: [UInt8], key: KeyID?) {
        self.thumbprint = thumbprint
        self.key = key
    }
}

/// A verified device token: an issuer's signed statement of a device's posture.
public struct DeviceToken: Equatable, Sendable {
    package let claims: JSONObject
    /// The claims as they were signed: an object in JSON.
    package let claimsText: [UInt8]
    /// The times of `iat` and `exp` in seconds since 1970.
    public let issuedAt: Int64
    public let expiry: Int64
    /// The time at which it ends: `exp`, or earlier by its age. In seconds since 1970.
    public let end: Int64
}

/// A verifier of the device tokens of one issuer.
///
/// Another party defines the token, so unknown claims are ignored (RFC 7519 section 4). Belongs to the thread of its
/// library context.
public struct DeviceTokenVerifier {
    /// Length limit of a token in bytes.
    public static let lengthLimit = 8 << 10
    /// Tolerance for the issuer's clock being ahead, in seconds.
    public static let clockTolerance: Int64 = 60

    private let demands: DeviceTokenDemands
    private let keys: JWKSet

    /// Creates a verifier.
    ///
    /// - Parameter keys: The issuer's JWK Set (RFC 7517 section 5).
    /// - Throws: if it is no set with a key for ES256, RS256 or PS256.
    public init(
        _ demands: DeviceTokenDemands, keys: [UInt8], _ library: LibraryContext
    ) throws(CryptographyError) {
        self.demands = demands
        do throws(JWKSetFault) { self.keys = try JWKSet(keys, library) } catch {
            throw CryptographyError(doing: "read the JWK Set: \(error.reason)")
        }
    }

    /// Performs the checks in the order of `DeviceTokenStep` until one fails.
    ///
    /// - Parameters:
    ///   - text: The token as received.
    ///   - holder: The client that presents it.
    ///   - time: Seconds since 1970.
    public func verify(
        _ text: [UInt8], of holder: DeviceTokenHolder, at time: Int64
    ) throws(DeviceTokenFault) -> DeviceToken {
        let signed = try Self.parse(text)
        let token = try read(signed)
        for step in DeviceTokenStep.allCases { try check(step, signed, token, of: holder, at: time) }
        return token
    }

    private static func parse(_ text: [UInt8]) throws(DeviceTokenFault) -> CompactJWS {
        guard text.count <= lengthLimit, let signed = try? CompactJWS(text) else { throw .malformed }
        guard signed.header["typ"]?.spells("JWT") == true else { throw .type }
        return signed
    }

    private func read(_ signed: CompactJWS) throws(DeviceTokenFault) -> DeviceToken {
        let claims = signed.payload
        guard claims["iss"]?.text != nil else { throw .claim(.issuer) }
        guard let issuedAt = claims["iat"]?.integer, NumericDate.range.contains(issuedAt) else {
            throw .claim(.issuedAt)
        }
        guard let expiry = claims["exp"]?.integer, NumericDate.range.contains(expiry) else { throw .claim(.expiry) }
        return DeviceToken(
            claims: claims, claimsText: signed.payloadText, issuedAt: issuedAt, expiry: expiry,
            end: min(expiry, issuedAt + demands.maximumAge))
    }

    /// - Parameter holder: Nil if the binding is not checked.
    private func check(
        _ step: DeviceTokenStep, _ signed: CompactJWS, _ token: DeviceToken, of holder: DeviceTokenHolder?,
        at time: Int64
    ) throws(DeviceTokenFault) {
        switch step {
        case .form, .claims: break
        case .issuer:
            guard let issuer = demands.issuer else { break }
            guard token.claims["iss"]?.spells(issuer) == true else { throw .issuer }
        case .time:
            guard token.issuedAt <= time + Self.clockTolerance else { throw .fromTheFuture }
            guard time < token.expiry else { throw .expired }
            guard time < token.end else { throw .tooOld }
        case .binding:
            guard let binding = demands.binding, let holder else { break }
            guard Self.isBound(token.claims, binding, to: holder) else { throw .binding(binding) }
        case .signature: try verifySignature(signed)
        }
    }

    private static func isBound(
        _ claims: JSONObject, _ binding: DeviceTokenBinding, to holder: DeviceTokenHolder
    ) -> Bool {
        switch binding {
        case .x5t:
            let thumbprint = Base64URL.encode(holder.thumbprint)
            return holder.thumbprint.count == 32 && claims["cnf"]?.object?["x5t#S256"]?.spells(thumbprint) == true
        case .sub:
            guard let key = holder.key else { return false }
            return claims["sub"]?.spells(Base64.encode(key.bytes)) == true
        }
    }

    private func verifySignature(_ signed: CompactJWS) throws(DeviceTokenFault) {
        do throws(JWSVerificationFault) { try keys.verify(signed) } catch {
            switch error {
            case .header: throw .header
            case .unknownKey: throw .keyUnknown
            case .algorithm: throw .algorithm
            case .signature: throw .signature
            case .checkFailed(let error): throw .checkFailed(error)
            }
        }
    }

    /// Performs all checks, even after one fails, and returns their outcomes for people.
    ///
    /// - Parameter holder: Nil if the binding is not checked.
    public func report(_ text: [UInt8], of holder: DeviceTokenHolder?, at time: Int64) -> DeviceTokenReport {
        let (signed, token): (CompactJWS, DeviceToken)
        do throws(DeviceTokenFault) {
            signed = try Self.parse(text)
            token = try read(signed)
        } catch {
            let failed = error.step
            let steps = DeviceTokenStep.allCases.map { step in
                let outcome: StepOutcome<DeviceTokenFault> =
                    step == failed ? .refused(error) : step == .form ? .passed : .notReached
                return DeviceTokenReport.Entry(step: step, outcome: outcome)
            }
            return DeviceTokenReport(steps: steps, token: nil)
        }
        let steps = DeviceTokenStep.allCases.map { step in
            do throws(DeviceTokenFault) {
                try check(step, signed, token, of: holder, at: time)
                return DeviceTokenReport.Entry(
                    step: step, outcome: isDemanded(step, holder) ? .passed : .notDemanded(nil))
            } catch {
                return DeviceTokenReport.Entry(step: step, outcome: .refused(error))
            }
        }
        return DeviceTokenReport(steps: steps, token: token)
    }

    private func isDemanded(_ step: DeviceTokenStep, _ holder: DeviceTokenHolder?) -> Bool {
        switch step {
        case .issuer: demands.issuer != nil
        case .binding: demands.binding != nil && holder != nil
        case .form, .claims, .time, .signature: true
        }
    }
}

/// The outcomes of the checks of a token, for people.
public struct DeviceTokenReport: Sendable {
    public struct Entry: Sendable {
        public let step: DeviceTokenStep
        public let outcome: StepOutcome<DeviceTokenFault>
    }

    public let steps: [Entry]
    /// What the token says. Nil if it cannot be read. It is verified only if the token is accepted.
    public let token: DeviceToken?

    /// The first fault.
    public var fault: DeviceTokenFault? { steps.lazy.compactMap(\.outcome.fault).first }
    public var isAccepted: Bool { fault == nil }
}
