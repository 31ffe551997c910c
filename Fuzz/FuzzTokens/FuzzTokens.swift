import Attestation
import Challenges
import Cryptography
import Encoding
import Enrolment
import Vocabulary

/// libFuzzer's entry: key-binding requests, admission tokens and device tokens, with the keys and the metadata of issuers.
///
/// Properties: nothing traps; the same bytes have the same outcome; what is not signed is never accepted; what is accepted
/// has exactly the members it must have, and speaks for the key that signed.
///
/// The first byte of the input decides what the rest is: a token, the content of a request, a JWK Set, metadata, or header
/// and claims in two lines, which are then signed so that the fuzzer gets behind the signature. In these, and in
/// a set, `%k`, `%i`, `%x` and `%y` stand for the key's thumbprint, its id in base64 and its coordinates.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzTokens(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    switch data[0] % 7 {
    case 0: token(bytes)
    case 1: unsigned(bytes)
    case 2: binding(bytes)
    case 3: admission(bytes)
    case 4: deviceToken(bytes)
    case 5: keySet(bytes)
    default: metadata(bytes)
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
    let deviceTokens: DeviceTokenVerifier
    let holder: DeviceTokenHolder
    let keyID: [UInt8]

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
            issuer: "i", keys: .listed([key.point]), audience: provider, longestLife: 3600,
            pseudonymKey: pseudonyms, library)
        deviceTokens = try DeviceTokenVerifier(
            DeviceTokenDemands(issuer: "i", binding: .sub), keys: Array(#"{"keys":[\#(text)]}"#.utf8), library)
        let point = key.point
        let keyID = try library.sha256(of: point.span).bytes
        holder = DeviceTokenHolder(thumbprint: digest, key: KeyID(digest: keyID.span))
        self.keyID = keyID
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

    func filledIn(_ line: ArraySlice<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = line
        while let byte = rest.popFirst() {
            switch (byte, rest.first) {
            case (UInt8(ascii: "%"), UInt8(ascii: "k")): bytes += thumbprint.utf8
            case (UInt8(ascii: "%"), UInt8(ascii: "i")): bytes += Base64.encode(keyID).utf8
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

private func deviceToken(_ lines: [UInt8]) {
    guard let text = world.signed(lines) else { return }
    let outcome = verified(text)
    precondition(outcome == verified(text), "the same bytes have two outcomes")
    var changed = text
    changed[changed.count - 2] ^= 1
    precondition(!world.deviceTokens.report(changed, of: world.holder, at: World.now).isAccepted, "a changed signature")
    let report = world.deviceTokens.report(text, of: world.holder, at: World.now)
    switch outcome {
    case .success(let token):
        precondition(report.isAccepted && report.token == token)
        precondition(token.issuedAt <= World.now + DeviceTokenVerifier.clockTolerance)
        precondition((World.now + 1...token.issuedAt + DeviceTokenDemands.standardAge).contains(token.end))
        precondition(token.end <= token.expiry)
    case .failure(let fault):
        precondition(report.fault == fault && !fault.reason.isEmpty)
        if case .checkFailed = fault { preconditionFailure("the check could not be made") }
        precondition(fault != .signature, "the signature is right")
    }
}

private func verified(_ text: [UInt8]) -> Result<DeviceToken, DeviceTokenFault> {
    do throws(DeviceTokenFault) {
        return .success(try world.deviceTokens.verify(text, of: world.holder, at: World.now))
    } catch {
        return .failure(error)
    }
}

private func keySet(_ text: [UInt8]) {
    do throws(JWKSetFault) {
        let set = try JWKSet(world.filledIn(text[...]), world.library)
        precondition((1...JWKSet.keyLimit).contains(set.keys.count))
        for key in set.keys {
            precondition(JWSAlgorithm.allCases.contains(where: key.accepts))
            precondition(!(key.accepts(.es256) && key.accepts(.rs256)), "one key for two types of signatures")
        }
        let names = set.keys.compactMap(\.id)
        precondition(Set(names).count == names.count, "two keys of one name")
    } catch {
        precondition(!error.reason.isEmpty)
    }
}

private func metadata(_ text: [UInt8]) {
    do throws(IssuerMetadata.Fault) {
        let location = try IssuerMetadata.location(in: text, issuer: World.provider)
        precondition(location.origin.utf8.count + location.rest.utf8.count <= text.count)
        precondition((location.origin + location.rest).utf8.allSatisfy { (0x21...0x7e).contains($0) })
    } catch {
        precondition(!error.reason.isEmpty)
    }
}
