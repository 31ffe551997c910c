import Attestation
import Cryptography
import DeviceSimulator
import RequestProof
import TrustClient
import Vocabulary

/// Ordinary values, and the gateway's half of a proof.
enum Sample {
    static let appID: AppID = {
        guard let id = AppID("ABCDE12345.org.example.app") else { preconditionFailure("this is an app id") }
        return id
    }()

    static func challenge(_ nonce: String = "abc", receivedAt: Int64 = 0) throws -> ReceivedChallenge {
        ReceivedChallenge(
            try AcceptSignature(components: Coverage().components(for: []), nonce: Array(nonce.utf8)),
            receivedAt: receivedAt)
    }

    static func request(_ method: String = "POST", content: String? = "hello") throws -> AttestedRequest {
        guard let target = RequestTarget(url: "https://localhost:8443/records?a=b") else {
            preconditionFailure("this is a URL")
        }
        return try AttestedRequest(
            method: method, target: target, fields: [("Content-Type", "text/plain"), ("Authorization", "Bearer x")],
            content: content.map { .bytes(Array($0.utf8)) } ?? .none)
    }

    /// Verifies an assertion as the gateway does.
    static func verify(
        _ assertion: [UInt8], _ clientDataHash: [UInt8], by maker: AssertionMaker, rpID: String = appID.description,
        _ library: LibraryContext
    ) -> Result<VerifiedAssertion, AssertionFault> {
        do {
            let point = maker.point
            let key = try P256VerificationKey(point: point.span, library)
            let text = Array(rpID.utf8)
            let rpIDHash = try library.sha256(of: text.span)
            do throws(AssertionFault) {
                return .success(
                    try AssertionVerifier.verify(
                        assertion.span, clientDataHash: clientDataHash.span, key: key, rpIDHash: rpIDHash.span,
                        digests: library))
            } catch {
                return .failure(error)
            }
        } catch {
            return .failure(.checkFailed(CryptographyError(doing: "\(error)")))
        }
    }

    static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}

extension Result {
    var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
