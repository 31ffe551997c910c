import Attestation
import Cryptography
import Vocabulary

/// libFuzzer's entry: attestation objects, their authenticator data, and the whole verification.
///
/// Properties: nothing traps; what is found lies within the input; a verifier that makes all checks and one that stops at the
/// first refusal agree; nothing that Apple did not sign is accepted.
///
/// The first byte of the input decides what the rest is read as.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzAttestation(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    switch data[0] % 4 {
    case 0: object(bytes)
    case 1: attestedData(bytes, in: 0..<bytes.count)
    case 2: verification(bytes)
    default: version(bytes)
    }
    return 0
}

private func object(_ bytes: [UInt8]) {
    let span = bytes.span
    do throws(AttestationFault) {
        let found = try AttestationObject(span)
        precondition(bytes.count <= AttestationObject.lengthLimit)
        let parts = [found.leaf, found.intermediate, found.data.range] + (found.receipt.map { [$0] } ?? [])
        for (index, part) in parts.enumerated() {
            precondition(part.lowerBound > 0 && part.upperBound <= bytes.count)
            for other in parts[..<index] { precondition(!part.overlaps(other)) }
        }
        attestedData(bytes, in: found.data.range)
    } catch {
        precondition(error.step == .form && !error.reason.isEmpty, "parsing found \(error)")
    }
}

private func attestedData(_ bytes: [UInt8], in range: Range<Int>) {
    let span = bytes.span
    guard let found = try? AttestedData(span, in: range) else { return }
    precondition(found.range == range && found.rpIDHash.count == 32 && found.aaguid.count == 16)
    precondition(found.aaguid.lowerBound == range.lowerBound + AuthenticatorData.fixedLength)
    precondition(found.credentialID.lowerBound == found.aaguid.upperBound + 2)
    precondition(found.extensions.lowerBound > found.credentialID.upperBound)
    precondition(found.extensions.upperBound == range.upperBound)
    for part in [found.key?.x, found.key?.y] {
        guard let part else { continue }
        precondition(part.count == 32 && part.lowerBound > found.credentialID.upperBound)
        precondition(part.upperBound <= found.extensions.lowerBound)
    }
}

/// Kept from one input to the next. libFuzzer has one thread.
nonisolated(unsafe) private let verifier: AttestationVerifier = {
    do {
        let library = try LibraryContext()
        let roots = try AttestationVerifier.Roots(
            apple: AppleRoots.appAttestation(library), receipts: AppleRoots.receipts(library))
        let app = AttestedApp(id: "TEAM123456.com.example.app", environment: .production)
        return try AttestationVerifier(apps: [app], roots: roots, library)
    } catch {
        fatalError("\(error)")
    }
}()

private func verification(_ bytes: [UInt8]) {
    let zeros = [UInt8](repeating: 0, count: 32)
    guard let keyID = KeyID(digest: zeros.span) else { return }
    let evidence = AttestationEvidence(attestation: bytes, clientDataHash: [], keyID: keyID)
    let report = verifier.report(evidence, at: 1_790_000_000)
    precondition(report.verified == nil, "accepted what Apple did not sign")
    do throws(AttestationFault) {
        _ = try verifier.verify(evidence, at: 1_790_000_000)
        preconditionFailure("accepted what Apple did not sign")
    } catch {
        precondition(error == report.fault, "\(error) first, \(String(describing: report.fault)) of all")
    }
}

/// Equal to itself, and below what has one more.
private func version(_ bytes: [UInt8]) {
    guard let found = BundleVersion(bytes.span) else { return }
    precondition(found == found && !(found < found))
    let next = bytes + Array(".1".utf8)
    if let longer = BundleVersion(next.span) { precondition(found < longer) }
}
