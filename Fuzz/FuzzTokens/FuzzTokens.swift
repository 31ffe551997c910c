import Attestation
import Challenges
import Cryptography
import Encoding
import Enrolment

/// libFuzzer's entry: key-binding requests and admission tokens.
///
/// Properties: nothing traps; the same bytes have the same outcome; what is not signed is never accepted; what is accepted
/// has exactly the members it must have, and speaks for the key that signed.
///
/// The first byte of the input decides what the rest is: a token, the content of a request, or header and claims in two
/// lines, which are then signed so that the fuzzer gets behind the signature. In these `%k`, `%x` and `%y` stand for the
/// key's thumbprint and coordinates.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzKeyBindingJWT(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    switch data[0] % 4 {
    case 0: token(bytes)
    case 1: unsigned(bytes)
    case 2: binding(bytes)
    default: admission(bytes)
    }
    return 0
}

/// Kept from one input to the next. libFuzzer has one thread.
nonisolated(unsafe) private let world: World = {
    do { return try World() } catch { fatalError("\(error)") }
}()

private struct World {
    static let provider = "https://a"
    static let now: Int64 = 1_790_000_000

    let library: LibraryContext
    let key: P256SigningKey
    let thumbprint: String
    let verifier: KeyBindingVerifier
    let admission: AdmissionTokenVerifier

    init() throws {
        library = try LibraryContext()
        key = try P256SigningKey(PrivateKey.generateP256(library), library)
        let text =
            #"{"crv":"P-256","kty":"EC","x":"\#(encoded(key.point[1..<33]))","y":"\#(encoded(key.point[33...]))"}"#
        let bytes = Array(text.utf8)
        let digest = try library.sha256(of: bytes.span).bytes
        thumbprint = encoded(digest[...])
        guard let provider = ProviderURL(Self.provider) else { fatalError("a URL") }
        let pseudonyms = try AuthenticationKey(bytes.span, library)
        verifier = KeyBindingVerifier(provider: provider, library)
        admission = try AdmissionTokenVerifier(
            issuer: "i", points: [key.point], audience: provider, longestLife: 3600,
            pseudonymKey: pseudonyms, library)
    }

    /// A token of two lines, signed; nil if there are not two.
    func signed(_ lines: [UInt8]) -> [UInt8]? {
        let parts = lines.split(separator: 0x0a, maxSplits: 1, omittingEmptySubsequences: false).map(filledIn)
        guard parts.count == 2 else { return nil }
        let input = Array((encoded(parts[0][...]) + "." + encoded(parts[1][...])).utf8)
        guard let signature = try? sign(input) else { fatalError("cannot sign") }
        return input + Array(("." + encoded(signature[...])).utf8)
    }

    private func sign(_ input: [UInt8]) throws(CryptographyError) -> [UInt8] {
        let der = try key.sign(digest: library.sha256(of: input.span))
        let length = Int(der[3])
        return [der[4..<(4 + length)], der[(6 + length)...]].flatMap { integer in
            [UInt8](repeating: 0, count: max(0, 32 - integer.count)) + integer.suffix(32)
        }
    }

    private func filledIn(_ line: ArraySlice<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = line
        while let byte = rest.popFirst() {
            switch (byte, rest.first) {
            case (UInt8(ascii: "%"), UInt8(ascii: "k")): bytes += thumbprint.utf8
            case (UInt8(ascii: "%"), UInt8(ascii: "x")): bytes += encoded(key.point[1..<33]).utf8
            case (UInt8(ascii: "%"), UInt8(ascii: "y")): bytes += encoded(key.point[33...]).utf8
            default:
                bytes.append(byte)
                continue
            }
            rest.removeFirst()
        }
        return bytes
    }
}

private func encoded(_ bytes: ArraySlice<UInt8>) -> String { Base64URL.encode(bytes.span) }

private func token(_ bytes: [UInt8]) {
    guard let token = try? CompactJWS(bytes) else { return }
    precondition(bytes == token.signingInput + Array(("." + encoded(token.signature[...])).utf8), "a second spelling")
}

private func verify(_ content: [UInt8]) -> Result<KeyBinding, EnrolmentFault> {
    do throws(EnrolmentFault) { return .success(try world.verifier.verify(content, now: World.now)) } catch {
        return .failure(error)
    }
}

private func unsigned(_ content: [UInt8]) {
    guard case .failure(let fault) = verify(content) else { preconditionFailure("accepted what nobody signed") }
    precondition(verify(content) == .failure(fault) && !fault.error.isOurs && !fault.reason.isEmpty)
}

private func binding(_ lines: [UInt8]) {
    guard let text = world.signed(lines) else { return }
    let content = Array(#"{"assertion":""#.utf8) + text + Array(#""}"#.utf8)
    let outcome = verify(content)
    precondition(outcome == verify(content), "the same bytes have two outcomes")
    guard case .success(let binding) = outcome, let token = try? CompactJWS(text) else { return }
    precondition(token.header.members.count == 3)
    switch binding.proof {
    case .assertion: precondition(token.payload.members.count == 9)
    case .signature(_, let counter, let chain):
        precondition(token.payload.members.count == (chain == nil ? 9 : 10))
        precondition(token.payload["counter"]?.integer == Int64(counter) && counter > 0)
    }
    precondition(binding.point == world.key.point && binding.thumbprint == world.thumbprint)
    precondition(token.header["kid"]?.spells(world.thumbprint) == true)
    precondition(
        token.payload["aud"]?.spells(World.provider) == true && token.payload["nonce"]?.text == binding.nonce.text)
    let issuedAt = token.payload["iat"]?.integer ?? 0
    precondition((World.now - 60...World.now + 60).contains(issuedAt))
    precondition((World.now + 1...issuedAt + 300).contains(token.payload["exp"]?.integer ?? 0))
}

private func admission(_ lines: [UInt8]) {
    guard let text = world.signed(lines) else { return }
    do throws(AdmissionFault) {
        let admission = try world.admission.verify(text, keyThumbprint: world.thumbprint, now: World.now)
        precondition((1...128).contains(admission.tokenID.count))
        precondition((World.now + 1...World.now + 3600).contains(admission.expiry))
    } catch {
        if case .checkFailed = error { preconditionFailure("the check could not be made") }
        precondition(error != .signature, "the signature is right")
    }
}
