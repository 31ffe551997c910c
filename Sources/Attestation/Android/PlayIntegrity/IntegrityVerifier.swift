public import Cryptography
internal import Encoding

/// What an app demands of Play Integrity.
public struct IntegrityDemands: Equatable, Sendable {
    /// The package name. Nil for any.
    public var package: String?
    /// SHA-256 of the certificates that may have signed the app. Nil for any.
    public var signingCertificates: [[UInt8]]?
    public var minimumVersion: UInt64?
    /// A verdict on the device, such as `MEETS_STRONG_INTEGRITY`. Nil for any.
    public var device: String?

    public init(
        package: String? = nil, signingCertificates: [[UInt8]]? = nil, minimumVersion: UInt64? = nil,
        device: String? = nil
    ) {
        self.package = package
        self.signingCertificates = signingCertificates
        self.minimumVersion = minimumVersion
        self.device = device
    }
}

/// Verification of Play Integrity tokens with the app's own keys, without a call to Google.
///
/// Google's protection against replay does not apply to local verification: the caller ensures that the nonce was made
/// for this phone and is used once. Belongs to the thread of its library context.
public struct IntegrityVerifier {
    private let demands: IntegrityDemands
    private let keys: IntegrityKeys
    private let library: LibraryContext

    /// The maximum age in seconds.
    static let longestAge: Int64 = 600
    /// Tolerance for a time ahead of ours, in seconds.
    static let clockTolerance: Int64 = 60

    public init(_ demands: IntegrityDemands, _ keys: IntegrityKeys, _ library: LibraryContext) {
        self.demands = demands
        self.keys = keys
        self.library = library
    }

    /// Performs the checks in the order of `IntegrityStep` until one fails.
    ///
    /// - Parameters:
    ///   - token: The text as received.
    ///   - nonce: What the app bound the token to.
    ///   - time: Seconds since 1970.
    public func verify(_ token: [UInt8], nonce: [UInt8], at time: Int64) throws(IntegrityFault) -> IntegrityPayload {
        let payload = try open(token)
        for step in IntegrityStep.allCases { try check(step, payload, nonce: nonce, at: time) }
        return payload
    }

    /// Decrypts a token and verifies Google's signature.
    private func open(_ token: [UInt8]) throws(IntegrityFault) -> IntegrityPayload {
        let signed = try IntegrityToken(token).open(by: keys.decryption, library)
        // The sender must not choose the algorithm (RFC 8725 section 3.1).
        guard signed.header["alg"]?.spells("ES256") == true, signed.header["crit"] == nil else {
            throw .signatureAlgorithm
        }
        let isSigned = try IntegrityFault.checking { () throws(CryptographyError) in
            try signed.isSigned(by: keys.verification, library)
        }
        guard isSigned else { throw .signature }
        return try IntegrityPayload(signed.payload)
    }

    /// - Parameter nonce: Nil if it is not compared.
    private func check(
        _ step: IntegrityStep, _ payload: IntegrityPayload, nonce: [UInt8]?, at time: Int64
    ) throws(IntegrityFault) {
        switch step {
        case .form, .decryption, .signature, .payload: break
        case .package:
            guard let package = demands.package else { break }
            // Texts of Swift are equal also if they only look alike.
            let isSame = payload.requestPackage.utf8.elementsEqual(package.utf8)
            guard isSame, payload.package.map({ $0.utf8.elementsEqual(package.utf8) }) ?? true else {
                throw .packageMismatch
            }
        case .nonce:
            guard let nonce else { break }
            guard let bound = IntegrityPayload.decode(payload.nonce), ConstantTime.areEqual(bound.span, nonce.span)
            else { throw .nonceMismatch }
        case .age:
            let seconds = payload.milliseconds / 1000
            guard seconds <= time + Self.clockTolerance else { throw .fromTheFuture }
            guard time - seconds <= Self.longestAge else { throw .tooOld }
        case .recognition:
            guard payload.recognition == "PLAY_RECOGNIZED" else { throw .recognition(payload.recognition) }
        case .certificate:
            guard let known = demands.signingCertificates else { break }
            guard payload.certificates.contains(where: known.contains) else { throw .certificateMismatch }
        case .version:
            guard let minimum = demands.minimumVersion else { break }
            guard let version = payload.version, version >= minimum else { throw .versionTooLow(payload.version) }
        case .device:
            guard let device = demands.device else { break }
            guard payload.devices.contains(device) else { throw .device }
        }
    }

    /// Performs all checks, even after one fails, and returns their outcomes for people.
    ///
    /// - Parameter nonce: Nil if it is not compared.
    public func report(_ token: [UInt8], nonce: [UInt8]?, at time: Int64) -> IntegrityReport {
        let payload: IntegrityPayload
        do throws(IntegrityFault) { payload = try open(token) } catch {
            let failed = error.step
            var hasFailed = false
            let steps = IntegrityStep.allCases.map { step in
                defer { hasFailed = hasFailed || step == failed }
                return IntegrityReport.Entry(
                    step: step, outcome: step == failed ? .refused(error) : hasFailed ? .notReached : .passed)
            }
            return IntegrityReport(steps: steps, payload: nil)
        }
        let steps = IntegrityStep.allCases.map { step in
            do throws(IntegrityFault) {
                try check(step, payload, nonce: nonce, at: time)
                return IntegrityReport.Entry(step: step, outcome: isDemanded(step, nonce) ? .passed : .notDemanded(nil))
            } catch {
                return IntegrityReport.Entry(step: step, outcome: .refused(error))
            }
        }
        return IntegrityReport(steps: steps, payload: payload)
    }

    private func isDemanded(_ step: IntegrityStep, _ nonce: [UInt8]?) -> Bool {
        switch step {
        case .package: demands.package != nil
        case .nonce: nonce != nil
        case .certificate: demands.signingCertificates != nil
        case .version: demands.minimumVersion != nil
        case .device: demands.device != nil
        case .form, .decryption, .signature, .payload, .age, .recognition: true
        }
    }
}

/// The outcomes of the checks of a token, for people.
public struct IntegrityReport: Sendable {
    public struct Entry: Sendable {
        public let step: IntegrityStep
        public let outcome: StepOutcome<IntegrityFault>
    }

    public let steps: [Entry]
    /// What Google says. Nil if the token cannot be decrypted or was not signed by Google.
    public let payload: IntegrityPayload?

    /// The first fault.
    public var fault: IntegrityFault? { steps.lazy.compactMap(\.outcome.fault).first }
    public var isAccepted: Bool { fault == nil }
}
