import RequestProof

/// libFuzzer's entry: the structured fields of a proof, by every parser that takes them.
///
/// Properties: no parser traps; the same bytes have the same outcome, with memory used again too; what is accepted
/// re-serialises to itself, and its canonical form has the same meaning; a signature base has one line for each component.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzSignatureInput(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: data, count: count))
    checkSignatureInput(bytes, canonicalForm(bytes))
    checkSignature(bytes)
    checkContentDigest(bytes)
    checkAcceptSignature(bytes)
    return 0
}

/// - Returns: the canonical form, or what is wrong.
private func canonicalForm(_ bytes: [UInt8]) -> Result<[UInt8], Malformation> {
    do throws(Malformation) {
        let canonical = try CanonicalForm.dictionary(bytes.span)
        // Spaces behind commas are added, so what was just short enough may now be too long.
        guard canonical.count <= FieldParser.Limit.bytes else { return .success(canonical) }
        let again = try CanonicalForm.dictionary(canonical.span)
        precondition(again == canonical, "the canonical form has another canonical form")
        return .success(canonical)
    } catch {
        return .failure(error)
    }
}

private func checkSignatureInput(_ bytes: [UInt8], _ canonical: Result<[UInt8], Malformation>) {
    let first = signatureInput(bytes, reusing: nil)
    precondition(first == signatureInput(bytes, reusing: nil), "the same bytes have two outcomes")
    guard case .success(let input) = first else { return }
    precondition(first == signatureInput(bytes, reusing: input), "memory used again changes the outcome")

    // A byte sequence of another's member is the only thing that the canonical form looks at more closely.
    if case .failure(let malformation) = canonical { precondition(malformation == .base64) }
    let member = Array("attest=".utf8) + input.signatureParameters
    precondition(signatureInput(member, reusing: nil) == first, "the member alone has another meaning")
    precondition(canonicalForm(member) == .success(member), "the member is not canonical")
    precondition(contains(bytes, member), "the member is not what was received")
    precondition(input.created >= 0 && (input.expires ?? 0) >= 0)
    checkBuilder(input)
    checkBase(input)
}

/// A client that means the same makes the same, but for the order of parameters.
private func checkBuilder(_ input: SignatureInput) {
    let nonce = input.nonce
    do throws(ProofFault) {
        let built = try ProofBuilder(
            components: input.componentNames, keyID: input.keyID, nonce: nonce.indices.map { nonce[$0] },
            created: input.created, expires: input.expires, algorithm: input.algorithm
        ).input
        precondition(built.components == input.components && built.keyID == input.keyID)
        precondition(built.signatureParameters.sorted() == input.signatureParameters.sorted())
    } catch {
        preconditionFailure("what was parsed cannot be built: \(error)")
    }
}

private func checkBase(_ input: SignatureInput) {
    let part = Array("/a".utf8)
    let request = RequestParts(method: part.span, authority: part.span, path: part.span, query: part.span)
    var base = SignatureBase()
    do throws(ProofFault) {
        try base.build(input, of: request) { name, value in value.add(name) }
    } catch {
        preconditionFailure("no base: \(error)")
    }
    let lines = base.bytes.split(separator: 0x0a, omittingEmptySubsequences: false)
    precondition(lines.count == input.components.count + 1)
    precondition(Array(lines[lines.count - 1]) == Array("\"@signature-params\": ".utf8) + input.signatureParameters)
}

private func checkSignature(_ bytes: [UInt8]) {
    guard case .success(let found) = signature(bytes, reusing: nil) else { return }
    precondition(contains(bytes, found.fieldValue), "the assertion has a second spelling")
    precondition(signature(found.fieldValue, reusing: found) == .success(found), "what is written is read differently")
}

private func checkContentDigest(_ bytes: [UInt8]) {
    guard let digest = try? ContentDigest(parsing: bytes.span) else { return }
    precondition(digest.matches { digest.expected($0) ?? [] })
    for algorithm in ContentDigest.Algorithm.allCases {
        guard let expected = digest.expected(algorithm) else { continue }
        guard let written = ContentDigest.fieldValue(algorithm, expected.span) else {
            preconditionFailure("a digest of the wrong length was accepted")
        }
        precondition(contains(bytes, written), "the digest has a second spelling")
    }
}

private func checkAcceptSignature(_ bytes: [UInt8]) {
    guard let request = try? AcceptSignature(parsing: bytes.span) else { return }
    let written = request.fieldValue
    precondition((try? AcceptSignature(parsing: written.span)) == request, "what is written is read differently")
    precondition(canonicalForm(written) == .success(written), "what is written is not canonical")
}

private func signatureInput(
    _ bytes: [UInt8], reusing previous: SignatureInput?
) -> Result<SignatureInput, ProofFault> {
    do throws(ProofFault) {
        return .success(try SignatureInput(parsing: bytes.span, reusing: previous))
    } catch {
        return .failure(error)
    }
}

private func signature(_ bytes: [UInt8], reusing previous: ProofSignature?) -> Result<ProofSignature, ProofFault> {
    do throws(ProofFault) {
        return .success(try ProofSignature(parsing: bytes.span, reusing: previous))
    } catch {
        return .failure(error)
    }
}

private func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
    guard bytes.count >= part.count else { return false }
    return (0...(bytes.count - part.count)).contains { bytes[$0..<($0 + part.count)].elementsEqual(part) }
}
