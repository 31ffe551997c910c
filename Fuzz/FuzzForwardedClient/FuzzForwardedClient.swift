import Encoding
import EventLoop
import Gateway

/// libFuzzer's entry: what a proxy states of its client, in each form: the certificate and the address.
///
/// Properties: no reader traps; there is at least one certificate and at most as many as a path can have; base64 has one
/// spelling, so that a field with one certificate is what its bytes are written as.
///
/// The first byte of the input chooses the form, and what follows the first line end is the field with the chain.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzForwardedClient(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let input = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
    let lines = input.split(separator: 0x0a, maxSplits: 1, omittingEmptySubsequences: false).map(Array.init)
    let (value, chain) = (lines[0], lines.count > 1 ? lines[1] : [])
    guard !value.isEmpty else { return 0 }
    let forms: [ForwardedCertificateFormat] = [.rfc9440, .pemURLEncoded, .derBase64, .xfcc, .traefik]
    let form = forms[Int(data[0]) % forms.count]
    if case .der(let certificates)? = ForwardedCertificates(value.span, chain: chain.span, form) {
        precondition((1...6).contains(certificates.count))
        let text = Base64.encode(certificates[0])
        switch form {
        case .derBase64: precondition(value == Array(text.utf8))
        case .rfc9440: precondition(value == Array(":\(text):".utf8))
        case .pemURLEncoded, .xfcc, .traefik: break
        }
    }
    for field: ClientAddressField in [.forwarded, .xForwardedFor] {
        if let address = field.address(in: value.span) { precondition(!address.host.isEmpty && address.port == 0) }
    }
    return 0
}
