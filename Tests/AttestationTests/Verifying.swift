import Attestation
import Cryptography

/// Calls the verifier with arrays.
struct Verifying {
    let library: LibraryContext

    init() throws { library = try LibraryContext() }

    func hash(_ bytes: [UInt8]) throws -> [UInt8] { try library.sha256(of: bytes.span).bytes }

    func verify(
        _ assertion: [UInt8], _ clientDataHash: [UInt8], _ key: P256VerificationKey, rpIDHash: [UInt8]
    ) -> Result<VerifiedAssertion, AssertionFault> {
        do throws(AssertionFault) {
            return .success(
                try AssertionVerifier.verify(
                    assertion.span, clientDataHash: clientDataHash.span, key: key, rpIDHash: rpIDHash.span,
                    digests: library))
        } catch {
            return .failure(error)
        }
    }

    /// Only the form.
    func parse(_ assertion: [UInt8]) -> Result<Assertion, AssertionFault> {
        do throws(AssertionFault) { return .success(try Assertion(assertion.span)) } catch { return .failure(error) }
    }
}

/// Only the form of an attestation.
func parseAttestation(_ bytes: [UInt8]) -> Result<AttestationObject, AttestationFault> {
    do throws(AttestationFault) { return .success(try AttestationObject(bytes.span)) } catch { return .failure(error) }
}

extension Result {
    var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
